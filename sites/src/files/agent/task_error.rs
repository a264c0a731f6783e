//! Faults that end a task of an agent, and who is to blame.

use std::fmt;
use std::io;

use crate::files::agent_messages::{CopyAgentOutcome, WrittenCopyBlame};

/// The reason why a task failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AgentTaskError {
    pub(super) blame: WrittenCopyBlame,
    pub(super) detail: String,
}

impl AgentTaskError {
    pub(super) fn at_source_end(detail: impl fmt::Display) -> Self {
        Self {
            blame: WrittenCopyBlame::Source,
            detail: format!("source: {detail}"),
        }
    }

    pub(super) fn at_destination_end(detail: impl fmt::Display) -> Self {
        Self {
            blame: WrittenCopyBlame::Destination,
            detail: format!("destination: {detail}"),
        }
    }

    pub(super) fn in_process(detail: impl fmt::Display) -> Self {
        Self {
            blame: WrittenCopyBlame::Process,
            detail: detail.to_string(),
        }
    }

    pub(super) fn to_outcome(&self) -> CopyAgentOutcome {
        CopyAgentOutcome::from_failure(self.blame, &self.detail)
    }
}

/// Says at which end an operation failed, and what it was.
pub(super) trait BlameCopyEnd<T> {
    /// Blames the source: the operation read it.
    fn at_source(self, what: impl fmt::Display) -> Result<T, AgentTaskError>;
    /// Blames the destination: the operation wrote to it.
    fn at_destination(self, what: impl fmt::Display) -> Result<T, AgentTaskError>;
}

impl<T> BlameCopyEnd<T> for io::Result<T> {
    fn at_source(self, what: impl fmt::Display) -> Result<T, AgentTaskError> {
        self.map_err(|error| AgentTaskError::at_source_end(format_args!("{what}: {error}")))
    }

    fn at_destination(self, what: impl fmt::Display) -> Result<T, AgentTaskError> {
        self.map_err(|error| AgentTaskError::at_destination_end(format_args!("{what}: {error}")))
    }
}
