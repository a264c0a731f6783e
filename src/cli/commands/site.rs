//! `cospan site ...`

use cospan_domain::units::{BitsPerSecond, DurationMs, DurationUs};

use super::site_setup;
use crate::api::v1::Instant;
use crate::api::v1::partition::{LaneReport, WaitReport};
use crate::api::v1::quantity::Length;
use crate::api::v1::site::{
    Counts, ForceOrder, FreeStep, LinkReport, SiteList, SiteReport, TimelineReport, WindowEnd,
    WindowReport,
};
use crate::cli::args_operate::{SiteSubcommand, VerdictArg};
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExit};
use crate::cli::local_time::{age, clock, local, now, rough};
use crate::cli::print::{bold, columns, fields, line, state};
use crate::client::{Client, SiteAction};

/// Default length of time for which free processors are shown.
const AHEAD: Length = Length(DurationMs::from_secs(86_400));
/// Length of a bar in characters.
const BAR: u64 = 32;

/// Shows sites and steers them.
pub(crate) fn run(
    context: &mut CommandContext,
    command: &SiteSubcommand,
) -> Result<CliExit, CliError> {
    match command {
        SiteSubcommand::Add(args) => site_setup::add::run(context, args),
        SiteSubcommand::Check(args) => site_setup::check::run(context, args),
        SiteSubcommand::Clean(args) => site_setup::clean::run(context, args),
        command => steer(context, command),
    }
}

/// Runs the commands that need a server.
fn steer(context: &mut CommandContext, command: &SiteSubcommand) -> Result<CliExit, CliError> {
    let client = context.client()?;
    match command {
        // These commands need no server.
        SiteSubcommand::Add(_) | SiteSubcommand::Check(_) | SiteSubcommand::Clean(_) => {}
        SiteSubcommand::List => context.out.answer(&client.sites()?, list)?,
        SiteSubcommand::Show(arg) => {
            let within = arg.ahead.unwrap_or(AHEAD);
            context
                .out
                .answer(&client.site_and_timeline(&arg.site, within)?, show)?;
        }
        SiteSubcommand::Drain(arg) => order(context, &client, &arg.site, SiteAction::Drain)?,
        SiteSubcommand::Undrain(arg) => order(context, &client, &arg.site, SiteAction::Undrain)?,
        SiteSubcommand::Freeze(arg) => order(context, &client, &arg.site, SiteAction::Freeze)?,
        SiteSubcommand::Thaw(arg) => order(context, &client, &arg.site, SiteAction::Thaw)?,
        SiteSubcommand::Reset(arg) => order(context, &client, &arg.site, SiteAction::Reset)?,
        SiteSubcommand::Unforce(arg) => order(context, &client, &arg.site, SiteAction::Unforce)?,
        SiteSubcommand::Maintenance {
            site,
            from,
            until,
            reason,
        } => {
            if until <= from {
                return Err(CliError::usage(
                    "the window ends before it begins",
                    "give --until a later time than --from",
                ));
            }
            let from = Instant(from.0);
            let until = Instant(until.0);
            let window = WindowReport {
                from,
                until,
                reason: reason.clone(),
                by: None,
            };
            order(context, &client, site, SiteAction::Maintenance(window))?;
        }
        SiteSubcommand::EndMaintenance { site, from } => {
            let end = SiteAction::EndMaintenance(WindowEnd {
                from: Instant(from.0),
            });
            order(context, &client, site, end)?;
        }
        SiteSubcommand::Force {
            site,
            verdict,
            lasting,
        } => {
            let until = Instant(now() + lasting.0);
            let usable = *verdict == VerdictArg::Usable;
            order(
                context,
                &client,
                site,
                SiteAction::Force(ForceOrder { usable, until }),
            )?;
        }
    }
    Ok(CliExit::Done)
}

fn order(
    context: &mut CommandContext,
    client: &Client,
    site: &str,
    action: SiteAction,
) -> Result<(), CliError> {
    client.order_site(site, &action)?;
    Ok(context.out.answer(&client.site(site)?, standing)?)
}

fn standing(site: &SiteReport) -> String {
    let reason = site
        .reason
        .as_ref()
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    line(&format!(
        "site {} is {}{reason}",
        bold(&site.name),
        state(&site.state)
    ))
}

fn processors(counts: &Counts) -> String {
    counts
        .get("processors")
        .map_or_else(|| "-".into(), u64::to_string)
}

fn heard(site: &SiteReport) -> String {
    site.age_ms.map_or_else(
        || "never".into(),
        |ms| format!("{} ago", rough(DurationMs(ms))),
    )
}

/// Explains why a site is not usable, and names injected faults, which explain a lot.
fn why(site: &SiteReport) -> String {
    let faults = site.injected_faults.join(", ");
    let injected = (!faults.is_empty()).then(|| format!("FAULTS INJECTED: {faults}"));
    let both: Vec<String> = injected.into_iter().chain(site.reason.clone()).collect();
    both.join("; ")
}

fn list(list: &SiteList) -> String {
    if list.sites.is_empty() {
        return "no sites; add a [[site]] to the configuration\n".into();
    }
    let rows: Vec<Vec<String>> = list
        .sites
        .iter()
        .map(|site| {
            vec![
                site.name.clone(),
                state(&site.state),
                processors(&site.total),
                processors(&site.idle),
                processors(&site.held),
                site.components.to_string(),
                site.consecutive_errors.to_string(),
                heard(site),
                why(site),
            ]
        })
        .collect();
    let heading = [
        "SITE", "STATE", "PROC", "IDLE", "OURS", "COMP", "ERRORS", "HEARD", "WHY",
    ];
    let mut text = columns(&heading, &rows);
    if list.isolated {
        text.push_str(
            "isolated: so many sites stopped answering at once that the fault is taken to be ours; \
             nothing is charged or moved until one answers\n",
        );
    }
    text
}

fn counts(counts: &Counts) -> String {
    let counts: Vec<String> = counts
        .iter()
        .map(|(name, n)| format!("{n} {name}"))
        .collect();
    counts.join(", ")
}

fn show(site: &SiteReport) -> String {
    let labels: Vec<String> = site
        .labels
        .iter()
        .map(|(key, values)| format!("{key}={}", values.join("|")))
        .collect();
    let windows: Vec<String> = site
        .maintenance
        .iter()
        .map(|window: &WindowReport| {
            let reason = match window.reason.as_str() {
                "" => String::new(),
                reason => format!(" ({reason})"),
            };
            format!("{} to {}{reason}", clock(window.from), clock(window.until))
        })
        .collect();
    let orders: Vec<String> = site
        .orders
        .iter()
        .map(|(order, by)| format!("{order} by {by}"))
        .collect();
    let mut text = fields(&[
        ("Site", bold(&site.name)),
        ("State", state(&site.state)),
        ("Why", why(site)),
        ("Has", counts(&site.total)),
        ("Free", counts(&site.idle)),
        ("Ours", counts(&site.held)),
        ("Components", site.components.to_string()),
        ("Labels", labels.join(", ")),
        ("Manager", site.manager.clone().unwrap_or_default()),
        ("Heard", heard(site)),
        ("Default times", times(site)),
        ("Got lately", each(&site.lanes, got)),
        ("Not asked now", each(&site.lanes, waits)),
        ("Errors in a row", site.consecutive_errors.to_string()),
        ("Last error", site.last_error.clone().unwrap_or_default()),
        (
            "Next probe",
            site.next_probe_at.map(clock).unwrap_or_default(),
        ),
        ("Maintenance", windows.join(", ")),
        ("Orders", orders.join(", ")),
    ]);
    if !site.links.is_empty() {
        let rows: Vec<Vec<String>> = site.links.iter().map(link).collect();
        let heading = [
            "FILES FROM",
            "AT",
            "CONFIGURED",
            "MEASURED",
            "LATENCY",
            "MEASURED",
        ];
        text.push('\n');
        text.push_str(&columns(&heading, &rows));
    }
    if let Some(timeline) = &site.timeline {
        let total = site.total.get("processors").copied().unwrap_or_default();
        text.push_str(&free_later(timeline, total));
    }
    text
}

/// Formats the free processors over time, with a bar for each step.
fn free_later(timeline: &TimelineReport, total: u64) -> String {
    let told = match timeline.state.as_str() {
        "answered" => timeline.steps.as_slice(),
        "silent" => {
            let why = timeline.problem.as_deref().unwrap_or("?");
            return format!(
                "\n{}",
                line(&format!("what is free later is not known: {why}"))
            );
        }
        // The site makes no reservations, so there is nothing to show.
        _ => return String::new(),
    };
    let rows: Vec<Vec<String>> = told
        .iter()
        .map(|step: &FreeStep| {
            let free = u64::from(step.processors);
            let share = (free * BAR).div_ceil(total.max(1)).min(BAR) as usize;
            let bar = format!("{}{}", "#".repeat(share), ".".repeat(BAR as usize - share));
            vec![local(step.from), format!("{free} of {total}"), bar]
        })
        .collect();
    let mut text = format!("\n{}", columns(&["FREE FROM", "PROCESSORS", ""], &rows));
    if let Some(until) = timeline.known_until {
        text.push_str(&format!("from {} on it is not known\n", local(until)));
    }
    text
}

/// Formats the default wall times, by partition.
fn times(site: &SiteReport) -> String {
    let times = site.default_times_ms.iter();
    let times = times.map(|(partition, ms)| format!("{} in {partition}", DurationMs(*ms)));
    times.collect::<Vec<_>>().join(", ")
}

/// Joins what there is to say about partitions.
fn each(lanes: &[LaneReport], say: fn(&LaneReport) -> Option<String>) -> String {
    lanes.iter().filter_map(say).collect::<Vec<_>>().join("; ")
}

fn got(lane: &LaneReport) -> Option<String> {
    let got = lane.got?;
    Some(format!(
        "{got} in {}, {} ago",
        lane.lane,
        age(got.at, now())
    ))
}

/// Formats the requests that waited: as large and as long ones are not made for a while.
fn waits(lane: &LaneReport) -> Option<String> {
    let waits: Vec<String> = lane
        .waits
        .iter()
        .map(|wait: &WaitReport| {
            let length = DurationMs(wait.wall_time_ms);
            format!(
                "{} processors for {length} or more in {} until {} ({} ago they waited for {})",
                wait.processors,
                lane.lane,
                clock(wait.until),
                age(wait.asked_at, now()),
                wait.why
            )
        })
        .collect();
    (!waits.is_empty()).then(|| waits.join("; "))
}

fn link(link: &LinkReport) -> Vec<String> {
    let latency = link
        .latency_us
        .map_or_else(|| "-".into(), |us| DurationUs(us).to_string());
    vec![
        link.from.clone(),
        BitsPerSecond(link.bandwidth_bps).to_string(),
        BitsPerSecond(link.configured_bps).to_string(),
        show_measured(link.measured_at, link.transfers, "transfer(s)"),
        latency,
        show_measured(
            link.latency_measured_at,
            link.latency_measurements,
            "ping(s)",
        ),
    ]
}

fn show_measured(at: Option<Instant>, count: Option<u32>, what: &str) -> String {
    at.map_or_else(
        || "not lately".into(),
        |at| format!("{} ago, {} {what}", age(at, now()), count.unwrap_or(1)),
    )
}

#[cfg(test)]
mod tests {
    use cospan_domain::units::Timestamp;

    use super::*;
    use crate::api::v1::partition::GotReport;

    #[test]
    fn what_could_be_got_lately_and_what_waited_is_shown_by_partition() {
        let ago = |minutes: u64| Instant(Timestamp(now().0 - 60_000 * minutes));
        let got = GotReport {
            processors: 8,
            wall_time_ms: 600_000,
            at: ago(5),
        };
        let wait = WaitReport {
            processors: 64,
            wall_time_ms: 1_800_000,
            asked_at: ago(3),
            why: "Priority".into(),
            until: Instant(Timestamp(1_772_366_400_000)),
        };
        let lane = LaneReport {
            lane: "short".into(),
            got: Some(got),
            waits: vec![wait],
        };
        let text = show(&SiteReport {
            lanes: vec![lane],
            ..SiteReport::default()
        });
        assert!(
            text.contains("8 processors for 10m00s in short, 5m ago"),
            "{text}"
        );
        let waited = "64 processors for 30m00s or more in short until 2026-03-01 12:00:00Z \
                      (3m ago they waited for Priority)";
        assert!(text.contains(waited), "{text}");
    }

    #[test]
    fn what_is_free_later_is_drawn_step_by_step() {
        let step = |ms, processors| FreeStep {
            from: Instant(cospan_domain::units::Timestamp(ms)),
            processors,
        };
        let told = |steps| TimelineReport {
            state: "answered".into(),
            steps,
            ..Default::default()
        };
        let text = free_later(
            &told(vec![step(0, 16), step(3_600_000, 4), step(7_200_000, 0)]),
            16,
        );
        let bars = text.lines().filter_map(|line| line.split("of 16").nth(1));
        let bars: Vec<&str> = bars.map(str::trim).collect();
        let drawn = |n: usize| format!("{}{}", "#".repeat(n), ".".repeat(32 - n));
        assert_eq!(bars, [drawn(32), drawn(8), drawn(0)], "{text}");
        let silent = TimelineReport {
            state: "silent".into(),
            problem: Some("it does not answer".into()),
            ..TimelineReport::default()
        };
        assert!(free_later(&silent, 16).contains("not known: it does not answer"));
        let none = TimelineReport {
            state: "grants-none".into(),
            ..TimelineReport::default()
        };
        assert_eq!(free_later(&none, 16), "");
    }

    #[test]
    fn a_link_shows_what_counts_and_when_each_half_of_it_was_measured() {
        let configured = LinkReport {
            from: "leiden".into(),
            bandwidth_bps: 100_000_000,
            configured_bps: 100_000_000,
            latency_us: Some(9_000),
            configured_latency_us: Some(9_000),
            ..LinkReport::default()
        };
        let measured = LinkReport {
            from: "utrecht".into(),
            measured_at: Some(Instant(now() - DurationMs(180_000))),
            transfers: Some(4),
            latency_us: Some(420),
            latency_measured_at: Some(Instant(now() - DurationMs(300_000))),
            latency_measurements: Some(7),
            ..configured.clone()
        };
        let unknown = LinkReport {
            latency_us: None,
            ..configured.clone()
        };
        let links = vec![configured, measured, unknown];
        let text = show(&SiteReport {
            links,
            ..SiteReport::default()
        });
        let rows: Vec<&str> = text.lines().rev().take(3).collect();
        assert!(
            rows[2].contains("not lately") && rows[2].contains("9ms"),
            "{text}"
        );
        let pings = rows[1]
            .split_once("4 transfer(s)")
            .map(|(_, latency)| latency.trim());
        let pings = pings.and_then(|latency| latency.strip_prefix("420us"));
        assert!(
            pings.is_some_and(|text| text.trim() == "5m ago, 7 ping(s)"),
            "{text}"
        );
        assert!(
            rows[0].contains(" -  ") && !rows[0].contains("ms"),
            "{text}"
        );
    }
}
