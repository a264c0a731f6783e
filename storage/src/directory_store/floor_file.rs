//! A small file outside of the store's directory that states how far the store has come.
//!
//! It is written after every group and before its report, without a sync: a process that dies
//! leaves it exact. Every second, and before a new block of job ids is used, it is synced: a power
//! cut leaves it at most a second behind, and never behind a job id. It has two halves, written in
//! turn, so that one of them is always whole.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cospan_domain::ids::{Epoch, InstanceId, JobId, Seq};
use serde::{Deserialize, Serialize};

use super::{io_error, retry_while_in_use, sync_directory};
use crate::port::StoreError;
use crate::store_floor::{KnownFloor, StoreFloor};

/// Version of the file that this program writes.
const SHAPE: u32 = 1;
/// Size of a half: no disk writes only a part of so few bytes.
const HALF_BYTES: usize = 512;

/// The content of a half.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct FloorFileHalf {
    cospan_floor: u32,
    instance: String,
    epoch: u64,
    seq: u64,
    next_job: u64,
    live_jobs: u64,
    /// Number of writes of the file.
    written: u64,
    #[serde(default)]
    checksum: u32,
}

impl FloorFileHalf {
    /// Computes the checksum of everything except itself.
    fn checksum(&self) -> u32 {
        let text = format!(
            "{} {} {} {} {} {} {}",
            self.cospan_floor,
            self.instance,
            self.epoch,
            self.seq,
            self.next_job,
            self.live_jobs,
            self.written
        );
        crc32fast::hash(text.as_bytes())
    }

    fn to_floor(&self) -> StoreFloor {
        StoreFloor {
            epoch: Epoch(self.epoch),
            seq: Seq(self.seq),
            next_job: JobId(self.next_job),
            live_jobs: self.live_jobs,
        }
    }
}

/// The content of the file.
#[derive(Debug, Clone)]
pub(crate) struct FloorFileContent {
    pub(crate) instance: InstanceId,
    pub(crate) known: KnownFloor,
    written: u64,
}

/// The open file, used by one process at a time.
#[derive(Debug)]
pub(crate) struct FloorFile {
    file: File,
    path: PathBuf,
    written: u64,
    pub(crate) kept: Option<FloorFileContent>,
}

impl FloorFile {
    /// Opens the file, creating it if needed.
    pub(crate) fn open(path: &Path, lock_wait: Duration) -> Result<Self, StoreError> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| io_error(path, "opened as the store's floor", source))?;
        retry_while_in_use(lock_wait, || match file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse {
                path: path.display().to_string(),
            }),
            Err(TryLockError::Error(source)) => {
                Err(io_error(path, "opened as the store's floor", source))
            }
        })?;
        let kept = read_newest_half(path, &file)?;
        let written = kept.as_ref().map_or(0, |kept| kept.written);
        Ok(Self {
            file,
            path: path.into(),
            written,
            kept,
        })
    }

    /// Reads the file, if there is one; its user is not disturbed.
    pub(crate) fn read_kept(path: &Path) -> Result<Option<FloorFileContent>, StoreError> {
        match File::open(path) {
            Ok(file) => read_newest_half(path, &file),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(io_error(path, "opened as the store's floor", source)),
        }
    }

    /// Makes it the floor of another store, or of one that continues from another place; durable.
    pub(crate) fn reset_floor(
        &mut self,
        instance: InstanceId,
        floor: StoreFloor,
    ) -> Result<(), StoreError> {
        self.write_floor(instance, floor)?;
        self.sync()?;
        self.write_floor(instance, floor)?;
        self.sync()?;
        match self
            .path
            .canonicalize()
            .ok()
            .as_deref()
            .and_then(Path::parent)
        {
            Some(parent) => sync_directory(parent),
            None => Ok(()),
        }
    }

    /// Writes a new floor.
    pub(crate) fn write_floor(
        &mut self,
        instance: InstanceId,
        floor: StoreFloor,
    ) -> Result<(), StoreError> {
        self.written = self.written.wrapping_add(1);
        let mut half = FloorFileHalf {
            cospan_floor: SHAPE,
            instance: instance.to_string(),
            epoch: floor.epoch.0,
            seq: floor.seq.0,
            next_job: floor.next_job.0,
            live_jobs: floor.live_jobs,
            written: self.written,
            checksum: 0,
        };
        half.checksum = half.checksum();
        self.write_half(&half)
            .map_err(|source| io_error(&self.path, "written as the store's floor", source))
    }

    fn write_half(&self, half: &FloorFileHalf) -> io::Result<()> {
        let mut text = serde_json::to_vec(half)?;
        text.resize(HALF_BYTES - 1, b' ');
        text.push(b'\n');
        self.file
            .write_all_at(&text, (self.written % 2) * HALF_BYTES as u64)
    }

    /// Makes the file durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let synced = self.file.sync_data();
        synced.map_err(|source| io_error(&self.path, "made durable", source))
    }
}

/// Returns the newer of the halves that are whole; `None` if nothing was ever written.
fn read_newest_half(path: &Path, file: &File) -> Result<Option<FloorFileContent>, StoreError> {
    let mut bytes = [0; 2 * HALF_BYTES];
    let length = read_up_to(file, &mut bytes)
        .map_err(|source| io_error(path, "read as the store's floor", source))?;
    if bytes[..length].iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let halves = bytes[..length].chunks(HALF_BYTES);
    let read = halves.filter_map(|half| serde_json::from_slice::<FloorFileHalf>(half).ok());
    let whole: Vec<FloorFileHalf> = read
        .filter(|half| half.checksum() == half.checksum)
        .collect();
    let Some(half) = whole.into_iter().max_by_key(|half| half.written) else {
        return Err(floor_damage_error(
            path,
            "neither of its halves is whole".into(),
        ));
    };
    if half.cospan_floor > SHAPE {
        return Err(floor_damage_error(
            path,
            "a newer version wrote it; start that version".into(),
        ));
    }
    let instance = half
        .instance
        .parse()
        .map_err(|error| floor_damage_error(path, format!("{error}")))?;
    let known = KnownFloor {
        floor: half.to_floor(),
        by: path.display().to_string(),
    };
    Ok(Some(FloorFileContent {
        instance,
        known,
        written: half.written,
    }))
}

fn floor_damage_error(path: &Path, problem: String) -> StoreError {
    StoreError::FloorDamaged {
        path: path.display().to_string(),
        problem,
    }
}

fn read_up_to(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(seq: u64) -> StoreFloor {
        StoreFloor {
            epoch: Epoch(2),
            seq: Seq(seq),
            next_job: JobId(65),
            live_jobs: 3,
        }
    }

    fn floor_seq_in(path: &Path) -> Option<u64> {
        FloorFile::read_kept(path)
            .unwrap()
            .map(|kept| kept.known.floor.seq.0)
    }

    #[test]
    fn a_floor_with_one_half_torn_says_what_the_other_says() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("store.floor");
        assert_eq!(floor_seq_in(&path), None, "nothing was made");
        let instance = InstanceId::from_random(1);
        let mut file = FloorFile::open(&path, Duration::ZERO).unwrap();
        assert!(file.kept.is_none());
        file.reset_floor(instance, floor(7)).unwrap();
        file.write_floor(instance, floor(8)).unwrap();
        assert_eq!(floor_seq_in(&path), Some(8));
        let whole = std::fs::read(&path).unwrap();
        for torn in [0, HALF_BYTES] {
            let mut bytes = whole.clone();
            bytes[torn..torn + 100].fill(0);
            std::fs::write(&path, &bytes).unwrap();
            assert!(matches!(floor_seq_in(&path), Some(7 | 8)), "at {torn}");
        }
        std::fs::write(&path, vec![b'x'; 2 * HALF_BYTES]).unwrap();
        let error = FloorFile::read_kept(&path).unwrap_err().to_string();
        assert!(
            error.contains("store.floor") && error.contains("move it away"),
            "{error}"
        );
    }

    #[test]
    fn a_floor_is_of_one_process_at_a_time_and_goes_on_where_it_was() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("store.floor");
        let instance = InstanceId::from_random(1);
        let mut file = FloorFile::open(&path, Duration::ZERO).unwrap();
        for seq in 1..6 {
            file.write_floor(instance, floor(seq)).unwrap();
            assert_eq!(floor_seq_in(&path), Some(seq));
        }
        let other = FloorFile::open(&path, Duration::ZERO).unwrap_err();
        assert!(matches!(other, StoreError::InUse { .. }), "{other}");
        drop(file);
        let mut file = FloorFile::open(&path, Duration::ZERO).unwrap();
        assert_eq!(file.kept.as_ref().unwrap().known.floor, floor(5));
        file.write_floor(instance, floor(6)).unwrap();
        assert_eq!(floor_seq_in(&path), Some(6));
    }
}
