//! Faults that end a task of an agent, and who is to blame.

use std::fmt;
use std::io;

use crate::files::agent_messages::{AgentOutcome, WireBlame};

/// The reason why a task failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TaskError {
    pub(super) blame: WireBlame,
    pub(super) detail: String,
}

impl TaskError {
    pub(super) fn at_source_end(detail: impl fmt::Display) -> Self {
        Self {
            blame: WireBlame::Source,
            detail: format!("source: {detail}"),
        }
    }

    pub(super) fn at_destination_end(detail: impl fmt::Display) -> Self {
        Self {
            blame: WireBlame::Destination,
            detail: format!("destination: {detail}"),
        }
    }

    pub(super) fn in_process(detail: impl fmt::Display) -> Self {
        Self {
            blame: WireBlame::Process,
            detail: detail.to_string(),
        }
    }

    pub(super) fn to_outcome(&self) -> AgentOutcome {
        AgentOutcome::from_failure(self.blame, &self.detail)
    }
}

/// Says at which end an operation failed, and what it was.
pub(super) trait FailureEnd<T> {
    /// Blames the source: the operation read it.
    fn at_source(self, what: impl fmt::Display) -> Result<T, TaskError>;
    /// Blames the destination: the operation wrote to it.
    fn at_destination(self, what: impl fmt::Display) -> Result<T, TaskError>;
}

impl<T> FailureEnd<T> for io::Result<T> {
    fn at_source(self, what: impl fmt::Display) -> Result<T, TaskError> {
        self.map_err(|error| TaskError::at_source_end(format_args!("{what}: {error}")))
    }

    fn at_destination(self, what: impl fmt::Display) -> Result<T, TaskError> {
        self.map_err(|error| TaskError::at_destination_end(format_args!("{what}: {error}")))
    }
}
