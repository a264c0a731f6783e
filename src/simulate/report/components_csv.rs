//! `components.csv`: a row for each attempt of a component at a site, in each round of its job.
//!
//! From these rows capacity and use of every site can be computed again.

use super::ReportError;
use super::jobs_csv::{CsvColumn, column, csv, since_began, words};
use super::record::{AttemptRow, RunRecord};

/// All columns, from left to right.
pub const COMPONENT_COLUMNS: [CsvColumn<AttemptRow>; 13] = [
    words("run", "label of the run, such as its policy", |run, _| {
        run.label.clone()
    }),
    column("seed", "seed of the run", |run, _| run.seed.to_string()),
    column("job_id", "number of the job in its run", |_, row| {
        row.job.to_string()
    }),
    column(
        "round",
        "round of co-allocation of the job, from 1",
        |_, row| row.round.map_or(String::new(), |round| round.to_string()),
    ),
    column("component", "component of the job, from 0", |_, row| {
        row.component.to_string()
    }),
    column("attempt", "attempt of the component, from 1", |_, row| {
        row.attempt.to_string()
    }),
    words("site", "where it was submitted", |run, row| {
        run.sites
            .get(row.site)
            .map_or(String::new(), |site| site.name.clone())
    }),
    column("processors", "processors that it asked for", |_, row| {
        row.processors.to_string()
    }),
    column(
        "submitted_s",
        "taken by the site, since the run began",
        |run, row| since_began(run, Some(row.submitted)),
    ),
    column(
        "held_s",
        "processors held from then on, since the run began",
        |run, row| since_began(run, row.held),
    ),
    column(
        "began_s",
        "payload begun, since the run began",
        |run, row| since_began(run, row.began),
    ),
    column(
        "ended_s",
        "processors free again, since the run began",
        |run, row| since_began(run, row.ended),
    ),
    words(
        "why_ended",
        "what ended it, as its site saw it",
        |_, row| row.why.clone().unwrap_or_default(),
    ),
];

/// The whole file, with a header.
///
/// # Errors
///
/// [`ReportError::Csv`] if a row cannot be written, which memory never refuses.
pub fn components_csv(runs: &[RunRecord]) -> Result<Vec<u8>, ReportError> {
    csv(&COMPONENT_COLUMNS, runs, |run| &run.attempts)
}
