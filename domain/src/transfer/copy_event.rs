//! The events of a copy, which are journalled. Progress is not: it can be seen again.

use std::sync::Arc;

use crate::transfer::copy_state::{CopyTry, TryNonce};
use crate::units::Timestamp;

/// An event with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyEvent {
    /// The time of the decision.
    pub at: Timestamp,
    /// The event.
    pub what: CopyEventKind,
}

/// The event of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyEventKind {
    /// A job or another copy needs it.
    CopyNeeded,
    /// Nobody needs it any more; what there is stays for a while.
    CopyReleased,
    /// A source was chosen for a try. Partial data of an earlier try under another nonce is to be
    /// discarded.
    CopyOrdered(CopyTry),
    /// There is no source to copy from now.
    SourceMissing {
        /// True if all sources failed, or there is none: the jobs get a report.
        hopeless: bool,
        /// The reason, for people.
        detail: Arc<str>,
        /// The time of the next search for a source.
        retry_at: Timestamp,
    },
    /// The site accepted the request, or may have.
    CopyStarted,
    /// The try failed.
    TryFailed {
        /// The side that is at fault.
        blame: TryFaultSide,
        /// The error, for people.
        detail: Arc<str>,
        /// The time of the next try.
        retry_at: Timestamp,
        /// True if the jobs get the report that it cannot be had.
        give_up: bool,
    },
    /// It stands still: the process is to be stopped, and its data kept.
    CopyStalled {
        /// The last state that was seen.
        detail: Arc<str>,
    },
    /// Nobody has needed it for long enough: the process is to be stopped, and its data kept.
    StopDecided,
    /// The process is stopped.
    CopyStopped {
        /// The time of the next try, if it is still needed.
        retry_at: Timestamp,
    },
    /// Nobody has needed it for long enough to try again: all that may be left of it is to be
    /// discarded and deleted. A try that was to be stopped may have completed.
    CopyAbandoned,
    /// Partial data is gone from the site.
    PartialDiscarded {
        /// The nonce of the try.
        nonce: TryNonce,
    },
    /// It is whole and checked.
    CopyCompleted,
    /// It was ready, and is gone.
    CopyLost {
        /// The state that was seen.
        detail: Arc<str>,
    },
    /// Nobody has needed it for long enough: it is to be deleted.
    DeletionDecided,
    /// A job or another copy came to need it before anything was deleted: it stays.
    DeletionRevoked,
    /// It is gone from the site.
    CopyDeleted,
}

/// The side that is at fault for a failed try, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TryFaultSide {
    /// The source could not be read, is short, or has another digest.
    Source,
    /// The destination could not be written.
    Destination,
    /// The copying process ended without a word, or could not be started.
    Process,
}

impl TryFaultSide {
    /// The name in answers and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            TryFaultSide::Source => "source",
            TryFaultSide::Destination => "destination",
            TryFaultSide::Process => "process",
        }
    }
}

impl CopyEventKind {
    /// The name in the journal and in the event stream.
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
