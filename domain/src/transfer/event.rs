//! What happened to a copy; journalled. Progress is not: it can be seen again.

use std::sync::Arc;

use crate::transfer::state::{Nonce, Try};
use crate::units::Timestamp;

/// One event with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyEvent {
    /// When it was decided.
    pub at: Timestamp,
    /// What happened.
    pub what: CopyEventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyEventKind {
    /// Someone needs it.
    CopyNeeded,
    /// Nobody needs it any more; what there is stays for a while.
    CopyReleased,
    /// A source was chosen: it is to be copied from there. Partial data of an
    /// earlier try under another nonce is to be discarded.
    CopyOrdered(Try),
    /// There is no source to copy from now.
    SourceMissing {
        /// The jobs are told: all sources failed, or there is none.
        hopeless: bool,
        /// Why, for people.
        detail: Arc<str>,
        /// Looked for again then.
        retry_at: Timestamp,
    },
    /// The site took the order, or may have.
    CopyStarted,
    /// The try failed.
    TryFailed {
        /// Where the fault is.
        blame: TryBlame,
        /// What happened.
        detail: Arc<str>,
        /// Tried again then.
        retry_at: Timestamp,
        /// The jobs are told that it cannot be had.
        give_up: bool,
    },
    /// It stands still: the process is to be stopped, its data kept.
    CopyStalled {
        /// What was seen.
        detail: Arc<str>,
    },
    /// Nobody has needed it for long enough: the process is to be stopped, its data kept.
    StopDecided,
    /// The process is stopped.
    CopyStopped {
        /// Tried again then, if still needed.
        retry_at: Timestamp,
    },
    /// Nobody has needed it for long enough to try again: whatever there may be of it
    /// is to be discarded and deleted. A try that was to be stopped may have completed.
    CopyAbandoned,
    /// Partial data is gone from the site.
    PartialDiscarded {
        /// Of which try.
        nonce: Nonce,
    },
    /// Whole and checked.
    CopyCompleted,
    /// It was ready, and is not there any more.
    CopyLost {
        /// What was seen.
        detail: Arc<str>,
    },
    /// Nobody has needed it for long enough: it is to be deleted.
    DeletionDecided,
    /// Somebody came to need it before anything was deleted: it stays.
    DeletionRevoked,
    /// It is gone from the site.
    CopyDeleted,
}

/// Where the fault of a failed try is, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TryBlame {
    /// The source could not be read, is short, or has another digest.
    Source,
    /// The destination could not be written.
    Destination,
    /// The copying process ended without a word, or could not be started.
    Process,
}

impl TryBlame {
    /// Its name in answers and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            TryBlame::Source => "source",
            TryBlame::Destination => "destination",
            TryBlame::Process => "process",
        }
    }
}

impl CopyEventKind {
    /// Its name in the journal and in the event stream.
    pub fn name(&self) -> &'static str {
        match self {
            CopyEventKind::CopyNeeded => "CopyNeeded",
            CopyEventKind::CopyReleased => "CopyReleased",
            CopyEventKind::CopyOrdered(_) => "CopyOrdered",
            CopyEventKind::SourceMissing { .. } => "SourceMissing",
            CopyEventKind::CopyStarted => "CopyStarted",
            CopyEventKind::TryFailed { .. } => "TryFailed",
            CopyEventKind::CopyStalled { .. } => "CopyStalled",
            CopyEventKind::StopDecided => "StopDecided",
            CopyEventKind::CopyStopped { .. } => "CopyStopped",
            CopyEventKind::CopyAbandoned => "CopyAbandoned",
            CopyEventKind::PartialDiscarded { .. } => "PartialDiscarded",
            CopyEventKind::CopyCompleted => "CopyCompleted",
            CopyEventKind::CopyLost { .. } => "CopyLost",
            CopyEventKind::DeletionDecided => "DeletionDecided",
            CopyEventKind::DeletionRevoked => "DeletionRevoked",
            CopyEventKind::CopyDeleted => "CopyDeleted",
        }
    }
}
