//! The durable record of a copy of one content at one site.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::content::{Content, FileChunk};
use crate::ids::SiteName;
use crate::transfer::file_place::FilePlace;
use crate::units::Timestamp;

/// The most tries whose partial data is still to be discarded; no further try begins before there
/// are fewer.
pub const MAX_LEFTOVERS: usize = 16;

/// The durable record of a copy: written before its first byte is moved, removed once nothing of it
/// is left at its site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyRecord {
    /// The content that is copied.
    pub content: Content,
    /// The file, and the chunk of it, if it is a chunk of a file.
    pub chunk: Option<FileChunk>,
    /// The site that it is copied to.
    pub site: SiteName,
    /// Says if it is needed there.
    pub usage: CopyUsage,
    pub phase: CopyPhase,
    /// The faults since it was last wanted.
    pub trouble: CopyFaults,
    /// The latest try since there was certainly nothing of it at its site. From then on its content
    /// may be there, whatever was reported of the try.
    pub latest: Option<CopyTry>,
    /// The partial data of tries that will not be resumed, until known to be gone.
    pub leftovers: BTreeMap<TryNonce, CopyTrySource>,
}

/// Says if a copy is needed. The jobs that need it are found in their own records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyUsage {
    /// At least one job needs it, or another copy that reads from it.
    Needed,
    /// Nobody needs it, since this time.
    Unneeded { since: Timestamp },
}

/// The phase of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyPhase {
    /// There is none, and none is wanted.
    Absent,
    /// It is not being made: new, stopped, or after a failed try.
    Waiting {
        since: Timestamp,
        /// The earliest time of the next try.
        not_before: Timestamp,
        /// The try whose partial data can be used again.
        resume: Option<CopyTry>,
        /// True if the jobs that need it were told that it cannot be had. It is tried again
        /// nevertheless, for those that still need it.
        given_up: bool,
    },
    /// It is being made.
    Copying {
        since: Timestamp,
        /// The try: its source, and its nonce.
        order: CopyTry,
        /// True if the site accepted the request, or may have.
        started: bool,
    },
    /// It is to be stopped: nobody needs it, or it stands still.
    Stopping {
        since: Timestamp,
        /// The try that is to be stopped.
        order: CopyTry,
    },
    /// It is whole and checked.
    Ready {
        at: Timestamp,
        /// The try that completed it: tells this copy from an earlier one.
        nonce: TryNonce,
    },
    /// It is to be deleted, after partial data of all tries. If a need comes up now, it stays if it
    /// is still there; else the need waits until it is gone.
    Deleting {
        since: Timestamp,
        /// The latest try: tells this deletion from an earlier one.
        nonce: TryNonce,
    },
}

/// A try to bring content from a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyTry {
    /// The source to copy from.
    pub source: CopyTrySource,
    /// The name of the try, and of its partial data.
    pub nonce: TryNonce,
}

/// The source of content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyTrySource {
    /// The site that has it.
    pub site: SiteName,
    /// The place of the file there.
    pub place: FilePlace,
}

/// A drawn number that tells the partial data of one try from another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TryNonce(pub u64);

impl fmt::Display for TryNonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The faults since a copy was last wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopyFaults {
    /// Failed tries.
    pub tries: u32,
    /// Tries that failed at the destination.
    pub destination: u32,
    /// Sources that failed: not tried again before all have.
    pub excluded: BTreeSet<SiteName>,
    /// The latest failure, for people.
    pub last_error: Option<Arc<str>>,
    /// True if that failure was the destination's.
    pub at_destination: bool,
}

/// The reason why the jobs that need a copy cannot have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyLoss {
    /// The error, for people.
    pub detail: Arc<str>,
    /// True if the destination cannot take it, wherever it comes from.
    pub at_destination: bool,
}

impl CopyRecord {
    /// Creates a copy that does not exist and is not wanted.
    pub fn new(content: Content, site: SiteName) -> Self {
        Self {
            content,
            chunk: None,
            site,
            usage: CopyUsage::Unneeded {
                since: Timestamp(0),
            },
            phase: CopyPhase::Absent,
            trouble: CopyFaults::default(),
            latest: None,
            leftovers: BTreeMap::new(),
        }
    }

    /// Returns true if nothing is left to remember: its record is to be removed.
    pub fn is_gone(&self) -> bool {
        self.phase == CopyPhase::Absent && self.leftovers.is_empty()
    }

    /// Returns true if it can be read.
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, CopyPhase::Ready { .. })
    }

    pub fn is_needed(&self) -> bool {
        self.usage == CopyUsage::Needed
    }

    /// Returns the reason why the jobs that need it cannot have it, while it is given up.
    pub fn loss_reason(&self) -> Option<CopyLoss> {
        let CopyPhase::Waiting { given_up: true, .. } = &self.phase else {
            return None;
        };
        let detail = self.trouble.last_error.clone();
        Some(CopyLoss {
            detail: detail.unwrap_or_else(|| "it could not be copied".into()),
            at_destination: self.trouble.at_destination,
        })
    }

    /// Returns the reason why an output that waits for it stays where it is, after so many
    /// failures.
    pub fn stranding_reason(&self, max_tries: u32) -> Option<Arc<str>> {
        let waits = matches!(self.phase, CopyPhase::Waiting { .. });
        let failed = waits && self.trouble.tries >= max_tries;
        self.trouble.last_error.clone().filter(|_| failed)
    }

    /// The try that is under way or can be resumed.
    pub fn current_try(&self) -> Option<&CopyTry> {
        match &self.phase {
            CopyPhase::Waiting { resume, .. } => resume.as_ref(),
            CopyPhase::Copying { order, .. } | CopyPhase::Stopping { order, .. } => Some(order),
            CopyPhase::Absent | CopyPhase::Ready { .. } | CopyPhase::Deleting { .. } => None,
        }
    }
}

impl CopyPhase {
    /// The name in answers, tables and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            CopyPhase::Absent => "absent",
            CopyPhase::Waiting { given_up: true, .. } => "failed",
            CopyPhase::Waiting { .. } => "waiting",
            CopyPhase::Copying { .. } => "copying",
            CopyPhase::Stopping { .. } => "stopping",
            CopyPhase::Ready { .. } => "ready",
            CopyPhase::Deleting { .. } => "deleting",
        }
    }
}
