//! Moves the bytes of one file, and takes their digest on the way.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::SystemTime;

use cospan_domain::ids::Digest;
use rustix::path::Arg;

use super::stall_watch::{CopyThreadPhase, CopyThreadState};
use super::task_error::{AgentTaskError, BlameCopyEnd};
use crate::files::open_beneath::DirectoryHandle;
use crate::files::shared_bandwidth::BandwidthLimiter;

/// The most bytes read at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Moves files, one after the other, within one budget of bytes.
#[derive(Debug)]
pub(super) struct FileMover {
    watch: Arc<CopyThreadState>,
    limiter: Option<BandwidthLimiter>,
    buffer: Vec<u8>,
    /// Bytes of the source read at a time.
    quantum: usize,
    /// Bytes that may still come; a source that grows without end must not fill the disk.
    budget: u64,
    /// True if the result builds on what was there before.
    pub(super) resumed: bool,
}

/// The digest and size of a file that was moved, or only read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MovedFileContent {
    pub(super) digest: Digest,
    pub(super) size: u64,
}

impl FileMover {
    pub(super) fn new(
        watch: Arc<CopyThreadState>,
        limiter: Option<BandwidthLimiter>,
        budget: u64,
    ) -> Self {
        let quantum = limiter
            .as_ref()
            .map_or(CHUNK_BYTES, |l| l.quantum_bytes(CHUNK_BYTES));
        Self {
            watch,
            limiter,
            buffer: vec![0; CHUNK_BYTES],
            quantum,
            budget,
            resumed: false,
        }
    }

    pub(super) fn watch(&self) -> &CopyThreadState {
        &self.watch
    }

    /// Reads a file to its end and, with a destination, brings that to the same content, building
    /// on what is there. The digest is that of the bytes in the destination: those found there are
    /// read back, the others are hashed as they are written.
    pub(super) fn move_file(
        &mut self,
        from: &File,
        to: Option<&File>,
        name: &str,
    ) -> Result<MovedFileContent, AgentTaskError> {
        let before = write_stamp(from).at_source(name)?;
        let mut hasher = blake3::Hasher::new();
        let mut size = match to {
            Some(to) => self.read_back(to, before.size, &mut hasher, name)?,
            None => 0,
        };
        loop {
            let length = self.read_paced(from, size, name)?;
            let Some(bytes) = self.buffer.get(..length).filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            hasher.update(bytes);
            if let Some(to) = to {
                self.watch.begin_step(CopyThreadPhase::Writing);
                to.write_all_at(bytes, size)
                    .at_destination(format_args!("writing {name}"))?;
            }
            size += length as u64;
            self.watch.count_bytes(length);
        }
        self.watch.begin_step(CopyThreadPhase::Free);
        if write_stamp(from).at_source(name)? != before {
            return Err(AgentTaskError::blaming_source(format_args!(
                "{name} changed while it was read"
            )));
        }
        Ok(MovedFileContent {
            digest: Digest(*hasher.finalize().as_bytes()),
            size,
        })
    }

    /// Reads a file to its end, and brings one run of its bytes to an empty destination. The digest
    /// is that of the whole file: the run is right if the file is. Only the run goes over the link.
    pub(super) fn move_run(
        &mut self,
        from: &File,
        to: &File,
        run: Range<u64>,
        name: &str,
    ) -> Result<MovedFileContent, AgentTaskError> {
        let before = write_stamp(from).at_source(name)?;
        let mut hasher = blake3::Hasher::new();
        let mut size = 0;
        loop {
            let length = self.read_chunk(from, size, name)?;
            let Some(bytes) = self.buffer.get(..length).filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            hasher.update(bytes);
            let end = size + length as u64;
            let first = run.start.clamp(size, end);
            let last = run.end.clamp(size, end);
            let part = (first - size) as usize..(last - size) as usize;
            if let Some(part) = bytes.get(part).filter(|part| !part.is_empty()) {
                self.watch.begin_step(CopyThreadPhase::Writing);
                to.write_all_at(part, first - run.start)
                    .at_destination(format_args!("writing {name}"))?;
                let moved = part.len();
                self.watch.count_bytes(moved);
                self.await_bandwidth(moved)?;
            }
            size = end;
        }
        self.watch.begin_step(CopyThreadPhase::Free);
        if write_stamp(from).at_source(name)? != before {
            return Err(AgentTaskError::blaming_source(format_args!(
                "{name} changed while it was read"
            )));
        }
        Ok(MovedFileContent {
            digest: Digest(*hasher.finalize().as_bytes()),
            size,
        })
    }

    /// Reads back what an earlier try left, and drops what is of no use.
    fn read_back(
        &mut self,
        to: &File,
        wanted: u64,
        hasher: &mut blake3::Hasher,
        name: &str,
    ) -> Result<u64, AgentTaskError> {
        let doing = format_args!("reading back {name}").to_string();
        let length = to.metadata().at_destination(&doing)?.len();
        if length > wanted {
            to.set_len(0).at_destination(&doing)?;
            return Ok(0);
        }
        let mut offset = 0;
        while offset < length {
            self.watch.check_stop()?;
            self.watch.begin_step(CopyThreadPhase::Writing);
            let read = read_at(to, &mut self.buffer, offset).at_destination(&doing)?;
            let Some(bytes) = self.buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            hasher.update(bytes);
            offset += read as u64;
            self.watch.count_bytes(read);
            self.resumed = true;
        }
        self.spend_budget(offset, name)?;
        Ok(offset)
    }

    /// Reads some of the source when the link has room for it.
    fn read_paced(
        &mut self,
        from: &File,
        offset: u64,
        name: &str,
    ) -> Result<usize, AgentTaskError> {
        let length = self.read_chunk(from, offset, name)?;
        self.await_bandwidth(length)?;
        Ok(length)
    }

    /// Reads some of the source, whether or not the link has room.
    fn read_chunk(
        &mut self,
        from: &File,
        offset: u64,
        name: &str,
    ) -> Result<usize, AgentTaskError> {
        self.watch.check_stop()?;
        self.watch.begin_step(CopyThreadPhase::Reading);
        let space = self.buffer.get_mut(..self.quantum).unwrap_or_default();
        let length = read_at(from, space, offset).at_source(format_args!("reading {name}"))?;
        self.spend_budget(length as u64, name)?;
        Ok(length)
    }

    /// Waits until the link has room for this many bytes.
    fn await_bandwidth(&mut self, length: usize) -> Result<(), AgentTaskError> {
        if let Some(limiter) = self.limiter.as_ref().filter(|_| length > 0) {
            self.watch.begin_step(CopyThreadPhase::Free);
            let wait = limiter
                .take_bytes(length)
                .at_destination("sharing the link's bandwidth")?;
            self.watch.wait_unless_stopped(wait)?;
        }
        Ok(())
    }

    fn spend_budget(&mut self, bytes: u64, name: &str) -> Result<(), AgentTaskError> {
        self.budget = self.budget.checked_sub(bytes).ok_or_else(|| {
            AgentTaskError::blaming_source(format_args!(
                "there is more than was announced, at {name}"
            ))
        })?;
        Ok(())
    }
}

/// Opens the file that will be the copy of a file of this length, with what an earlier try left of
/// it. A copy that it finished and sealed can only be read, so it is dropped if its length differs.
pub(super) fn open_copy(
    to: &DirectoryHandle,
    name: impl Arg + Copy,
    length: i64,
) -> io::Result<File> {
    match to.find_name(name)? {
        Some(stat) if stat.st_mode & 0o200 == 0 && stat.st_size == length => to.open_to_read(name),
        Some(stat) if stat.st_mode & 0o200 == 0 => {
            to.remove_tree(name)?;
            to.open_to_write(name)
        }
        Some(_) | None => to.open_to_write(name),
    }
}

/// The metadata that changes when somebody writes to a file. The time of the last change of its
/// inode is left out: others may link to it or change its mode.
#[derive(Debug, PartialEq, Eq)]
struct FileWriteStamp {
    size: u64,
    modified: SystemTime,
}

fn write_stamp(file: &File) -> io::Result<FileWriteStamp> {
    let meta = file.metadata()?;
    Ok(FileWriteStamp {
        size: meta.len(),
        modified: meta.modified()?,
    })
}

fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, offset) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom, Write};

    use super::*;
    use crate::files::agent_messages::WrittenCopyBlame;

    fn mover(budget: u64) -> FileMover {
        FileMover::new(Arc::new(CopyThreadState::default()), None, budget)
    }

    fn file_with(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn a_full_disk_is_the_destinations_fault_and_is_called_by_its_name() {
        let full = File::options()
            .read(true)
            .write(true)
            .open("/dev/full")
            .unwrap();
        let trouble = mover(100)
            .move_file(&file_with(b"some bytes"), Some(&full), "x")
            .unwrap_err();
        assert_eq!(trouble.blame, WrittenCopyBlame::Destination);
        assert!(
            trouble.detail.contains("No space left on device"),
            "{}",
            trouble.detail
        );
    }

    #[test]
    fn a_source_that_cannot_be_read_is_the_sources_fault() {
        let directory = File::open("/").unwrap();
        let trouble = mover(100)
            .move_file(&directory, Some(&file_with(b"")), "x")
            .unwrap_err();
        assert_eq!(trouble.blame, WrittenCopyBlame::Source);
    }

    #[test]
    fn a_source_with_more_than_announced_does_not_get_to_fill_the_disk() {
        let to = file_with(b"");
        let trouble = mover(5)
            .move_file(&file_with(b"123456"), Some(&to), "x")
            .unwrap_err();
        assert_eq!(trouble.blame, WrittenCopyBlame::Source);
        assert_eq!(to.metadata().unwrap().len(), 0);
    }

    #[test]
    fn what_is_there_counts_with_the_bytes_it_has_not_those_it_should_have() {
        let from = file_with(b"abcdef");
        let to = file_with(b"abX");
        let mut mover = mover(6);
        let moved = mover.move_file(&from, Some(&to), "x").unwrap();
        assert_eq!(moved.digest, Digest(*blake3::hash(b"abXdef").as_bytes()));
        assert!(mover.resumed);
    }

    #[test]
    fn a_run_of_bytes_is_moved_and_the_whole_file_is_checked() {
        let bytes: Vec<u8> = (0..3 * CHUNK_BYTES + 7).map(|n| n as u8).collect();
        let from = file_with(&bytes);
        let ends = [
            0,
            5,
            CHUNK_BYTES - 1,
            CHUNK_BYTES,
            2 * CHUNK_BYTES + 9,
            bytes.len(),
        ];
        for pair in ends.windows(2) {
            let mut to = file_with(b"");
            let run = pair[0] as u64..pair[1] as u64;
            let moved = mover(bytes.len() as u64)
                .move_run(&from, &to, run, "x")
                .unwrap();
            assert_eq!(moved.digest, Digest(*blake3::hash(&bytes).as_bytes()));
            assert_eq!(moved.size, bytes.len() as u64);
            let mut found = Vec::new();
            to.seek(SeekFrom::Start(0)).unwrap();
            to.read_to_end(&mut found).unwrap();
            assert!(found == bytes[pair[0]..pair[1]], "{pair:?}");
        }
    }

    #[test]
    fn more_than_the_source_has_is_no_beginning_of_it() {
        let from = file_with(b"abc");
        let to = file_with(b"abcdef");
        let moved = mover(3).move_file(&from, Some(&to), "x").unwrap();
        assert_eq!(
            moved,
            MovedFileContent {
                digest: Digest(*blake3::hash(b"abc").as_bytes()),
                size: 3
            }
        );
        assert_eq!(to.metadata().unwrap().len(), 3);
    }
}
