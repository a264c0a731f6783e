//! `components.csv`: a row for each attempt of a component at a site, in each round of its job.
//!
//! From these rows capacity and use of every site can be computed again.

use super::ReportError;
use super::jobs_csv::{CsvColumn, number_column, seconds_since_begin, word_column, write_csv};
use super::record::{AttemptRow, RunRecord};

/// All columns, from left to right.
pub const COMPONENT_COLUMNS: [CsvColumn<AttemptRow>; 13] = [
    word_column("run", "label of the run, such as its policy", |run, _| {
        run.label.clone()
    }),
    number_column("seed", "seed of the run", |run, _| run.seed.to_string()),
    number_column("job_id", "number of the job in its run", |_, row| {
        row.job.to_string()
    }),
    number_column(
        "round",
        "round of co-allocation of the job, from 1",
        |_, row| row.round.map_or(String::new(), |round| round.to_string()),
    ),
    number_column("component", "component of the job, from 0", |_, row| {
        row.component.to_string()
    }),
    number_column("attempt", "attempt of the component, from 1", |_, row| {
        row.attempt.to_string()
    }),
    word_column("site", "where it was submitted", |run, row| {
        run.sites
            .get(row.site)
            .map_or(String::new(), |site| site.name.clone())
    }),
    number_column("processors", "processors that it asked for", |_, row| {
        row.processors.to_string()
    }),
    number_column(
        "submitted_s",
        "taken by the site, since the run began",
        |run, row| seconds_since_begin(run, Some(row.submitted)),
    ),
    number_column(
        "held_s",
        "processors held from then on, since the run began",
        |run, row| seconds_since_begin(run, row.held),
    ),
    number_column(
        "began_s",
        "payload begun, since the run began",
        |run, row| seconds_since_begin(run, row.began),
    ),
    number_column(
        "ended_s",
        "processors free again, since the run began",
        |run, row| seconds_since_begin(run, row.ended),
    ),
    word_column("why_ended", "how it ended, as its site saw it", |_, row| {
        row.why.clone().unwrap_or_default()
    }),
];

/// The whole file, with a header.
///
/// # Errors
///
/// [`ReportError::Csv`] if a row cannot be written, which memory never refuses.
pub fn components_csv(runs: &[RunRecord]) -> Result<Vec<u8>, ReportError> {
    write_csv(&COMPONENT_COLUMNS, runs, |run| &run.attempts)
}
