//! `cospan site ...`

use cospan_domain::units::{BitsPerSecond, DurationMs, DurationUs};

use super::site_setup;
use crate::cli::args_operate::{ForcedStateArg, SiteSubcommand};
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::local_time::{format_age, format_clock, format_local, format_rough, now};
use crate::cli::print::{bold, color_state, format_columns, format_name_values, single_line};
use cospan_api::v1::Instant;
use cospan_api::v1::partition::{LaneReport, WaitReport};
use cospan_api::v1::quantity::Length;
use cospan_api::v1::site::{
    Counts, ForceOrder, FreeStep, LinkReport, SiteList, SiteReport, TimelineReport, WindowEnd,
    WindowReport,
};
use cospan_client::{Client, SiteAction};

/// Default length of time for which free processors are shown.
const AHEAD: Length = Length(DurationMs::from_secs(86_400));
/// Length of a bar in characters.
const BAR: u64 = 32;

/// Shows sites and steers them.
pub(crate) fn run(
    context: &mut CommandContext,
    command: &SiteSubcommand,
) -> Result<CliExitCode, CliError> {
    match command {
        SiteSubcommand::Add(args) => site_setup::add::run(context, args),
        SiteSubcommand::Check(args) => site_setup::check::run(context, args),
        SiteSubcommand::Clean(args) => site_setup::clean::run(context, args),
        command => run_at_server(context, command),
    }
}

/// Runs the commands that need a server.
fn run_at_server(
    context: &mut CommandContext,
    command: &SiteSubcommand,
) -> Result<CliExitCode, CliError> {
    let client = context.client()?;
    match command {
        // These commands need no server.
        SiteSubcommand::Add(_) | SiteSubcommand::Check(_) | SiteSubcommand::Clean(_) => {}
        SiteSubcommand::List => context
            .out
            .print_answer(&client.list_sites()?, format_list)?,
        SiteSubcommand::Show(arg) => {
            let within = arg.ahead.unwrap_or(AHEAD);
            context
                .out
                .print_answer(&client.site_and_timeline(&arg.site, within)?, format_site)?;
        }
        SiteSubcommand::Drain(arg) => {
            run_site_command(context, &client, &arg.site, SiteAction::Drain)?
        }
        SiteSubcommand::Undrain(arg) => {
            run_site_command(context, &client, &arg.site, SiteAction::Undrain)?
        }
        SiteSubcommand::Freeze(arg) => {
            run_site_command(context, &client, &arg.site, SiteAction::Freeze)?
        }
        SiteSubcommand::Thaw(arg) => {
            run_site_command(context, &client, &arg.site, SiteAction::Thaw)?
        }
        SiteSubcommand::Reset(arg) => {
            run_site_command(context, &client, &arg.site, SiteAction::Reset)?
        }
        SiteSubcommand::Unforce(arg) => {
            run_site_command(context, &client, &arg.site, SiteAction::Unforce)?
        }
        SiteSubcommand::Maintenance {
            site,
            from,
            until,
            reason,
        } => {
            if until <= from {
                return Err(CliError::usage_error(
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
            run_site_command(context, &client, site, SiteAction::Maintenance(window))?;
        }
        SiteSubcommand::EndMaintenance { site, from } => {
            let end = SiteAction::EndMaintenance(WindowEnd {
                from: Instant(from.0),
            });
            run_site_command(context, &client, site, end)?;
        }
        SiteSubcommand::Force {
            site,
            verdict,
            lasting,
        } => {
            let until = Instant(now() + lasting.0);
            let usable = *verdict == ForcedStateArg::Usable;
            run_site_command(
                context,
                &client,
                site,
                SiteAction::Force(ForceOrder { usable, until }),
            )?;
        }
    }
    Ok(CliExitCode::Done)
}

fn run_site_command(
    context: &mut CommandContext,
    client: &Client,
    site: &str,
    action: SiteAction,
) -> Result<(), CliError> {
    client.send_site_command(site, &action)?;
    Ok(context
        .out
        .print_answer(&client.site(site)?, format_state)?)
}

fn format_state(site: &SiteReport) -> String {
    let reason = site
        .reason
        .as_ref()
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    single_line(&format!(
        "site {} is {}{reason}",
        bold(&site.name),
        color_state(&site.state)
    ))
}

fn format_processors(counts: &Counts) -> String {
    counts
        .get("processors")
        .map_or_else(|| "-".into(), u64::to_string)
}

fn format_answer_age(site: &SiteReport) -> String {
    site.age_ms.map_or_else(
        || "never".into(),
        |ms| format!("{} ago", format_rough(DurationMs(ms))),
    )
}

/// Explains why a site is not usable, and names injected faults, which explain a lot.
fn explain_state(site: &SiteReport) -> String {
    let faults = site.injected_faults.join(", ");
    let injected = (!faults.is_empty()).then(|| format!("FAULTS INJECTED: {faults}"));
    let both: Vec<String> = injected.into_iter().chain(site.reason.clone()).collect();
    both.join("; ")
}

fn format_list(list: &SiteList) -> String {
    if list.sites.is_empty() {
        return "no sites; add a [[site]] to the configuration\n".into();
    }
    let rows: Vec<Vec<String>> = list
        .sites
        .iter()
        .map(|site| {
            vec![
                site.name.clone(),
                color_state(&site.state),
                format_processors(&site.total),
                format_processors(&site.idle),
                format_processors(&site.held),
                site.components.to_string(),
                site.consecutive_errors.to_string(),
                format_answer_age(site),
                explain_state(site),
            ]
        })
        .collect();
    let heading = [
        "SITE", "STATE", "PROC", "IDLE", "OURS", "COMP", "ERRORS", "HEARD", "WHY",
    ];
    let mut text = format_columns(&heading, &rows);
    if list.isolated {
        text.push_str(
            "isolated: so many sites fell silent at once that this server takes itself to be cut \
             off; nothing is charged or moved until one answers\n",
        );
    }
    text
}

fn format_counts(counts: &Counts) -> String {
    let counts: Vec<String> = counts
        .iter()
        .map(|(name, n)| format!("{n} {name}"))
        .collect();
    counts.join(", ")
}

fn format_site(site: &SiteReport) -> String {
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
            format!(
                "{} to {}{reason}",
                format_clock(window.from),
                format_clock(window.until)
            )
        })
        .collect();
    let orders: Vec<String> = site
        .orders
        .iter()
        .map(|(order, by)| format!("{order} by {by}"))
        .collect();
    let mut text = format_name_values(&[
        ("Site", bold(&site.name)),
        ("State", color_state(&site.state)),
        ("Why", explain_state(site)),
        ("Has", format_counts(&site.total)),
        ("Free", format_counts(&site.idle)),
        ("Ours", format_counts(&site.held)),
        ("Components", site.components.to_string()),
        ("Quota", format_quota(site)),
        ("GFLOPS", format_power(site)),
        ("Benchmarks", format_benchmarks(site)),
        ("Labels", labels.join(", ")),
        ("Manager", site.manager.clone().unwrap_or_default()),
        ("Heard", format_answer_age(site)),
        ("Default times", format_default_times(site)),
        ("Smallest nodes", format_smallest_nodes(site)),
        ("Got lately", join_partitions(&site.lanes, format_started)),
        ("Not asked now", join_partitions(&site.lanes, format_waits)),
        ("Errors in a row", site.consecutive_errors.to_string()),
        ("Last error", site.last_error.clone().unwrap_or_default()),
        (
            "Next probe",
            site.next_probe_at.map(format_clock).unwrap_or_default(),
        ),
        ("Maintenance", windows.join(", ")),
        ("Commands", orders.join(", ")),
    ]);
    if !site.links.is_empty() {
        let rows: Vec<Vec<String>> = site.links.iter().map(link_row).collect();
        let heading = [
            "FILES FROM",
            "AT",
            "CONFIGURED",
            "MEASURED",
            "LATENCY",
            "MEASURED",
        ];
        text.push('\n');
        text.push_str(&format_columns(&heading, &rows));
    }
    if let Some(timeline) = &site.timeline {
        let total = site.total.get("processors").copied().unwrap_or_default();
        text.push_str(&format_timeline(timeline, total));
    }
    text
}

/// Formats the share of the site that our jobs may fill.
fn format_quota(site: &SiteReport) -> String {
    let quota = site.quota_millionths;
    quota.map_or_else(String::new, |share| {
        format!("{} % of it", f64::from(share) / 1e4)
    })
}

/// Formats the computing power of a processor, and of all together.
fn format_power(site: &SiteReport) -> String {
    let Some(each) = site.mflops_per_processor else {
        return String::new();
    };
    let each = each as f64 / 1e3;
    let all = site
        .total
        .get("processors")
        .map(|count| *count as f64 * each);
    let all = all.map_or_else(String::new, |all| format!(", {all:.1} together"));
    format!("{each} for each processor{all}")
}

fn format_benchmarks(site: &SiteReport) -> String {
    let results = site.benchmarks.iter();
    let results = results.map(|(name, score)| format!("{name} {}", score.0.as_f64()));
    results.collect::<Vec<_>>().join(", ")
}

/// Formats the free processors over time, with a bar for each step.
fn format_timeline(timeline: &TimelineReport, total: u64) -> String {
    let told = match timeline.state.as_str() {
        "answered" => timeline.steps.as_slice(),
        "silent" => {
            let why = timeline.problem.as_deref().unwrap_or("?");
            return format!(
                "\n{}",
                single_line(&format!("what is free later is unknown: {why}"))
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
            vec![format_local(step.from), format!("{free} of {total}"), bar]
        })
        .collect();
    let mut text = format!(
        "\n{}",
        format_columns(&["FREE FROM", "PROCESSORS", ""], &rows)
    );
    if let Some(until) = timeline.known_until {
        text.push_str(&format!("unknown from {} on\n", format_local(until)));
    }
    text
}

/// Formats the default wall times, by partition.
fn format_default_times(site: &SiteReport) -> String {
    let times = site.default_times_ms.iter();
    let times = times.map(|(partition, ms)| format!("{} in {partition}", DurationMs(*ms)));
    times.collect::<Vec<_>>().join(", ")
}

/// Formats the processors of the smallest node, by partition.
fn format_smallest_nodes(site: &SiteReport) -> String {
    let nodes = site.smallest_nodes.iter();
    let nodes = nodes.map(|(partition, count)| format!("{count} processors in {partition}"));
    nodes.collect::<Vec<_>>().join(", ")
}

/// Joins what there is to say about partitions.
fn join_partitions(lanes: &[LaneReport], say: fn(&LaneReport) -> Option<String>) -> String {
    lanes.iter().filter_map(say).collect::<Vec<_>>().join("; ")
}

fn format_started(lane: &LaneReport) -> Option<String> {
    let got = lane.got?;
    Some(format!(
        "{got} in {}, {} ago",
        lane.lane,
        format_age(got.at, now())
    ))
}

/// Formats the requests that waited: as large and as long ones are not made for a while.
fn format_waits(lane: &LaneReport) -> Option<String> {
    let waits: Vec<String> = lane
        .waits
        .iter()
        .map(|wait: &WaitReport| {
            let length = DurationMs(wait.wall_time_ms);
            format!(
                "{} processors for {length} or more in {} until {} ({} ago they waited for {})",
                wait.processors,
                lane.lane,
                format_clock(wait.until),
                format_age(wait.asked_at, now()),
                wait.why
            )
        })
        .collect();
    (!waits.is_empty()).then(|| waits.join("; "))
}

fn link_row(link: &LinkReport) -> Vec<String> {
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
        |at| {
            format!(
                "{} ago, {} {what}",
                format_age(at, now()),
                count.unwrap_or(1)
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use cospan_domain::units::Timestamp;

    use super::*;
    use cospan_api::v1::partition::GotReport;
    use cospan_api::v1::preferences::ScoreNumber;
    use cospan_domain::acquisition::BenchmarkScore;

    #[test]
    fn what_is_configured_of_a_site_is_shown() {
        let scores = ScoreNumber(BenchmarkScore::new(38.4).unwrap());
        let text = format_site(&SiteReport {
            total: [("processors".into(), 8)].into(),
            quota_millionths: Some(250_000),
            mflops_per_processor: Some(20_500),
            benchmarks: [("linpack".into(), scores)].into(),
            ..SiteReport::default()
        });
        for words in [
            "25 % of it",
            "20.5 for each processor, 164.0 together",
            "linpack 38.4",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let bare = format_site(&SiteReport::default());
        assert!(
            !bare.contains("Quota") && !bare.contains("GFLOPS"),
            "{bare}"
        );
    }

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
        let text = format_site(&SiteReport {
            lanes: vec![lane],
            ..SiteReport::default()
        });
        assert!(
            text.contains("8 processors for 10m00s in short, 5m ago"),
            "{text}"
        );
        let waited = format!(
            "64 processors for 30m00s or more in short until {} (3m ago they waited for Priority)",
            format_clock(Instant(Timestamp(1_772_366_400_000)))
        );
        assert!(text.contains(&waited), "{text}");
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
        let text = format_timeline(
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
        assert!(format_timeline(&silent, 16).contains("unknown: it does not answer"));
        let none = TimelineReport {
            state: "grants-none".into(),
            ..TimelineReport::default()
        };
        assert_eq!(format_timeline(&none, 16), "");
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
        let text = format_site(&SiteReport {
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
