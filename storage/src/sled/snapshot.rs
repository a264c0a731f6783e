//! Reads sled as of one moment while the journal's thread goes on writing.
//!
//! sled has no snapshots. A walk reads a chunk at a time, and before the writer overwrites a value,
//! it saves the old one for every walk under way.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use sled::{Db, IVec};

use super::store_error;
use crate::engine_port::{EngineReader, EntryVisitor, StoreWrites};
use crate::port::{StoreError, StoreKey, StoreSize};

/// Values that a walk reads before it lets the writer in again.
const CHUNK: usize = 256;
/// Chunks that a walk over everything reads ahead.
const AHEAD: usize = 2;

/// The key at which reading continues.
type SnapshotWalkPosition = Bound<Vec<u8>>;

/// Keys and what is stored under them, in order.
type SnapshotValues = Vec<(IVec, IVec)>;

/// Values, and where to continue; `None` at the end.
type SnapshotChunk = (SnapshotValues, Option<SnapshotWalkPosition>);

/// The old value of a key, as of the beginning of a walk; `None` if it was not there.
type ValuesBeforeWalk = BTreeMap<StoreKey, Option<IVec>>;

/// The database, shared by its writer and its readers.
pub(super) struct SledDatabase {
    pub(super) db: Db,
    path: PathBuf,
    /// Held by the writer until its write is durable, so that nobody reads what may still be lost.
    gate: RwLock<SledWriteState>,
    walks: Mutex<Vec<Weak<Mutex<ValuesBeforeWalk>>>>,
}

#[derive(Default)]
struct SledWriteState {
    /// A write failed: what the database shows may not be on disk.
    failed: bool,
}

impl SledDatabase {
    pub(super) fn new(db: Db, path: &Path) -> Self {
        Self {
            db,
            path: path.into(),
            gate: RwLock::default(),
            walks: Mutex::default(),
        }
    }

    /// Changes the database by `commit` while nobody reads.
    pub(super) fn change_exclusively(
        &self,
        writes: &StoreWrites,
        commit: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        // Stays set if the commit fails or panics.
        gate.failed = true;
        self.save_old_values(writes)?;
        commit()?;
        gate.failed = false;
        Ok(())
    }

    fn save_old_values(&self, writes: &StoreWrites) -> Result<(), StoreError> {
        let mut walks = lock(&self.walks);
        walks.retain(|walk| walk.strong_count() > 0);
        for walk in walks.iter().filter_map(Weak::upgrade) {
            let mut before = lock(&walk);
            for (key, _) in writes {
                if !before.contains_key(key) {
                    before.insert(key.clone(), self.read(&key.0)?);
                }
            }
        }
        Ok(())
    }

    fn read(&self, key: &[u8]) -> Result<Option<IVec>, StoreError> {
        self.db
            .get(key)
            .map_err(|error| store_error(&self.path, "read", error))
    }

    fn begin_walk(&self) -> Arc<Mutex<ValuesBeforeWalk>> {
        let walk = Arc::default();
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        lock(&self.walks).push(Arc::downgrade(&walk));
        walk
    }

    /// Returns the next values after `from`, as they were when the walk began, and where to
    /// continue; `None` at the end.
    fn read_chunk(
        &self,
        walk: &Mutex<ValuesBeforeWalk>,
        prefix: &[u8],
        from: SnapshotWalkPosition,
    ) -> Result<SnapshotChunk, StoreError> {
        let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        if gate.failed {
            let source = std::io::Error::other("a write to it failed");
            return Err(StoreError::Io {
                path: self.path.display().to_string(),
                action: "read",
                source,
            });
        }
        let mut found = Vec::with_capacity(CHUNK);
        let mut last = None;
        for entry in self.db.range((from.clone(), Bound::Unbounded)).take(CHUNK) {
            let (key, stored) = entry.map_err(|error| store_error(&self.path, "read", error))?;
            if !key.starts_with(prefix) {
                last = None;
                break;
            }
            last = (found.len() + 1 == CHUNK).then(|| key.to_vec());
            found.push((key, stored));
        }
        let to = last
            .as_ref()
            .map_or(Bound::Unbounded, |key| Bound::Included(key.clone()));
        let before = lock(walk);
        if !before.is_empty() {
            found = restore_before(found, &before, prefix, (from, to));
        }
        Ok((found, last.map(Bound::Excluded)))
    }

    /// Returns all chunks below a prefix, up to the first that cannot be read.
    fn read_chunks<'a>(
        &'a self,
        walk: &'a Mutex<ValuesBeforeWalk>,
        prefix: &'a [u8],
    ) -> impl Iterator<Item = Result<SnapshotValues, StoreError>> + use<'a> {
        let mut next = Some(Bound::Included(prefix.to_vec()));
        std::iter::from_fn(move || {
            let chunk = self.read_chunk(walk, prefix, next.take()?);
            Some(chunk.map(|(found, rest)| {
                next = rest;
                found
            }))
        })
    }

    /// Walks over everything, which takes long and which a start waits for: while values are
    /// visited, another thread reads ahead.
    fn walk_reading_ahead(
        &self,
        walk: &Mutex<ValuesBeforeWalk>,
        visit: EntryVisitor<'_>,
    ) -> Result<(), StoreError> {
        std::thread::scope(|scope| {
            let (sender, chunks) = sync_channel(AHEAD);
            let thread = std::thread::Builder::new().name("store-reader".into());
            let reader = thread
                .spawn_scoped(scope, move || {
                    // Nobody receives any more: enough was seen.
                    let _ = self
                        .read_chunks(walk, b"")
                        .try_for_each(|found| sender.send(found));
                })
                .map_err(|source| StoreError::Io {
                    path: self.path.display().to_string(),
                    action: "read",
                    source,
                })?;
            for found in chunks {
                if visit_values(found?, visit).is_break() {
                    return Ok(());
                }
            }
            reader
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok(())
        })
    }
}

fn visit_values(found: SnapshotValues, visit: EntryVisitor<'_>) -> ControlFlow<()> {
    found
        .into_iter()
        .try_for_each(|(key, stored)| visit(&key, &stored))
}

/// Restores the old values within the chunk.
fn restore_before(
    found: Vec<(IVec, IVec)>,
    before: &ValuesBeforeWalk,
    prefix: &[u8],
    range: (SnapshotWalkPosition, SnapshotWalkPosition),
) -> Vec<(IVec, IVec)> {
    let mut found: BTreeMap<IVec, IVec> = found.into_iter().collect();
    let range = (bound_as_slice(&range.0), bound_as_slice(&range.1));
    for (key, stored) in before.range::<[u8], _>(range) {
        match stored {
            Some(stored) if key.0.starts_with(prefix) => {
                found.insert(IVec::from(&*key.0), stored.clone());
            }
            Some(_) => {}
            None => {
                found.remove(&*key.0);
            }
        }
    }
    found.into_iter().collect()
}

fn bound_as_slice(bound: &SnapshotWalkPosition) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EngineReader for SledDatabase {
    fn walk(&self, prefix: &[u8], visit: EntryVisitor<'_>) -> Result<(), StoreError> {
        let walk = self.begin_walk();
        if prefix.is_empty() {
            return self.walk_reading_ahead(&walk, visit);
        }
        for found in self.read_chunks(&walk, prefix) {
            if visit_values(found?, visit).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn size(&self) -> StoreSize {
        StoreSize {
            disk_bytes: self.db.size_on_disk().unwrap_or(0),
            keys: 0,
        }
    }
}
