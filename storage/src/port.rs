//! The port between the control plane and its store.
//!
//! Narrow on purpose, so that a replicated store can serve it later: values of at most 64 KiB, at
//! most 128 changes a unit, scans only at start, for export and for check.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use cospan_domain::ids::{Epoch, InstanceId, Seq};
use cospan_domain::units::Bytes;
use thiserror::Error;

use crate::store_floor::StoreGap;

/// Largest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 64 * 1024;
/// Most changes in one unit.
pub const MAX_CHANGES: usize = 128;
/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 320;

/// A key: bytes whose order is the order of a scan.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreKey(pub Box<[u8]>);

impl From<&str> for StoreKey {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl std::borrow::Borrow<[u8]> for StoreKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// Number of writes of a key; 0 if it is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct KeyVersion(pub u64);

/// A change to one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    pub key: StoreKey,
    /// The version that it must have now, or else the whole unit is a conflict; `None` for a key
    /// that is guarded by another key of the same unit. After a commit the key has the next
    /// version, or 0 if it was deleted.
    pub expected: Option<KeyVersion>,
    /// The new value; `None` deletes.
    pub value: Option<Box<[u8]>>,
}

/// Changes that happen together or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JournalUnit {
    /// Changes in any order, each key at most once. An empty unit is a barrier: it is answered
    /// after everything appended before it.
    pub changes: Vec<KeyChange>,
}

/// The caller's own number for a unit, returned with its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitToken(pub u64);

/// The outcome of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendOutcome {
    /// Durable, at this position.
    Committed(Seq),
    /// Nothing of it was written, because this key had another version.
    Conflict(StoreKey),
    /// Nothing of it was written, because a later epoch has taken the store.
    Fenced,
    /// Nothing of it was written, because no store would take it.
    Refused(UnitError),
}

/// The reason why a unit is never written, whatever the store holds.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum UnitError {
    #[error("the unit has {0} changes; at most {MAX_CHANGES} go together, so cut it up")]
    TooManyChanges(usize),
    #[error("the value of {key:?} has {bytes} bytes; at most {MAX_VALUE_BYTES} fit, so cut it up")]
    ValueTooLarge { key: StoreKey, bytes: usize },
    #[error("a key of {0} bytes; it must have between 1 and {MAX_KEY_BYTES}")]
    KeyLength(usize),
    #[error("the unit changes {0:?} twice; each key goes in once")]
    KeyTwice(StoreKey),
    #[error("{0:?} is the store's own key; choose one that does not begin with m/store/")]
    Reserved(StoreKey),
}

impl JournalUnit {
    /// Checks that any store would take it.
    ///
    /// # Errors
    /// Fails with the first bound that it breaks.
    pub fn check_bounds(&self) -> Result<(), UnitError> {
        if self.changes.len() > MAX_CHANGES {
            return Err(UnitError::TooManyChanges(self.changes.len()));
        }
        let mut keys = BTreeSet::new();
        self.changes.iter().try_for_each(|change| {
            let key = &change.key;
            let bytes = change.value.as_ref().map_or(0, |value| value.len());
            if key.0.is_empty() || key.0.len() > MAX_KEY_BYTES {
                Err(UnitError::KeyLength(key.0.len()))
            } else if bytes > MAX_VALUE_BYTES {
                Err(UnitError::ValueTooLarge {
                    key: key.clone(),
                    bytes,
                })
            } else if key.0.starts_with(crate::store_totals::RESERVED_PREFIX) {
                Err(UnitError::Reserved(key.clone()))
            } else if !keys.insert(key) {
                Err(UnitError::KeyTwice(key.clone()))
            } else {
                Ok(())
            }
        })
    }
}

/// A report of the journal, in the order of append.
#[derive(Debug)]
pub enum CommitReport {
    /// A group of units that became durable (or failed) together.
    Group(AppendGroupOutcome),
    /// The store failed. Nothing more is accepted; it is unknown whether the units under way are
    /// durable until the store is opened again.
    Fatal(String),
}

/// Units decided by one flush.
#[derive(Debug, Default)]
pub struct AppendGroupOutcome {
    /// Each unit's outcome, in the order of append.
    pub outcomes: Vec<(UnitToken, AppendOutcome)>,
    /// Duration of the flush, in microseconds; 0 if there is none.
    pub flush_us: u64,
}

/// Receives the outcomes of units; called from the journal's own thread (or in-line by a backend
/// without one), one group at a time.
pub type CommitReportSink = Arc<dyn Fn(CommitReport) + Send + Sync>;

/// A key as found by a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredValue {
    /// The key.
    pub key: StoreKey,
    /// Version of the key.
    pub version: KeyVersion,
    /// Value of the key.
    pub value: Box<[u8]>,
}

/// Sizes of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreSize {
    /// Bytes on disk; 0 for a store in memory.
    pub disk_bytes: u64,
    /// Number of keys, as far as the backend knows it without counting.
    pub keys: u64,
}

/// The reason why a store cannot be opened, read or written.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum StoreError {
    #[error(
        "the store at {path} is in use by another process; stop that one, or give this one another data directory"
    )]
    InUse { path: String },
    #[error(
        "the store at {path} was written by a newer version (format {found}, this program knows up to {known}); start that version, or export with it and import here"
    )]
    Newer {
        path: String,
        found: u32,
        known: u32,
    },
    #[error(
        "the store at {path} is kept by {found}, not by {wanted}; set the engine to {found}, or export it and import it into a new directory"
    )]
    OtherEngine {
        path: String,
        found: String,
        wanted: &'static str,
    },
    #[error("{path} cannot hold a store: {problem}")]
    NotADirectory { path: String, problem: String },
    #[error(
        "the store is damaged in {place}: {problem}; restore a copy, or run `cospan store check` and `cospan store export` to save what can be read"
    )]
    Damaged { place: String, problem: String },
    #[error(
        "{0}; restore a copy that has all of it, import an export into an empty directory, or run \
         `cospan store accept-loss`, which goes on without what is missing"
    )]
    Behind(Box<StoreGap>),
    #[error(
        "{path} is not the one any more that this server opened: it was removed, moved, or replaced \
         by another; put it back, then start again"
    )]
    Vanished { path: String },
    #[error(
        "{path} cannot be looked at: {source}; while that is so, nobody knows whether it is still \
         the one that this server opened"
    )]
    Unseen {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "{problem}; it was tried for {seconds} s; give this account the way to it back, then start \
         again"
    )]
    UnseenTooLong { problem: String, seconds: u64 },
    #[error(
        "{path}, which says how far the store has come, is damaged: {problem}; look at the store \
         with `cospan store check`, move it away, then start again"
    )]
    FloorDamaged { path: String, problem: String },
    #[error(
        "the disk that holds the store at {path} is full; free some space there, then start again"
    )]
    Full { path: String },
    #[error(
        "the {jobs} jobs in the store would take about {needed} of memory, and may take {most}; give the server more memory, or export the store and import it where there is more"
    )]
    TooLarge {
        jobs: u64,
        needed: Bytes,
        most: Bytes,
    },
    #[error("the store at {path} cannot be {action}: {source}; see to the disk, then start again")]
    Io {
        path: String,
        action: &'static str,
        #[source]
        source: std::io::Error,
    },
}

/// An opened store.
#[derive(Clone)]
pub struct OpenedStore {
    /// The journal to append to.
    pub journal: Arc<dyn Journal>,
    /// The epoch that this opening took; every append carries it.
    pub epoch: Epoch,
    /// The control plane that this store belongs to.
    pub instance: InstanceId,
    /// Control planes whose stores this one took over by an import.
    pub former: Vec<InstanceId>,
}

/// A store that keeps an ordered journal of units.
///
/// Any thread may append; units are decided in the order in which `append` was
/// called. Nothing is retried after an error of the device: a failed flush may
/// have dropped what it should have written.
pub trait Journal: Send + Sync {
    /// Takes a unit. Its outcome is reported to the sink given at opening. After a fatal report,
    /// and after `close`, nothing is reported any more. May be called from within the sink.
    fn append(&self, epoch: Epoch, token: UnitToken, unit: JournalUnit);

    /// Visits all keys that begin with `prefix`, in order, as of some moment after every unit
    /// reported so far. For start, export, check, and one object's history.
    ///
    /// # Errors
    /// Fails if the store cannot be read or was closed, or a value's checksum does not match.
    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(StoredValue) -> std::ops::ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// Returns the size of the store.
    fn size(&self) -> StoreSize;

    /// Stops after everything appended so far is decided and reported.
    fn close(&self);
}
