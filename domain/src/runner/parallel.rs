//! The runner of parallel programs, whose components talk to each other: no payload begins before
//! all are ready, and each finds the others in a file.

use super::{AttemptLaunch, Runner};
use crate::job::job_state::Job;

/// The runner that gives each component its rank, and the hosts of all others.
pub(super) struct ParallelRunner;

impl Runner for ParallelRunner {
    fn name(&self) -> &'static str {
        "parallel"
    }

    fn components_are_independent(&self) -> bool {
        false
    }

    fn prepare_launch(&self, _: &Job, launch: &mut AttemptLaunch) {
        launch.lists_hosts = true;
    }
}
