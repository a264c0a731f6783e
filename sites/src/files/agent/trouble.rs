//! What keeps an agent from its end, and whose fault it is.

use std::fmt;
use std::io;

use crate::files::wire::{Blame, Outcome};

/// Why a task failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) blame: Blame,
    pub(super) detail: String,
}

impl Trouble {
    pub(super) fn source(detail: impl fmt::Display) -> Self {
        Self {
            blame: Blame::Source,
            detail: format!("source: {detail}"),
        }
    }

    pub(super) fn destination(detail: impl fmt::Display) -> Self {
        Self {
            blame: Blame::Destination,
            detail: format!("destination: {detail}"),
        }
    }

    pub(super) fn process(detail: impl fmt::Display) -> Self {
        Self {
            blame: Blame::Process,
            detail: detail.to_string(),
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        Outcome::failed(self.blame, &self.detail)
    }
}

/// Says at which end an operation failed, and what it was.
pub(super) trait At<T> {
    /// While reading the source.
    fn at_source(self, what: impl fmt::Display) -> Result<T, Trouble>;
    /// While writing the destination.
    fn at_destination(self, what: impl fmt::Display) -> Result<T, Trouble>;
}

impl<T> At<T> for io::Result<T> {
    fn at_source(self, what: impl fmt::Display) -> Result<T, Trouble> {
        self.map_err(|error| Trouble::source(format_args!("{what}: {error}")))
    }

    fn at_destination(self, what: impl fmt::Display) -> Result<T, Trouble> {
        self.map_err(|error| Trouble::destination(format_args!("{what}: {error}")))
    }
}
