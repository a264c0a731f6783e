//! Runners, one for each type of application. A runner turns a description into the jobs
//! that it stands for, and says what every attempt of them is told when it starts.
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
mod options;
#[cfg(test)]
mod tests;

pub use error::RunnerError;
pub use launch::Launch;
pub use options::{RestartScope, RunOptions, Signal, Warning};
pub use sweep::{Indices, Over, Sweep, SweepRow, SweepTask};

use crate::ids::RunnerName;
use crate::job::spec::JobSpec;
use crate::job::state::Job;
use crate::units::Bytes;

/// Names each runner once: its file, and what in it is the runner.
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

/// Name of the runner of jobs that name none.
pub const DEFAULT_RUNNER: &str = "default";

/// Runs the jobs of one type of application.
pub trait Runner: Send + Sync {
    /// Its name in job files: lower-case letters and `-`.
    fn name(&self) -> &'static str;

    /// The jobs that a description stands for, in the order in which they are numbered:
    /// one, unless the runner makes many of it.
    ///
    /// # Errors
    /// The description is not one for this runner.
    fn jobs(&self, described: Described) -> Result<Vec<JobSpec>, RunnerError> {
        match described.sweep {
            Some(_) => Err(RunnerError::SweepElsewhere {
                runner: self.name(),
            }),
            None => Ok(vec![described.spec]),
        }
    }

    /// Whether a component can be restarted while the others go on.
    fn components_are_independent(&self) -> bool {
        true
    }

    /// Adds what an attempt of one of its jobs is told.
    fn tell(&self, _job: &Job, _launch: &mut Launch) {}
}

/// What a user describes: a job, or one from which many are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The job. Its texts may hold placeholders of the sweep.
    pub spec: JobSpec,
    /// What its runs differ in.
    pub sweep: Option<Sweep>,
    /// Most jobs that may be made of it.
    pub max_tasks: usize,
    /// Most memory that these may take together.
    pub max_bytes: Bytes,
}

impl Described {
    /// The jobs that it stands for.
    ///
    /// # Errors
    /// There is no such runner, or it cannot run this.
    pub fn jobs(self) -> Result<Vec<JobSpec>, RunnerError> {
        runner_of(&self.spec)?.jobs(self)
    }
}

/// The runner of this name.
///
/// # Errors
/// There is none; the error lists those there are.
pub fn find_runner(name: &str) -> Result<&'static dyn Runner, RunnerError> {
    let found = RUNNERS.iter().copied().find(|runner| runner.name() == name);
    found.ok_or_else(|| RunnerError::Unknown {
        name: name.to_owned(),
        known: RUNNERS.iter().map(|runner| runner.name()).collect(),
    })
}

/// The runner of a job.
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
