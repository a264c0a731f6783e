//! `cospan show group:ID`: a sweep as a whole.

use std::collections::BTreeMap;

use serde::Serialize;

use super::list;
use crate::cli::context::{CommandContext, PAGE};
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::print::{bold, color_state, format_name_values};
use cospan_api::v1::job::{JobPage, JobRow};
use cospan_api::v1::runner::TaskReport;
use cospan_client::{Client, JobFilter};

/// A sweep: its progress, and its runs.
#[derive(Debug, Serialize)]
struct SweepReport {
    group: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Number of runs, archived runs included.
    runs: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_once: Option<u32>,
    /// Number of runs that are not archived, by state.
    states: BTreeMap<String, u32>,
    jobs: Vec<JobRow>,
}

/// Shows a sweep.
pub(super) fn show_group(
    context: &mut CommandContext,
    client: &Client,
    group: u64,
) -> Result<CliExitCode, CliError> {
    let ids = context.list_runs(client, group)?;
    let Some(first) = ids.first() else {
        return Ok(CliExitCode::Done);
    };
    let one = client.job(*first)?;
    let filter = JobFilter {
        group: Some(group),
        limit: PAGE,
        ..JobFilter::default()
    };
    let mut jobs = list::read_all_pages(client, filter)?.jobs;
    jobs.reverse();
    let mut states = BTreeMap::new();
    jobs.iter()
        .for_each(|job| *states.entry(job.state.clone()).or_default() += 1);
    let shown = SweepReport {
        group,
        name: one.document.name.as_deref().map(str::to_owned),
        runs: one.sweep.as_ref().map_or(0, |task: &TaskReport| task.tasks),
        at_once: one.sweep.and_then(|task| task.at_once),
        states,
        jobs,
    };
    context.out.print_answer(&shown, format_group)?;
    Ok(CliExitCode::Done)
}

fn format_group(shown: &SweepReport) -> String {
    let states = shown
        .states
        .iter()
        .map(|(name, count)| format!("{count} {}", color_state(name)));
    let limit = shown
        .at_once
        .map(|limit| format!("{limit}"))
        .unwrap_or_default();
    let mut text = format_name_values(&[
        (
            "Sweep",
            format!(
                "{} {}",
                bold(&format!("group:{}", shown.group)),
                group_name(shown)
            ),
        ),
        ("Runs", shown.runs.to_string()),
        ("At once", limit),
        ("State", states.collect::<Vec<_>>().join(", ")),
    ]);
    text.push('\n');
    text.push_str(&list::format_jobs(&JobPage {
        jobs: shown.jobs.clone(),
        next: None,
    }));
    text
}

fn group_name(shown: &SweepReport) -> &str {
    shown.name.as_deref().unwrap_or_default()
}
