//! What can be asked of a copy, and what the shell tells it.

use std::sync::Arc;

use thiserror::Error;

use crate::transfer::event::TryBlame;
use crate::transfer::state::{Nonce, TrySource};
use crate::units::DurationMs;

/// A command to one copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyCommand {
    /// At least one job needs it, or another copy reads from it.
    Need,
    /// Nobody needs it any more.
    NoLongerNeeded,
    /// Look at the clock.
    Look,
    /// This source was chosen for the next try.
    Begin {
        /// Where from.
        source: TrySource,
        /// Drawn; not used if partial data from the same source can be resumed.
        nonce: Nonce,
    },
    /// There is no source for the next try.
    NoSource {
        /// Waiting does not help: all sources failed, or there is none. Else they
        /// only do not answer now.
        hopeless: bool,
        /// Why, for people.
        detail: Arc<str>,
    },
    /// The order to copy was answered.
    StartAnswered {
        /// Of which try.
        nonce: Nonce,
        /// How.
        answer: StartAnswer,
    },
    /// The site was asked how the copy is doing.
    Observed {
        /// Which try.
        nonce: Nonce,
        /// What was seen.
        seen: SeenCopy,
    },
    /// The order to stop was carried out.
    StopConfirmed {
        /// Of which try.
        nonce: Nonce,
    },
    /// Partial data is gone.
    DiscardConfirmed {
        /// Of which try.
        nonce: Nonce,
    },
    /// The content is gone from the site.
    DeleteConfirmed {
        /// The nonce that the order to delete carried.
        nonce: Nonce,
    },
    /// The site answered that it still has content that was to be deleted.
    FoundThere {
        /// The nonce of the deletion.
        nonce: Nonce,
    },
    /// The site answered that it does not have content that it had.
    FoundMissing {
        /// The try that had completed it.
        nonce: Nonce,
    },
}

/// How a site answered an order to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartAnswer {
    /// It was taken.
    Taken,
    /// Perhaps it was taken: watching it will tell.
    Unknown,
    /// The destination said no, as on a full disk.
    Refused(Arc<str>),
}

/// What was seen of a copy at its site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeenCopy {
    /// Neither a process nor data under this nonce.
    Absent,
    /// A process is at it.
    Running {
        /// For how long nothing has arrived, see [`crate::transfer::progress::TryProgress`].
        unchanged_for: DurationMs,
    },
    /// Whole, checked, and in the content store.
    Complete,
    /// The process ended without completing.
    Failed {
        /// Where the fault is.
        blame: TryBlame,
        /// What happened.
        detail: Arc<str>,
    },
}

/// Why a command changes nothing.
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
