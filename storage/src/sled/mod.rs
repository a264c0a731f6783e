//! The store on sled 0.34: one tree, one batch and one sync a group.
//!
//! sled's own flush is not durable on Linux (it ends with `sync_file_range`),
//! so every commit calls `sync_data` on a handle of ours afterwards.

mod snapshot;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::directory_store::{DirectoryEngine, io_error};
use crate::engine_port::{
    BytesVisitor, EngineReader, EngineTransaction, StorageEngine, StoreWrites,
};
use crate::port::StoreError;
use snapshot::SledDatabase;

/// sled, as an engine of a directory.
pub(crate) const ENGINE: DirectoryEngine = DirectoryEngine {
    name: "sled",
    files: &["db", "conf"],
    is_further_file: |name| name == "blobs" || name.starts_with("snap."),
    open: |path, cache| Ok(Box::new(SledEngine::open(path, cache)?)),
};

/// sled's unit of space on disk. sled puts a page that is larger than a quarter
/// of this into a file of its own, which it never syncs. A page has at most 17
/// values of 64 KiB, so with this size there are no such files.
const SEGMENT_BYTES: usize = 8 << 20;

/// An open sled database.
pub(crate) struct SledEngine {
    shared: Arc<SledDatabase>,
    file: File,
    path: PathBuf,
}

impl SledEngine {
    /// Opens or makes the database in a directory.
    fn open(path: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        let db = sled::Config::new()
            .path(path)
            .cache_capacity(cache_bytes)
            .segment_size(SEGMENT_BYTES)
            .flush_every_ms(None)
            .open()
            .map_err(|error| store_error(path, "opened", error))?;
        sync_file(path, "conf").map_err(|source| io_error(path, "made durable", source))?;
        let file =
            sync_file(path, "db").map_err(|source| io_error(path, "made durable", source))?;
        let shared = Arc::new(SledDatabase::new(db, path));
        Ok(Self {
            shared,
            file,
            path: path.into(),
        })
    }
}

fn sync_file(path: &Path, name: &str) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path.join(name))?;
    file.sync_all()?;
    Ok(file)
}

impl StorageEngine for SledEngine {
    fn run_exclusively(
        &mut self,
        work: &mut dyn FnMut(&mut dyn EngineTransaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        work(self)
    }

    fn reader(&self) -> Arc<dyn EngineReader> {
        Arc::clone(&self.shared) as Arc<dyn EngineReader>
    }
}

impl EngineTransaction for SledEngine {
    fn get(&mut self, key: &[u8], see: BytesVisitor<'_>) -> Result<(), StoreError> {
        let stored = self
            .shared
            .db
            .get(key)
            .map_err(|error| store_error(&self.path, "read", error))?;
        stored.map_or(Ok(()), |stored| see(&stored))
    }

    fn commit(&mut self, writes: StoreWrites) -> Result<u64, StoreError> {
        let begun = Instant::now();
        let db = &self.shared.db;
        let file = &self.file;
        let path = &self.path;
        self.shared.change_exclusively(&writes, || {
            let mut batch = sled::Batch::default();
            for (key, bytes) in &writes {
                match bytes {
                    Some(bytes) => batch.insert(&*key.0, bytes.as_slice()),
                    None => batch.remove(&*key.0),
                }
            }
            db.apply_batch(batch)
                .map_err(|error| store_error(path, "written", error))?;
            db.flush()
                .map_err(|error| store_error(path, "written", error))?;
            file.sync_data()
                .map_err(|source| io_error(path, "made durable", source))
        })?;
        Ok(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX))
    }
}

/// Converts an error of sled to its meaning for the user.
fn store_error(path: &Path, action: &'static str, error: sled::Error) -> StoreError {
    match error {
        // sled gives the lock's error this text and no kind.
        sled::Error::Io(source) if source.to_string().contains("could not acquire lock") => {
            StoreError::InUse {
                path: path.display().to_string(),
            }
        }
        sled::Error::Io(source) if source.kind() == io::ErrorKind::UnexpectedEof => {
            StoreError::Damaged {
                place: path.join("db").display().to_string(),
                problem: source.to_string(),
            }
        }
        sled::Error::Io(source) => io_error(path, action, source),
        other => StoreError::Damaged {
            place: path.join("db").display().to_string(),
            problem: other.to_string(),
        },
    }
}
