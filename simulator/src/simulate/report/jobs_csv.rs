//! `jobs.csv`: a row for each job of each run.
//!
//! All runs share one file: every row names its run by label and seed, so that a group-by is all an
//! analyst needs.

use cospan_domain::units::{DurationMs, Timestamp};

use super::ReportError;
use super::record::{RunJob, RunRecord};
use cospan_printing::csv_file::{CsvField, CsvFile};

/// A column of the file.
#[derive(Debug, Clone, Copy)]
pub struct CsvColumn<Row> {
    /// The header, with the unit if there is one.
    pub name: &'static str,
    /// The meaning of the values.
    pub meaning: &'static str,
    /// True if the values are numbers.
    is_number: bool,
    /// Writes the value; empty if the job never got that far.
    value: fn(&RunRecord, &Row) -> String,
}

/// All columns, from left to right.
pub const COLUMNS: [CsvColumn<RunJob>; 33] = [
    word_column("run", "label of the run, such as its policy", |run, _| {
        run.label.clone()
    }),
    number_column("seed", "seed of the run", |run, _| run.seed.to_string()),
    number_column("job_id", "number of the job in its run", |_, job| {
        job.id.to_string()
    }),
    word_column("name", "name given by the user", |_, job| job.name.clone()),
    word_column("priority", "priority class", |_, job| job.priority.clone()),
    word_column(
        "ending",
        "done, failed, cancelled or unfinished",
        |_, job| job.ending.word().into(),
    ),
    number_column("components", "components of the job", |_, job| {
        job.components.to_string()
    }),
    number_column("processors", "processors of all components", |_, job| {
        job.processors.to_string()
    }),
    number_column(
        "sites",
        "different sites of the last placement; 0 if never placed",
        |_, job| job.sites.to_string(),
    ),
    number_column(
        "submitted_s",
        "submission, since the run began",
        |run, job| seconds_since_begin(run, Some(job.submitted)),
    ),
    number_column(
        "placed_s",
        "last placement, since the run began",
        |run, job| seconds_since_begin(run, job.placed),
    ),
    number_column(
        "claimed_s",
        "all components held their processors for the last time, since the run began",
        |run, job| seconds_since_begin(run, job.claimed),
    ),
    number_column(
        "started_s",
        "last start of all components, since the run began",
        |run, job| seconds_since_begin(run, job.started),
    ),
    number_column("finished_s", "end, since the run began", |run, job| {
        seconds_since_begin(run, job.finished)
    }),
    number_column("placement_time_s", "placed less submitted", |_, job| {
        format_seconds(job.placement_time())
    }),
    number_column(
        "total_placement_time_s",
        "time in the placement queue, of all rounds",
        |_, job| format_seconds(Some(DurationMs(job.total_placement_time_ms))),
    ),
    number_column(
        "start_delay_s",
        "latest estimated start less the first",
        |_, job| format_signed_seconds(job.start_delay_ms),
    ),
    number_column("wait_s", "started less submitted", |_, job| {
        format_seconds(job.wait())
    }),
    number_column("run_time_s", "finished less started", |_, job| {
        format_seconds(job.run_time())
    }),
    number_column("response_s", "finished less submitted", |_, job| {
        format_seconds(job.response())
    }),
    number_column(
        "bounded_slowdown",
        "response over run time, a run time below 10 s taken as 10 s; at least 1",
        |_, job| {
            job.bounded_slowdown()
                .map_or(String::new(), |ratio| format!("{ratio:.4}"))
        },
    ),
    number_column("rounds", "rounds of co-allocation", |_, job| {
        job.rounds.to_string()
    }),
    number_column(
        "rounds_aborted",
        "rounds aborted after something was submitted",
        |_, job| job.rounds_aborted.to_string(),
    ),
    number_column(
        "attempts",
        "attempts of components that were submitted to sites",
        |_, job| job.attempts.to_string(),
    ),
    number_column(
        "failed_claims",
        "tries to claim processors that failed",
        |_, job| job.failed_claims.to_string(),
    ),
    number_column(
        "missed_starts",
        "rounds not claimed by their estimated start",
        |_, job| job.missed_starts.to_string(),
    ),
    number_column(
        "preemptions",
        "rounds that gave way to a job of a higher class",
        |_, job| job.preemptions.to_string(),
    ),
    number_column(
        "site_errors",
        "errors that sites answered with",
        |_, job| job.site_errors.to_string(),
    ),
    number_column("transfer_bytes", "bytes moved to sites", |_, job| {
        job.transfer_bytes.to_string()
    }),
    number_column(
        "transfer_time_s",
        "longest estimated transfer time of a component, at the last placement",
        |_, job| format_seconds(Some(DurationMs(job.transfer_time_ms))),
    ),
    number_column(
        "gained_processor_s",
        "processors times seconds from placement until a site held them, of rounds that started",
        |_, job| format_seconds(Some(DurationMs(job.gained_processor_ms))),
    ),
    number_column(
        "held_processor_s",
        "processors times seconds held without running, of all rounds",
        |_, job| format_seconds(Some(DurationMs(job.held_processor_ms))),
    ),
    number_column(
        "held_share",
        "held over held and run processor-seconds, 0 to 1",
        |_, job| held_share(job).map_or(String::new(), |share| format!("{share:.4}")),
    ),
];

/// The whole file, with a header.
///
/// # Errors
///
/// [`ReportError::Csv`] if a row cannot be written, which memory never refuses.
pub fn jobs_csv(runs: &[RunRecord]) -> Result<Vec<u8>, ReportError> {
    write_csv(&COLUMNS, runs, |run| &run.jobs)
}

/// A file with a header and the rows of all runs.
pub(super) fn write_csv<Row>(
    columns: &[CsvColumn<Row>],
    runs: &[RunRecord],
    rows: fn(&RunRecord) -> &[Row],
) -> Result<Vec<u8>, ReportError> {
    let mut file = CsvFile::new();
    file.write_header(columns.iter().map(|column| column.name))?;
    for run in runs {
        for row in rows(run) {
            file.write_row(columns.iter().map(|column| column.to_field(run, row)))?;
        }
    }
    Ok(file.finish_file()?)
}

impl<Row> CsvColumn<Row> {
    fn to_field(&self, run: &RunRecord, row: &Row) -> CsvField {
        let value = (self.value)(run, row);
        if self.is_number {
            CsvField::number(value)
        } else {
            CsvField::text(value)
        }
    }
}

/// A column of numbers, in one line.
pub(super) const fn number_column<Row>(
    name: &'static str,
    meaning: &'static str,
    value: fn(&RunRecord, &Row) -> String,
) -> CsvColumn<Row> {
    CsvColumn {
        name,
        meaning,
        is_number: true,
        value,
    }
}

/// A column of names or other words.
pub(super) const fn word_column<Row>(
    name: &'static str,
    meaning: &'static str,
    value: fn(&RunRecord, &Row) -> String,
) -> CsvColumn<Row> {
    CsvColumn {
        name,
        meaning,
        is_number: false,
        value,
    }
}

/// Seconds with three decimals from the begin of the run, negative before it.
pub(super) fn seconds_since_begin(run: &RunRecord, at: Option<Timestamp>) -> String {
    format_signed_seconds(at.map(|at| at.0.wrapping_sub(run.began.0) as i64))
}

/// Seconds with three decimals, and a sign below zero.
fn format_signed_seconds(ms: Option<i64>) -> String {
    let Some(ms) = ms else { return String::new() };
    let sign = if ms < 0 { "-" } else { "" };
    format!(
        "{sign}{}",
        format_seconds(Some(DurationMs(ms.unsigned_abs())))
    )
}

/// Seconds with three decimals.
fn format_seconds(length: Option<DurationMs>) -> String {
    length.map_or(String::new(), |DurationMs(ms)| {
        format!("{}.{:03}", ms / 1000, ms % 1000)
    })
}

/// The part of the processors' time that was spent waiting at the gate.
fn held_share(job: &RunJob) -> Option<f64> {
    let held = job.held_processor_ms as f64;
    let ran = job.run_time()?.0 as f64 * f64::from(job.processors);
    (held + ran > 0.0).then(|| held / (held + ran))
}
