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
    pub(super) fn blaming_source(detail: impl fmt::Display) -> Self {
        Self {
            blame: WrittenCopyBlame::Source,
            detail: format!("source: {detail}"),
        }
    }

    pub(super) fn blaming_destination(detail: impl fmt::Display) -> Self {
        Self {
            blame: WrittenCopyBlame::Destination,
            detail: format!("destination: {detail}"),
        }
    }

    pub(super) fn blaming_process(detail: impl fmt::Display) -> Self {
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
        self.map_err(|error| AgentTaskError::blaming_source(format_args!("{what}: {error}")))
    }

    fn at_destination(self, what: impl fmt::Display) -> Result<T, AgentTaskError> {
        self.map_err(|error| AgentTaskError::blaming_destination(format_args!("{what}: {error}")))
    }
}
