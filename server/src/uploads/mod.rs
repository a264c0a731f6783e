//! Files that users send over HTTP until they are at a site, and a record of who sent each.
//!
//! ```text
//! <data>/uploads/<id>.json   what was announced, and where some of it lies
//! <data>/uploads/<id>.part   what has arrived; its length is how much
//! ```
//!
//! Calls block as long as the file system does.

#[cfg(test)]
mod tests;
mod upload_error;
mod upload_files;
mod upload_record;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use cospan_actors::fair_turns::FairTurns;
use cospan_domain::ids::{Digest, SiteName};
use tokio::sync::Mutex as Turns;

pub use upload_error::UploadError;
pub use upload_record::UploadRecord;

/// Bytes that stay free on the disk of the data directory: the store lies there as well.
const SPARE_BYTES: u64 = 256 << 20;

/// Bounds of uploads, and their directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadSettings {
    /// Their directory; `None`: no uploads are taken.
    pub directory: Option<PathBuf>,
    /// Longest file, in bytes.
    pub max_bytes: u64,
    /// Most bytes that one key may have sent and that still exist.
    pub quota_bytes: u64,
    /// Most files that one key may have sent and that still exist.
    pub quota_files: u64,
    /// An upload for which nothing arrives for this long is dropped.
    pub keep: Duration,
}

impl Default for UploadSettings {
    fn default() -> Self {
        Self {
            directory: None,
            max_bytes: 16 << 30,
            quota_bytes: 64 << 30,
            quota_files: 10_000,
            keep: Duration::from_secs(86_400),
        }
    }
}

#[derive(Debug)]
pub struct Upload {
    record: Mutex<UploadRecord>,
    /// Locked by whoever changes the upload.
    pub turn: Arc<Turns<()>>,
}

impl Upload {
    fn new(record: UploadRecord) -> Arc<Self> {
        Arc::new(Self {
            record: Mutex::new(record),
            turn: Arc::default(),
        })
    }

    /// The record of the upload.
    pub fn record(&self) -> UploadRecord {
        lock_mutex(&self.record).clone()
    }
}

/// All uploads.
#[derive(Debug)]
pub struct Uploads {
    settings: UploadSettings,
    known: Mutex<BTreeMap<String, Arc<Upload>>>,
    /// Turns at digesting uploads and bringing them to a site.
    pub landings: FairTurns,
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Uploads {
    /// Opens the directory with the uploads of an earlier process. A record that cannot be read is
    /// left alone, and logged.
    pub fn open(settings: UploadSettings) -> Self {
        let found = settings
            .directory
            .as_deref()
            .map(upload_files::find_records)
            .unwrap_or_default();
        let known = found
            .into_iter()
            .map(|record| (record.id.clone(), Upload::new(record)));
        Self {
            known: Mutex::new(known.collect()),
            settings,
            landings: FairTurns::default(),
        }
    }

    pub fn settings(&self) -> &UploadSettings {
        &self.settings
    }

    /// Finds an upload.
    pub fn find_upload(&self, id: &str) -> Option<Arc<Upload>> {
        lock_mutex(&self.known).get(id).cloned()
    }

    /// All uploads, by their ids.
    pub fn all_by_id(&self) -> Vec<Arc<Upload>> {
        lock_mutex(&self.known).values().cloned().collect()
    }

    /// Begins an upload, or continues one of this key that was announced alike.
    ///
    /// # Errors
    /// It is too large, for its key or for the disk; or it cannot be written down.
    pub fn begin_upload(&self, announced: UploadRecord) -> Result<Arc<Upload>, UploadError> {
        let directory = self.directory()?;
        let mut known = lock_mutex(&self.known);
        let alike = known
            .values()
            .find(|upload| lock_mutex(&upload.record).can_continue_as(&announced));
        if let Some(upload) = alike {
            let part = upload_files::open_part(directory, &lock_mutex(&upload.record).id)?;
            // The client means to continue: the upload must not become stale now.
            part.set_modified(SystemTime::now())?;
            return Ok(upload.clone());
        }
        self.check_room(directory, &known, &announced)?;
        cospan_durable::make_directory(directory)?;
        let id = announced.id.clone();
        upload_files::make_part(directory, &id)?;
        if let Err(error) = announced.save(directory) {
            upload_files::remove_if_present(&upload_files::part_file(directory, &id))?;
            return Err(UploadError::from(error));
        }
        let upload = Upload::new(announced);
        known.insert(id, upload.clone());
        Ok(upload)
    }

    fn check_room(
        &self,
        directory: &Path,
        known: &BTreeMap<String, Arc<Upload>>,
        announced: &UploadRecord,
    ) -> Result<(), UploadError> {
        let UploadSettings {
            max_bytes,
            quota_bytes,
            quota_files,
            ..
        } = self.settings;
        let size = announced.size_bytes;
        if size > max_bytes {
            return Err(UploadError::TooLarge {
                size,
                most: max_bytes,
            });
        }
        let mut has = 0_u64;
        let mut files = 0;
        let mut promised = SPARE_BYTES;
        for upload in known.values() {
            let record = lock_mutex(&upload.record);
            if record.owner == announced.owner {
                has = has.saturating_add(record.size_bytes);
                files += 1;
            }
            if record.is_open() {
                let to_come = record
                    .size_bytes
                    .saturating_sub(self.arrived_bytes(&record).unwrap_or(0));
                promised = promised.saturating_add(to_come);
            }
        }
        if has.saturating_add(size) > quota_bytes {
            return Err(UploadError::Quota {
                size,
                has,
                most: quota_bytes,
            });
        }
        if files >= quota_files {
            return Err(UploadError::TooMany { most: quota_files });
        }
        let free = upload_files::free_bytes(directory)?.saturating_sub(promised);
        if size > free {
            return Err(UploadError::DiskFull { size, free });
        }
        Ok(())
    }

    /// Bytes of the upload that have arrived.
    ///
    /// # Errors
    /// They cannot be determined.
    pub fn arrived_bytes(&self, record: &UploadRecord) -> Result<u64, UploadError> {
        match record.placed {
            Some(_) => Ok(record.size_bytes),
            None if record.given_up => Err(UploadError::GivenUp),
            None => Ok(
                std::fs::metadata(upload_files::part_file(self.directory()?, &record.id))?.len(),
            ),
        }
    }

    /// Appends the next piece durably; returns the bytes that have arrived then. The caller holds
    /// the upload's turn.
    ///
    /// # Errors
    /// The piece is not the next, or too long, or cannot be written.
    pub fn append_piece(
        &self,
        upload: &Upload,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64, UploadError> {
        let record = upload.record();
        let arrived = self.arrived_bytes(&record)?;
        if offset != arrived || record.placed.is_some() {
            return Err(UploadError::Elsewhere { offset, arrived });
        }
        let ends = arrived.saturating_add(bytes.len() as u64);
        if ends > record.size_bytes {
            return Err(UploadError::TooMuch {
                ends,
                size: record.size_bytes,
            });
        }
        let file = upload_files::open_part(self.directory()?, &record.id)?;
        let written = file
            .write_all_at(bytes, offset)
            .and_then(|()| file.sync_data());
        if let Err(error) = written {
            // A piece that did not arrive whole is dropped.
            file.set_len(arrived)?;
            return Err(UploadError::from(error));
        }
        Ok(ends)
    }

    /// Reads a piece of the bytes that have arrived.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read_piece(
        &self,
        record: &UploadRecord,
        offset: u64,
        most: usize,
    ) -> Result<Vec<u8>, UploadError> {
        let file = File::open(upload_files::part_file(self.directory()?, &record.id))?;
        let mut bytes = vec![0; most];
        let mut read = 0;
        while read < most {
            match file.read_at(&mut bytes[read..], offset + read as u64)? {
                0 => break,
                more => read += more,
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Digest of the bytes that have arrived.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn compute_digest(&self, record: &UploadRecord) -> Result<Digest, UploadError> {
        let mut file = File::open(upload_files::part_file(self.directory()?, &record.id))?;
        let mut hasher = blake3::Hasher::new();
        let mut piece = vec![0; 1 << 20];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(Digest(*hasher.finalize().as_bytes())),
                read => hasher.update(&piece[..read]),
            };
        }
    }

    /// Records a change durably. The caller holds the upload's turn.
    ///
    /// # Errors
    /// The change cannot be written; then nothing has changed.
    pub fn record_change(
        &self,
        upload: &Upload,
        change: impl FnOnce(&mut UploadRecord),
    ) -> Result<(), UploadError> {
        let directory = self.directory()?;
        let mut record = upload.record();
        change(&mut record);
        record.save(directory)?;
        let is_open = record.is_open();
        let id = record.id.clone();
        *lock_mutex(&upload.record) = record;
        // The upload needs no room here any more.
        if is_open {
            Ok(())
        } else {
            Ok(upload_files::remove_if_present(&upload_files::part_file(
                directory, &id,
            ))?)
        }
    }

    /// Records that the upload is a file at a site. The caller holds the upload's turn.
    ///
    /// # Errors
    /// The change cannot be written.
    pub fn record_placed(&self, upload: &Upload, site: SiteName) -> Result<(), UploadError> {
        self.record_change(upload, |record| record.placed = Some(site))
    }

    /// Forgets the upload, and the bytes that have arrived. The caller holds the upload's turn.
    ///
    /// # Errors
    /// Its files cannot be removed.
    pub fn forget_upload(&self, upload: &Upload) -> Result<(), UploadError> {
        let directory = self.directory()?;
        let id = upload.record().id;
        upload_files::remove_if_present(&upload_files::part_file(directory, &id))?;
        upload_files::remove_if_present(&directory.join(format!("{id}.json")))?;
        cospan_durable::sync_directory(directory)?;
        // Tasks that still hold it see that it is over.
        lock_mutex(&upload.record).given_up = true;
        lock_mutex(&self.known).remove(&id);
        Ok(())
    }

    /// Returns true if nothing has arrived for too long.
    pub fn is_stale(&self, record: &UploadRecord) -> bool {
        let Some(directory) = &self.settings.directory else {
            return false;
        };
        let touched = std::fs::metadata(upload_files::part_file(directory, &record.id));
        match touched.and_then(|part| part.modified()) {
            Ok(at) => at.elapsed().is_ok_and(|age| age > self.settings.keep),
            // The bytes that had arrived are gone.
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
    }

    fn directory(&self) -> Result<&Path, UploadError> {
        self.settings.directory.as_deref().ok_or(UploadError::Off)
    }
}
