//! Jobs as a log or a model gives them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;
use thiserror::Error;

use super::{JobSourceNotes, WorkloadSource};
use crate::models::lublin::{LublinGenerator, LublinParameters};
use crate::models::poisson::PoissonArrivals;
use crate::models::{GeneratedJob, ModelParameterError};
use cospan_languages::logs::{BadLineTreatment, LogError, SwfJob, WorkloadLogSettings, read_swf};

/// Shorter run times are raised to this one, and counted: logs have jobs of no time at all, and a
/// simulated job must end after it started.
pub const SHORTEST_RUN_TIME: DurationMs = DurationMs(1);

/// The reason why a log gives no jobs.
#[derive(Debug, Error)]
pub enum JobSourceError {
    /// The log cannot be opened.
    #[error("cannot open the log {file}: {cause}; check its path")]
    CannotOpen { file: PathBuf, cause: io::Error },
    /// The log cannot be read, or used.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// A job as its source has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawJob {
    /// The number in the log, or from 1.
    pub(crate) number: u64,
    pub(crate) submitted: DurationMs,
    pub(crate) processors: u32,
    pub(crate) run_time: DurationMs,
    pub(crate) estimate: LogEstimate,
    /// The number of components, if the source gives it.
    pub(crate) components: Option<u32>,
}

/// An estimate in a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogEstimate {
    /// The log has it.
    Given(DurationMs),
    /// The log should have it.
    Missing,
    /// The model has none.
    NotModelled,
}

impl RawJob {
    pub(crate) fn from_generated(number: u64, job: &GeneratedJob) -> Self {
        let GeneratedJob {
            submitted,
            run_time,
            processors,
            ..
        } = *job;
        let estimate = LogEstimate::NotModelled;
        let components = None;
        Self {
            number,
            submitted,
            processors,
            run_time,
            estimate,
            components,
        }
    }

    /// A job of a log with its submit time counted from `start`.
    fn from_log(job: &SwfJob, start: DurationMs) -> Self {
        Self {
            number: job.number,
            submitted: DurationMs(job.submitted.0.saturating_sub(start.0)),
            processors: job.processors,
            run_time: job.run_time,
            estimate: job
                .requested_time
                .map_or(LogEstimate::Missing, LogEstimate::Given),
            components: None,
        }
    }
}

/// Opens the file for reading.
pub(crate) fn open_log(file: &Path) -> Result<File, JobSourceError> {
    File::open(file).map_err(|cause| JobSourceError::CannotOpen {
        file: file.into(),
        cause,
    })
}

/// The format and compression of a file with this name.
pub(crate) fn reading_for(file: &Path, on_bad: BadLineTreatment) -> WorkloadLogSettings {
    WorkloadLogSettings {
        file: file.display().to_string(),
        on_bad,
    }
}

/// The jobs of a log that were submitted from `start` on and before `end`, by
/// submit time, which counts from `start`.
pub(crate) fn log_jobs(
    file: &Path,
    on_bad: BadLineTreatment,
    processors_max: u32,
    (start, end): (DurationMs, DurationMs),
) -> Result<(Vec<RawJob>, JobSourceNotes), JobSourceError> {
    let log = read_swf(
        open_log(file)?,
        reading_for(file, on_bad),
        Some(processors_max),
    )?;
    let mut notes = JobSourceNotes {
        log: Some(log.complaints),
        ..JobSourceNotes::default()
    };
    let mut jobs = Vec::new();
    for job in &log.jobs {
        if job.submitted < start {
            notes.before_start += 1;
        } else if job.submitted < end {
            jobs.push(RawJob::from_log(job, start));
        } else {
            notes.after_end += 1;
        }
    }
    Ok((jobs, notes))
}

/// The jobs of the Lublin-Feitelson model for this many processors.
pub(super) fn lublin_jobs(
    jobs: usize,
    processors: u32,
    rng: &mut StdRng,
) -> Result<Vec<RawJob>, ModelParameterError> {
    let parameters = LublinParameters::default().for_system(processors);
    let jobs = LublinGenerator::new(&parameters)?.jobs(jobs, rng);
    Ok((1..)
        .zip(&jobs)
        .map(|(number, job)| RawJob::from_generated(number, job))
        .collect())
}

/// The jobs of a Poisson source; none for any other.
pub(super) fn poisson_jobs(
    source: &WorkloadSource,
    rng: &mut StdRng,
) -> Result<Vec<RawJob>, ModelParameterError> {
    let WorkloadSource::Poisson {
        jobs,
        mean_interarrival,
        sizes,
        shortest,
        longest,
    } = source
    else {
        return Ok(Vec::new());
    };
    let mut arrivals = PoissonArrivals::new(*mean_interarrival)?;
    Ok((1..)
        .take(*jobs)
        .map(|number| {
            let submitted = arrivals.next_arrival(rng);
            let run_time = DurationMs(rng.random_range(shortest.0..=longest.0));
            let size = sizes[rng.random_range(0..sizes.len())];
            let processors = size.processors();
            let job = GeneratedJob {
                submitted,
                run_time,
                processors,
                interactive: false,
            };
            RawJob {
                components: size.given_components(),
                ..RawJob::from_generated(number, &job)
            }
        })
        .collect())
}
