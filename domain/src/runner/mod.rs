//! Runners, one for each type of application. A runner turns a description into jobs, and adds to
//! the launch of each attempt what its payload has to know.
//!
//! A new runner is its file and a line in the list below:
//!
//! | runner | its jobs |
//! |---|---|
//! | `default` | components only start together |
//! | `parallel` | each component also finds the hosts of all others, and its rank, in a file |
//! | `sweep` | many independent runs of one description |

mod error;
mod launch;
mod runner_options;
#[cfg(test)]
mod tests;

pub use error::RunnerError;
pub use launch::AttemptLaunch;
pub use runner_options::{EndWarning, PayloadSignal, RestartScope, RunOptions, SignalReceiver};
pub use sweep::{Sweep, SweepIndices, SweepRow, SweepSource, SweepTask};

use crate::ids::RunnerName;
use crate::job::job_state::Job;
use crate::job::spec::JobSpec;
use crate::units::Bytes;

/// Names each runner once: its file, and the runner in it.
macro_rules! runners {
    ($($file:ident: $runner:ident;)+) => {
        $(mod $file;)+

        /// Every runner.
        pub static RUNNERS: &[&dyn Runner] = &[$(&$file::$runner),+];
    };
}

runners! {
    default: DefaultRunner;
    parallel: ParallelRunner;
    sweep: SweepRunner;
}

/// The name of the runner of jobs that name none.
pub const DEFAULT_RUNNER: &str = "default";

/// A runner of jobs of one type of application.
pub trait Runner: Send + Sync {
    /// The name in job files: lower-case letters and `-`.
    fn name(&self) -> &'static str;

    /// Turns a description into jobs, in the order in which they are numbered: one, unless the
    /// runner makes many of it.
    ///
    /// # Errors
    /// The description is not one for this runner.
    fn expand_jobs(&self, described: JobDescription) -> Result<Vec<JobSpec>, RunnerError> {
        match described.sweep {
            Some(_) => Err(RunnerError::SweepElsewhere {
                runner: self.name(),
            }),
            None => Ok(vec![described.spec]),
        }
    }

    /// Returns true if a component can be restarted while the others go on.
    fn components_are_independent(&self) -> bool {
        true
    }

    /// Adds what an attempt of one of its jobs has to know.
    fn prepare_launch(&self, _job: &Job, _launch: &mut AttemptLaunch) {}
}

/// The description by a user: a job, or one from which many are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDescription {
    /// The job. Texts in it may have placeholders of the sweep.
    pub spec: JobSpec,
    /// The differences between the runs.
    pub sweep: Option<Sweep>,
    /// The most jobs that may be made of it.
    pub max_tasks: usize,
    /// The most memory that these may take together.
    pub max_bytes: Bytes,
}

impl JobDescription {
    /// Turns the description into jobs.
    ///
    /// # Errors
    /// There is no such runner, or it cannot run this.
    pub fn into_jobs(self) -> Result<Vec<JobSpec>, RunnerError> {
        runner_of(&self.spec)?.expand_jobs(self)
    }
}

/// Finds the runner of this name.
///
/// # Errors
/// There is none; the error lists the known ones.
pub fn find_runner(name: &str) -> Result<&'static dyn Runner, RunnerError> {
    let found = RUNNERS.iter().copied().find(|runner| runner.name() == name);
    found.ok_or_else(|| RunnerError::Unknown {
        name: name.to_owned(),
        known: RUNNERS.iter().map(|runner| runner.name()).collect(),
    })
}

/// Finds the runner of a job.
///
/// # Errors
/// As [`find_runner`].
pub fn runner_of(spec: &JobSpec) -> Result<&'static dyn Runner, RunnerError> {
    find_runner(
        spec.run
            .runner
            .as_ref()
            .map_or(DEFAULT_RUNNER, RunnerName::as_str),
    )
}
