//! What is durable about one copy of one content at one site.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::content::{Chunk, Content};
use crate::ids::SiteName;
use crate::transfer::place::FilePlace;
use crate::units::Timestamp;

/// Tries whose partial data is still to be discarded; no further try before there are fewer.
pub const MAX_LEFTOVERS: usize = 16;

/// One copy's durable record: written before its first byte is moved, removed
/// once nothing of it is left at its site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyRecord {
    /// What is copied.
    pub content: Content,
    /// If it is a chunk of a file: of which, and which.
    pub chunk: Option<Chunk>,
    /// Where to.
    pub site: SiteName,
    /// Whether someone needs it there.
    pub usage: Usage,
    /// Where it stands.
    pub phase: CopyPhase,
    /// What went wrong since it was last wanted anew.
    pub trouble: CopyTrouble,
    /// The latest try since there was certainly nothing of it at its site: from then
    /// on its content may be there, whatever we were told of the try.
    pub latest: Option<Try>,
    /// Partial data of tries that will not be resumed, until known to be gone.
    pub leftovers: BTreeMap<Nonce, TrySource>,
}

/// Whether someone needs a copy. Who, is read from the records of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// At least one job, or another copy that reads from it.
    Needed,
    /// Nobody, since this time.
    Unneeded {
        /// That time.
        since: Timestamp,
    },
}

/// Where a copy stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyPhase {
    /// There is none, and none is wanted.
    Absent,
    /// It is not being made: new, stopped, or after a failed try.
    Waiting {
        /// Since when.
        since: Timestamp,
        /// Not tried before.
        not_before: Timestamp,
        /// The try whose partial data can be used again.
        resume: Option<Try>,
        /// The jobs that need it are told that it cannot be had. It is tried
        /// again nevertheless, for those who still need it.
        given_up: bool,
    },
    /// It is being made.
    Copying {
        /// Since when.
        since: Timestamp,
        /// From where, and under which name.
        order: Try,
        /// The site took the order, or may have.
        started: bool,
    },
    /// It is to be stopped: nobody needs it, or it stands still.
    Stopping {
        /// Since when.
        since: Timestamp,
        /// What is to be stopped.
        order: Try,
    },
    /// Whole and checked.
    Ready {
        /// Since when.
        at: Timestamp,
        /// The try that completed it: tells this copy from an earlier one.
        nonce: Nonce,
    },
    /// It is to be deleted, after partial data of all tries. A need that comes up now
    /// keeps it if it is still there, and else waits until it is gone.
    Deleting {
        /// Since when.
        since: Timestamp,
        /// The latest try: tells this deletion from an earlier one.
        nonce: Nonce,
    },
}

/// One try to bring content from a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Try {
    /// Where from.
    pub source: TrySource,
    /// Names the try, and its partial data.
    pub nonce: Nonce,
}

/// Where content comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrySource {
    /// The site that has it.
    pub site: SiteName,
    /// Where it is there.
    pub place: FilePlace,
}

/// A drawn number that tells the partial data of one try from another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub u64);

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What went wrong since a copy was last wanted anew.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopyTrouble {
    /// Failed tries.
    pub tries: u32,
    /// Those that failed at the destination.
    pub destination: u32,
    /// Sources that failed: not tried again before all have.
    pub excluded: BTreeSet<SiteName>,
    /// The latest failure, for people.
    pub last_error: Option<Arc<str>>,
    /// That failure was the destination's.
    pub at_destination: bool,
}

/// Why those who need a copy cannot have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyLoss {
    /// What happened, for people.
    pub detail: Arc<str>,
    /// The destination cannot take it, wherever it comes from.
    pub at_destination: bool,
}

impl CopyRecord {
    /// A copy that does not exist and is not wanted.
    pub fn new(content: Content, site: SiteName) -> Self {
        Self {
            content,
            chunk: None,
            site,
            usage: Usage::Unneeded {
                since: Timestamp(0),
            },
            phase: CopyPhase::Absent,
            trouble: CopyTrouble::default(),
            latest: None,
            leftovers: BTreeMap::new(),
        }
    }

    /// Whether nothing is left to remember: its record is to be removed.
    pub fn is_gone(&self) -> bool {
        self.phase == CopyPhase::Absent && self.leftovers.is_empty()
    }

    /// Whether it can be read.
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, CopyPhase::Ready { .. })
    }

    /// Whether someone needs it.
    pub fn is_needed(&self) -> bool {
        self.usage == Usage::Needed
    }

    /// Why those who need it cannot have it, while it is given up.
    pub fn lost(&self) -> Option<CopyLoss> {
        let CopyPhase::Waiting { given_up: true, .. } = &self.phase else {
            return None;
        };
        let detail = self.trouble.last_error.clone();
        Some(CopyLoss {
            detail: detail.unwrap_or_else(|| "it could not be copied".into()),
            at_destination: self.trouble.at_destination,
        })
    }

    /// Why an output that waits for it is left where it is, after so many failures.
    pub fn stranded(&self, max_tries: u32) -> Option<Arc<str>> {
        let waits = matches!(self.phase, CopyPhase::Waiting { .. });
        let failed = waits && self.trouble.tries >= max_tries;
        self.trouble.last_error.clone().filter(|_| failed)
    }

    /// The try that is under way or can be resumed.
    pub fn current_try(&self) -> Option<&Try> {
        match &self.phase {
            CopyPhase::Waiting { resume, .. } => resume.as_ref(),
            CopyPhase::Copying { order, .. } | CopyPhase::Stopping { order, .. } => Some(order),
            CopyPhase::Absent | CopyPhase::Ready { .. } | CopyPhase::Deleting { .. } => None,
        }
    }
}

impl CopyPhase {
    /// Its name in answers, tables and metrics.
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
