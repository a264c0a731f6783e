//! Jobs that users submit to the control plane during a simulation: from a log or a model, each
//! split into components.
//!
//! [`WorkloadOptions::plan_workload`] reads or draws all jobs beforehand. Nothing is left out in silence:
//! jobs that are left out or changed are counted in the [`WorkloadComplaints`], and the first cases
//! are named.
//!
//! Deliberately absent: users that wait for a job before they submit the next (an open workload
//! only), and the sites where components should run.

mod estimates;
mod fit;
mod job_source;
mod own_files;
mod plan;
mod split_jobs;
#[cfg(test)]
mod tests;
mod workload_changes;

use std::path::PathBuf;

use cospan_domain::ids::LogicalName;
use cospan_domain::job::spec::Priority;
use cospan_domain::units::{DurationMs, Timestamp};
use thiserror::Error;

use crate::models::ModelParameterError;
use crate::models::tsafrir::EstimateError;
use cospan_languages::logs::BadLineTreatment;

pub use estimates::EstimateSource;
pub(crate) use estimates::{RunTimeAndEstimate, settle_times, stretch_estimates};
pub use job_source::{JobSourceError, SHORTEST_RUN_TIME};
pub(crate) use job_source::{RawJob, log_jobs, open_log, reading_for};
pub use own_files::{OwnFileSettings, OwnReplica};
pub use split_jobs::{COMPONENTS_MAX, JobSize, WorkloadSplit};
pub use workload_changes::{JobSourceNotes, UnplaceableJob, WorkloadComplaints};

/// The largest number of jobs that a model may be asked for.
pub const JOBS_MAX: usize = 1_000_000;
/// The largest and, inverted, the smallest load scale.
pub const LOAD_SCALE_MAX: f64 = 1000.0;

/// Largest factor of estimates.
pub const ESTIMATES_TIMES_MAX: f64 = 100.0;

/// A source of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkloadSource {
    /// A job log in Standard Workload Format, plain or compressed with gzip or
    /// xz; jobs count from the start of the log.
    Log(PathBuf),
    /// The model of Lublin and Feitelson, batch and interactive jobs, for a
    /// machine with all processors of the grid.
    Lublin {
        /// Number of jobs, 1 to [`JOBS_MAX`].
        jobs: usize,
    },
    /// Poisson arrivals, uniform sizes and run times.
    Poisson {
        /// Number of jobs, 1 to [`JOBS_MAX`].
        jobs: usize,
        /// Mean time between arrivals, above zero.
        mean_interarrival: DurationMs,
        /// Sizes of jobs: each entry is equally likely. Not empty, no zero.
        sizes: Vec<JobSize>,
        /// The shortest run time.
        shortest: DurationMs,
        /// The longest run time, not below the shortest.
        longest: DurationMs,
    },
}

/// The jobs to submit, and how they are made from their source.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadOptions {
    /// The source of the jobs.
    pub source: WorkloadSource,
    /// At most this many jobs: the first that can be placed.
    pub jobs_max: Option<usize>,
    /// Divides all times between arrivals: 2 doubles the load. From 1/1000 to
    /// [`LOAD_SCALE_MAX`].
    pub load_scale: f64,
    /// The way in which a job is split into components.
    pub split: WorkloadSplit,
    /// Input files; each job draws one of them. Empty: jobs have no input.
    pub inputs: Vec<LogicalName>,
    /// Instead of `inputs`: each job reads a file that no other reads.
    pub own_files: Option<OwnFileSettings>,
    /// Thousandths of its run time by which a job runs longer for each further site that it
    /// combines; more over slow links.
    pub slowdown_per_mille: u64,
    /// Priorities; each job draws one of them. Empty: all have the default.
    pub priorities: Vec<Priority>,
    /// The source of run time estimates.
    pub estimates: EstimateSource,
    /// Factor of all estimates: above 0.
    pub estimates_times: f64,
    /// The treatment of an unusable line of the log, and of a job that can never be placed.
    pub on_bad: BadLineTreatment,
    /// Decides everything that is drawn.
    pub seed: u64,
}

/// A job that will be submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadJob {
    /// Time of submission.
    pub at: Timestamp,
    /// Processors of each component, largest first; at least one component,
    /// and none without processors.
    pub components: Vec<u32>,
    /// Run time if nothing stops it; at least [`SHORTEST_RUN_TIME`].
    pub run_time: DurationMs,
    /// Run time that its user estimates; above zero. It can be below the run time if the log says
    /// so: such a job is killed at its estimate.
    pub estimate: DurationMs,
    /// The number in the log, or from 1 if it comes from a model.
    pub name: String,
    /// The file it needs.
    pub input: Option<LogicalName>,
    pub priority: Priority,
}

/// All jobs, and complaints about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The jobs in the order of their submission; those at the same time in the
    /// order of the source.
    pub jobs: Vec<WorkloadJob>,
    /// Notes about jobs that were left out or changed.
    pub complaints: WorkloadComplaints,
}

/// The reason why there is no workload.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// The log cannot be read, or holds no job that can be used.
    #[error(transparent)]
    Source(#[from] JobSourceError),
    /// An option is outside its range.
    #[error("{option} is {value}; {remedy}")]
    Option {
        option: &'static str,
        value: String,
        /// The allowed values.
        remedy: String,
    },
    /// A model's parameter is outside its range.
    #[error(transparent)]
    Model(#[from] ModelParameterError),
    /// No estimates could be drawn.
    #[error("cannot draw estimates: {0}; use --estimates exact instead")]
    Estimates(#[from] EstimateError),
    /// A job can never be placed, and such jobs are refused.
    #[error("{0}; choose a larger grid or another split, or allow such jobs to be skipped")]
    Unplaceable(UnplaceableJob),
    /// No job is left.
    #[error("no job can be used ({0}); choose a larger grid, another split or another source")]
    NoJobs(WorkloadComplaints),
}

impl WorkloadJob {
    pub fn processors(&self) -> u64 {
        self.components
            .iter()
            .map(|processors| u64::from(*processors))
            .sum()
    }

    /// Time for which it holds its processors: its run time, or its estimate if it is killed then.
    pub fn occupation_time(&self) -> DurationMs {
        self.run_time.min(self.estimate)
    }
}

/// The offered load: requested processor time, as a share of what `processors` have. The available
/// time is that between the first and the last submission, and one mean time between submissions
/// more, for the last job.
///
/// `None` for fewer than two jobs, for jobs submitted all at once, or for no
/// processors.
pub fn offered_load(jobs: &[WorkloadJob], processors: u64) -> Option<f64> {
    let first = jobs.first()?;
    let last = jobs.last()?;
    let span_ms = last.at.since(first.at).0 as f64;
    if span_ms <= 0.0 || processors == 0 {
        return None;
    }
    let asked: f64 = jobs
        .iter()
        .map(|job| job.processors() as f64 * job.occupation_time().0 as f64)
        .sum();
    let count = jobs.len() as f64;
    Some(asked / (processors as f64 * span_ms * count / (count - 1.0)))
}

impl WorkloadSource {
    /// Describes the source, as part of a line.
    pub fn describe(&self) -> String {
        match self {
            Self::Log(path) => format!("log {}", path.display()),
            Self::Lublin { jobs } => format!("{jobs} jobs of the Lublin-Feitelson model"),
            Self::Poisson {
                jobs,
                mean_interarrival,
                sizes,
                shortest,
                longest,
            } => {
                let sizes: Vec<String> = sizes.iter().map(JobSize::to_string).collect();
                format!(
                    "{jobs} Poisson jobs every {mean_interarrival} of {} processors for \
                     {shortest} to {longest}",
                    sizes.join("|"),
                )
            }
        }
    }
}

impl WorkloadOptions {
    /// All jobs of `source` as they are, in one component each, without input; ten complaints of
    /// each kind are kept.
    pub fn new(source: WorkloadSource, seed: u64) -> Self {
        Self {
            source,
            jobs_max: None,
            load_scale: 1.0,
            split: WorkloadSplit::None,
            inputs: Vec::new(),
            own_files: None,
            slowdown_per_mille: 0,
            priorities: Vec::new(),
            estimates: EstimateSource::AsGiven,
            estimates_times: 1.0,
            on_bad: BadLineTreatment::Skip {
                kept_per_kind_max: 10,
            },
            seed,
        }
    }

    /// Describes in a line everything that determines this workload.
    pub fn describe(&self) -> String {
        let mut parts = vec![self.source.describe()];
        parts.extend(self.jobs_max.map(|jobs| format!("first {jobs} jobs")));
        parts.push(format!("load x {}", self.load_scale));
        parts.push(self.split.describe());
        if !self.inputs.is_empty() {
            let names: Vec<&str> = self.inputs.iter().map(LogicalName::as_str).collect();
            parts.push(format!("input {}", names.join("|")));
        }
        parts.extend(self.own_files.as_ref().map(OwnFileSettings::describe));
        if self.slowdown_per_mille > 0 {
            let share = self.slowdown_per_mille as f64 / 1_000.0;
            parts.push(format!("slower by {share} a further site"));
        }
        if !self.priorities.is_empty() {
            let names: Vec<&str> = self.priorities.iter().map(|p| p.as_str()).collect();
            parts.push(format!("priority {}", names.join("|")));
        }
        parts.push(format!(
            "estimates {}",
            self.estimates.describe_times(self.estimates_times)
        ));
        parts.push(format!("seed {}", self.seed));
        parts.join("; ")
    }
}
