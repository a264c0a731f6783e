//! Commands to a copy, and reports from the shell.

use std::sync::Arc;

use thiserror::Error;

use crate::transfer::copy_event::TryFaultSide;
use crate::transfer::copy_state::{CopyTrySource, TryNonce};
use crate::units::DurationMs;

/// A command to a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyCommand {
    /// At least one job needs it, or another copy reads from it.
    Need,
    /// Nobody needs it any more.
    NoLongerNeeded,
    /// The clock may have made something due.
    Look,
    /// This source was chosen for the next try.
    Begin {
        /// The source to copy from.
        source: CopyTrySource,
        /// Drawn; not used if partial data from the same source can be resumed.
        nonce: TryNonce,
    },
    /// There is no source for the next try.
    NoSource {
        /// True if waiting does not help: all sources failed, or there is none. Else they only do
        /// not answer now.
        hopeless: bool,
        /// The reason, for people.
        detail: Arc<str>,
    },
    /// The site answered the request to copy.
    StartAnswered {
        /// The nonce of the try.
        nonce: TryNonce,
        answer: CopyStartAnswer,
    },
    /// The site reported the state of the copy.
    Observed {
        /// The nonce of the try.
        nonce: TryNonce,
        seen: CopySighting,
    },
    /// The process of a try was stopped.
    StopConfirmed {
        /// The nonce of the try.
        nonce: TryNonce,
    },
    /// Partial data is gone.
    DiscardConfirmed {
        /// The nonce of the try.
        nonce: TryNonce,
    },
    /// The content is gone from the site.
    DeleteConfirmed {
        /// The nonce that the request to delete carried.
        nonce: TryNonce,
    },
    /// The site answered that it still has content that was to be deleted.
    FoundThere {
        /// The nonce of the deletion.
        nonce: TryNonce,
    },
    /// The site answered that it does not have content that it had.
    FoundMissing {
        /// The try that had completed it.
        nonce: TryNonce,
    },
}

/// The answer of a site to a request to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyStartAnswer {
    /// The site accepted it.
    Taken,
    /// The site may have accepted it: watching the copy will show that.
    Unknown,
    /// The destination refused, as on a full disk.
    Refused(Arc<str>),
}

/// The state of a copy as seen at its site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopySighting {
    /// Neither a process nor data under this nonce.
    Absent,
    /// A process works on it.
    Running {
        /// Time without any new data, see [`crate::transfer::stall_clock::CopyTryProgress`].
        unchanged_for: DurationMs,
    },
    /// The content is whole, checked, and in the content store.
    Complete,
    /// The process ended without completing.
    Failed {
        /// The side that is at fault.
        blame: TryFaultSide,
        /// The error, for people.
        detail: Arc<str>,
    },
}

/// The reason why a command changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum CopyRejection {
    #[error("out of date")]
    Stale,
    #[error("nobody needs the copy")]
    NotNeeded,
    #[error("not tried again yet")]
    TooEarly,
    #[error("this source has failed; the others come first")]
    ExcludedSource,
    #[error("this number names an earlier try; draw another")]
    NonceInUse,
    #[error("partial data of earlier tries must be discarded first")]
    TooManyLeftovers,
}
