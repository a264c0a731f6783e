//! `cospan show`

use cospan_domain::ids::JobId;
use cospan_domain::units::DurationMs;
use serde::Serialize;

use super::{command_line, group, stderr_tail};
use crate::cli::args_job::ShowArgs;
use crate::cli::context::{CommandContext, newest_job};
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::ids::{JobIdItem, JobIdList};
use crate::cli::local_time::{format_age, format_clock, now};
use crate::cli::print::{bold, color_state, dim, format_columns, format_name_values, single_line};
use cospan_api::v1::accounting::AccountingReport;
use cospan_api::v1::document::ComponentDocument;
use cospan_api::v1::event::HistoryReport;
use cospan_api::v1::job::{ComponentReport, JobReport, OutputReport, SetbacksReport};
use cospan_api::v1::reservation::{HeldReport, ReservationReport};
use cospan_api::v1::runner::TaskReport;
use cospan_api::v1::stderr_tail::LastWordsReport;
use cospan_api::v1::{Instant, Length};

/// A job with its history.
#[derive(Debug, Serialize)]
struct JobWithHistory {
    #[serde(flatten)]
    job: JobReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<HistoryReport>,
    /// The reason why the job waits, while it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<String>,
    /// The last error output of the failed components.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    last_words: Vec<LastWordsReport>,
}

pub(crate) fn run(context: &mut CommandContext, args: &ShowArgs) -> Result<CliExitCode, CliError> {
    let client = context.client()?;
    if let [JobIdList(items)] = args.ids.as_slice() {
        let sweep = match items.as_slice() {
            [JobIdItem::Group(JobId(group))] => Some(*group),
            [JobIdItem::Last] => newest_job(&client)?.group,
            _ => None,
        };
        if let Some(group) = sweep {
            return group::show_group(context, &client, group);
        }
    }
    let ids = context.resolve_ids(&client, &args.ids)?;
    let mut shown = Vec::with_capacity(ids.len());
    for id in ids {
        let job = client.job(id)?;
        let history = if args.brief {
            None
        } else {
            Some(client.history(id)?)
        };
        let told = ["queued", "failed"].contains(&job.phase.state.as_str());
        // Without these parts the rest is still worth showing.
        let report = if told {
            client.explain(id).unwrap_or_default()
        } else {
            <_>::default()
        };
        let waits = (job.phase.state == "queued").then_some(report.summary);
        let waits = waits.filter(|why| !why.is_empty());
        shown.push(JobWithHistory {
            job,
            history,
            waits,
            last_words: report.last_words,
        });
    }
    context.out.print_answer(&shown, |shown| {
        let texts: Vec<String> = shown.iter().map(format_job).collect();
        texts.join("\n")
    })?;
    Ok(CliExitCode::Done)
}

fn format_job(shown: &JobWithHistory) -> String {
    let job = &shown.job;
    let mut text = format_header(job, shown.waits.clone());
    text.push('\n');
    let rows: Vec<Vec<String>> = job.components.iter().map(component_row).collect();
    text.push_str(&format_columns(
        &["COMPONENT", "STATE", "SITE", "PROC", "ATTEMPT", "HOST", ""],
        &rows,
    ));
    if !shown.last_words.is_empty() {
        text.push('\n');
        text.push_str(&stderr_tail::format_indented(&shown.last_words));
    }
    let outputs: Vec<Vec<String>> = job
        .components
        .iter()
        .flat_map(|component| output_rows(job, component))
        .collect();
    if !outputs.is_empty() {
        text.push('\n');
        text.push_str(&format_columns(
            &["OUTPUT", "OF", "SIZE", "DIGEST", ""],
            &outputs,
        ));
    }
    let commands: Vec<Vec<String>> = job.document.component.iter().map(command_row).collect();
    text.push('\n');
    text.push_str(&format_columns(&["COMPONENT", "RUNS"], &commands));
    if let Some(history) = &shown.history {
        text.push_str(&history_text(history));
    }
    text
}

fn command_row(component: &ComponentDocument) -> Vec<String> {
    vec![
        component.name.to_string(),
        command_line::format_command(component),
    ]
}

fn format_header(job: &JobReport, waits: Option<String>) -> String {
    let phase = &job.phase;
    let name = job.document.name.as_deref().unwrap_or_default();
    let mut state = color_state(&phase.state);
    if let Some(next) = &phase.next {
        state.push_str(&format!(", then {next}"));
    }
    format_name_values(&[
        ("Job", format!("{} {name}", bold(&job.id.to_string()))),
        (
            "State",
            format!(
                "{state} since {} ({} ago)",
                format_clock(phase.since),
                format_age(phase.since, now())
            ),
        ),
        ("Why", phase.reason.clone().unwrap_or_default()),
        ("Waits for", format_remaining(job)),
        ("Waits because", waits.unwrap_or_default()),
        ("By", phase.by.clone().unwrap_or_default()),
        (
            "Held",
            job.held
                .clone()
                .map(|why| format!("{why}; go on with: cospan release {}", job.id))
                .unwrap_or_default(),
        ),
        ("Frozen by", job.frozen_by.clone().unwrap_or_default()),
        (
            "Not before",
            phase.not_before.map(format_clock).unwrap_or_default(),
        ),
        (
            "Start expected",
            phase.start_estimate.map(format_clock).unwrap_or_default(),
        ),
        (
            "Reservation",
            job.reservation
                .as_ref()
                .map(reservation_text)
                .unwrap_or_default(),
        ),
        (
            "Started",
            job.instants.started.map(format_clock).unwrap_or_default(),
        ),
        ("Owner", job.owner.clone()),
        ("Submitted", format_clock(job.submitted_at)),
        ("Priority", job.priority.to_string()),
        ("Wall time", job.document.wall_time.to_string()),
        ("Round", job.round.to_string()),
        (
            "Placed by",
            job.placed
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
        ),
        (
            "Runner",
            job.document
                .runner
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
        ),
        (
            "Sweep",
            job.sweep.as_ref().map(task_text).unwrap_or_default(),
        ),
        ("Setbacks", format_setbacks(&job.setbacks)),
        ("Took", format_durations(&job.accounting)),
        ("Start delay", format_start_delay(&job.accounting)),
        ("Sites", format_combined(&job.accounting)),
        ("Processors", format_processor_time(&job.accounting)),
    ])
}

/// Formats the state of the reservation, and the processors reserved at each site.
fn reservation_text(reservation: &ReservationReport) -> String {
    let start = reservation
        .start
        .map(|start| format!(", starts at {}", format_clock(start)));
    let asks = reservation
        .asks_at
        .map(|at| format!(", sites are asked at {}", format_clock(at)));
    let next = reservation
        .next
        .map(|next| format!(", would be granted from {} on", format_clock(next)));
    let held = reservation.held.iter().map(|held| {
        let HeldReport {
            component,
            site,
            processors,
            from,
            to,
            serial,
        } = held;
        let from = format_clock(*from);
        let to = format_clock(*to);
        format!("; {component}: {processors} at {site} from {from} to {to} (r{serial})")
    });
    let claimed = reservation.claimed.iter().map(|one| {
        format!(
            "; {}: NOT reserved, claimed at the start at {}",
            one.component, one.site
        )
    });
    let split = reservation.split.as_ref().map(|split| format!(", {split}"));
    let told = [asks, start, split, next]
        .into_iter()
        .flatten()
        .chain(held)
        .chain(claimed);
    told.fold(reservation.state.clone(), |text, more| text + &more)
}

/// Formats the setbacks that sent the job back to its queue, by cause.
fn format_setbacks(setbacks: &SetbacksReport) -> String {
    let causes = [
        (
            "failed claiming try",
            "failed claiming tries",
            setbacks.claims,
        ),
        ("missed start", "missed starts", setbacks.missed_starts),
        ("preemption", "preemptions", setbacks.preemptions),
        ("round aborted", "rounds aborted", setbacks.rounds),
        ("site error", "site errors", setbacks.site_errors),
        ("own error", "own errors", setbacks.own_errors),
        ("input lost", "inputs lost", setbacks.inputs),
    ];
    let counted = causes
        .iter()
        .filter_map(|(one, several, count)| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {several}")),
        });
    counted.collect::<Vec<_>>().join(", ")
}

/// Names the components that must end at their sites before an aborted round is over. It is not
/// known here if a site answers: `explain` knows.
fn format_remaining(job: &JobReport) -> String {
    let remains: Vec<String> = job
        .components
        .iter()
        .filter(|component: &&ComponentReport| {
            let states = [
                "intended",
                "uncertain",
                "submitted",
                "at-gate",
                "opened",
                "running",
            ];
            states.contains(&component.state.as_str())
        })
        .map(|component: &ComponentReport| {
            let site = component.site.as_deref().unwrap_or("its site");
            format!("component {} to end at {site}", component.name)
        })
        .collect();
    if remains.is_empty() || job.phase.state != "aborting" {
        return String::new();
    }
    let what = remains.join(", ");
    let id = job.id;
    format!("{what}; if the site is gone for good: cospan cancel --abandon {id}")
}

/// Formats the run of a sweep, with its values.
fn task_text(task: &TaskReport) -> String {
    let values = task
        .values
        .iter()
        .map(|(name, value)| format!(" {name}={value}"));
    let values: String = values.collect();
    format!(
        "run {} (from 0) of {} of group:{}{values}",
        task.task, task.tasks, task.group
    )
}

/// Lists the durations that are known.
fn format_durations(cost: &AccountingReport) -> String {
    let lengths = [
        (
            "in queues",
            Some(cost.total_placement_time_ms).filter(|ms| *ms > 0),
        ),
        ("of that before the latest placement", several_visits(cost)),
        ("until start", cost.wait_time_ms),
        ("placement to claim", cost.gained_time_ms),
        ("placement to start", cost.start_overhead_ms),
        ("running", cost.execution_time_ms),
        ("in all", cost.response_time_ms),
    ];
    let known = lengths.iter().filter_map(|(what, ms)| {
        ms.map(|ms| format!("{} {what}", Length(cospan_domain::units::DurationMs(ms))))
    });
    known.collect::<Vec<_>>().join(", ")
}

/// Returns the length of the latest visit to the queue, if there were others.
fn several_visits(cost: &AccountingReport) -> Option<u64> {
    cost.placement_time_ms
        .filter(|ms| *ms != cost.total_placement_time_ms)
}

/// Formats the shift of the estimated start since the first placement.
fn format_start_delay(cost: &AccountingReport) -> String {
    let Some(delay) = cost.start_delay_ms.filter(|delay| *delay != 0) else {
        return String::new();
    };
    let length = Length(cospan_domain::units::DurationMs(delay.unsigned_abs()));
    let direction = if delay < 0 { "earlier" } else { "later" };
    format!("{length} {direction} than first estimated")
}

/// Formats the number of sites that the job combines, and the bytes to move there.
fn format_combined(cost: &AccountingReport) -> String {
    match (cost.sites_combined, cost.transfer_volume_bytes) {
        (0, _) => String::new(),
        (sites, 0) => format!("{sites} combined"),
        (sites, bytes) => {
            let volume = cospan_domain::units::Bytes(bytes);
            format!("{sites} combined, {volume} to be moved there")
        }
    }
}

/// Formats the processor time that was wasted, and the time that others could use.
fn format_processor_time(cost: &AccountingReport) -> String {
    let parts = [
        ("left to others until the claim", cost.gained_processor_ms),
        ("held before the start", cost.wasted_processor_ms),
    ];
    // Less than what is shown as 0.1 is left out.
    let parts = parts.iter().filter(|(_, ms)| *ms >= 50);
    parts
        .map(|(what, ms)| format!("{:.1} processor-seconds {what}", *ms as f64 / 1e3))
        .collect::<Vec<_>>()
        .join(", ")
}

fn component_row(component: &ComponentReport) -> Vec<String> {
    let avoided = component.avoid.join(", ");
    let avoids = (!avoided.is_empty()).then(|| format!("avoids {avoided}"));
    let refusals = component
        .refused_by
        .iter()
        .map(|(site, words)| format!("refused by {site}: {words}"));
    let details: Vec<String> = component
        .detail
        .clone()
        .into_iter()
        .chain(avoids)
        .chain(refusals)
        .collect();
    vec![
        component.name.clone(),
        color_state(&component.state),
        component.site.as_deref().unwrap_or("-").to_owned(),
        component.processors.to_string(),
        component.attempt.to_string(),
        component.host.as_deref().unwrap_or("-").to_owned(),
        dim(&details.join("; ")),
    ]
}

fn output_rows(job: &JobReport, component: &ComponentReport) -> Vec<Vec<String>> {
    component
        .outputs
        .iter()
        .map(|output: &OutputReport| {
            vec![
                output.path.clone(),
                component.name.clone(),
                output.size_bytes.map_or_else(
                    || "-".into(),
                    |size| cospan_domain::units::Bytes(size).to_string(),
                ),
                output
                    .digest
                    .as_deref()
                    .map_or("-", |d| d.get(..12).unwrap_or(d))
                    .to_owned(),
                output_place(job, output),
            ]
        })
        .collect()
}

fn output_place(job: &JobReport, output: &OutputReport) -> String {
    match (output.collected, output.stays) {
        (true, _) => "collected".into(),
        // Nobody has read it, so size and digest are unknown.
        (false, true) if job.phase.state == "finished" => {
            let until = job
                .outputs_kept_ms
                .map(|ms| Instant(job.phase.since.0 + DurationMs(ms)))
                .map(|at| format!(" until {}", format_clock(at)))
                .unwrap_or_default();
            format!(
                "at its site{until}; fetch it with: cospan output {}",
                job.id
            )
        }
        (false, _) => String::new(),
    }
}

fn history_text(history: &HistoryReport) -> String {
    let mut text = format!("\n{}\n", bold("HISTORY"));
    if history.shortened {
        text.push_str("(older events were dropped)\n");
    }
    for event in &history.events {
        let at = event.at.map(format_clock).unwrap_or_default();
        text.push_str(&single_line(&format!("{}  {event}", dim(&at))));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setbacks_are_counted_in_words_and_what_did_not_happen_is_left_out() {
        let counts = SetbacksReport {
            rounds: 1,
            missed_starts: 2,
            ..SetbacksReport::default()
        };
        assert_eq!(format_setbacks(&counts), "2 missed starts, 1 round aborted");
        assert_eq!(format_setbacks(&SetbacksReport::default()), "");
    }

    #[test]
    fn what_was_held_is_told_in_processors_times_time() {
        let cost = AccountingReport {
            gained_processor_ms: 1_500,
            ..AccountingReport::default()
        };
        let text = format_processor_time(&cost);
        assert_eq!(text, "1.5 processor-seconds left to others until the claim");
    }

    #[test]
    fn the_details_of_a_component_are_kept_apart() {
        let component = serde_json::json!({
            "name": "solver", "processors": 1, "attempt": 2, "state": "failed",
            "detail": "No space left on device (os error 28)", "avoid": ["berlin", "cracow"],
            "refused_by": {"delft": "Unspecified error"},
        });
        let row = component_row(&serde_json::from_value(component).unwrap());
        let told = anstream::adapter::strip_str(&row[6]).to_string();
        assert_eq!(
            told,
            "No space left on device (os error 28); avoids berlin, cracow; refused by delft: \
             Unspecified error"
        );
    }

    #[test]
    fn what_a_job_cost_is_told_in_words() {
        let cost = AccountingReport {
            placement_time_ms: Some(60_000),
            total_placement_time_ms: 180_000,
            gained_time_ms: Some(120_000),
            start_delay_ms: Some(220_000),
            sites_combined: 2,
            transfer_volume_bytes: 4_000_000_000,
            ..AccountingReport::default()
        };
        let took = format_durations(&cost);
        for part in [
            "in queues",
            "of that before the latest placement",
            "placement to claim",
        ] {
            assert!(took.contains(part), "{took}");
        }
        assert!(
            format_start_delay(&cost).ends_with("later than first estimated"),
            "{}",
            format_start_delay(&cost)
        );
        let early = AccountingReport {
            start_delay_ms: Some(-880_000),
            ..cost.clone()
        };
        assert!(format_start_delay(&early).ends_with("earlier than first estimated"));
        assert_eq!(format_start_delay(&AccountingReport::default()), "");
        let sites = format_combined(&cost);
        assert!(
            sites.starts_with("2 combined, ") && sites.contains("to be moved"),
            "{sites}"
        );
        assert_eq!(
            format_combined(&AccountingReport::default()),
            "",
            "it was never placed"
        );
    }
}
