//! The default runner: the components of a job start together, and nothing else.

use super::{DEFAULT_RUNNER, Runner};

/// The runner whose components only start together.
pub(super) struct DefaultRunner;

impl Runner for DefaultRunner {
    fn name(&self) -> &'static str {
        DEFAULT_RUNNER
    }
}
