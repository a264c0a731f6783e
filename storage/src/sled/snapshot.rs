//! Reading sled as of one moment while the journal's thread goes on writing.
//!
//! sled has no snapshots. A walk reads a chunk at a time, and the writer leaves
//! for every walk under way what it is about to overwrite.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use sled::{Db, IVec};

use super::store_error;
use crate::engine::{Reader, Visit, Writes};
use crate::port::{Key, StoreError, StoreSize};

/// Values that a walk reads before it lets the writer in again.
const CHUNK: usize = 256;

/// Where to read on.
type From = Bound<Vec<u8>>;

/// Values in order, and where to read on; `None` at the end.
type Chunk = (Vec<(IVec, IVec)>, Option<From>);

/// What was under a key when a walk began; `None` if it was not there.
type Before = BTreeMap<Key, Option<IVec>>;

/// The database, for its writer and its readers.
pub(super) struct Shared {
    pub(super) db: Db,
    path: PathBuf,
    /// Held by the writer until what it writes is durable, so that nobody reads
    /// what may yet be lost.
    gate: RwLock<Gate>,
    walks: Mutex<Vec<Weak<Mutex<Before>>>>,
}

#[derive(Default)]
struct Gate {
    /// A write failed: what the database shows may not be on disk.
    failed: bool,
}

impl Shared {
    pub(super) fn new(db: Db, path: &Path) -> Self {
        Self { db, path: path.into(), gate: RwLock::default(), walks: Mutex::default() }
    }

    /// Changes the database by `commit` while nobody reads.
    pub(super) fn change(
        &self,
        writes: &Writes,
        commit: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        // Stays set if the commit fails or panics.
        gate.failed = true;
        self.leave_for_walks(writes)?;
        commit()?;
        gate.failed = false;
        Ok(())
    }

    fn leave_for_walks(&self, writes: &Writes) -> Result<(), StoreError> {
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
        self.db.get(key).map_err(|error| store_error(&self.path, "read", error))
    }

    fn begin_walk(&self) -> Arc<Mutex<Before>> {
        let walk = Arc::default();
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        lock(&self.walks).push(Arc::downgrade(&walk));
        walk
    }

    /// The next values after `from`, as they were when the walk began, and
    /// where to go on; `None` at the end.
    fn chunk(&self, walk: &Mutex<Before>, prefix: &[u8], from: From) -> Result<Chunk, StoreError> {
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
        let to = last.as_ref().map_or(Bound::Unbounded, |key| Bound::Included(key.clone()));
        let before = lock(walk);
        if !before.is_empty() {
            found = merge(found, &before, prefix, (from, to));
        }
        Ok((found, last.map(Bound::Excluded)))
    }
}

/// Puts back what was there before, within the chunk.
fn merge(
    found: Vec<(IVec, IVec)>,
    before: &Before,
    prefix: &[u8],
    range: (From, From),
) -> Vec<(IVec, IVec)> {
    let mut found: BTreeMap<IVec, IVec> = found.into_iter().collect();
    let range = (as_slice(&range.0), as_slice(&range.1));
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

fn as_slice(bound: &From) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reader for Shared {
    fn walk(&self, prefix: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        let walk = self.begin_walk();
        let mut next = Some(Bound::Included(prefix.to_vec()));
        while let Some(from) = next {
            let (found, rest) = self.chunk(&walk, prefix, from)?;
            next = rest;
            for (key, stored) in found {
                if visit(&key, &stored).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn size(&self) -> StoreSize {
        StoreSize { disk_bytes: self.db.size_on_disk().unwrap_or(0), keys: 0 }
    }
}
