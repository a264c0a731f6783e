//! Walks through all that is below a directory, however deep and wide somebody made it: no
//! recursion, two descriptors, and bounds that the errors name.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::vec::IntoIter;

use rustix::fs::{FileType, Stat};
use thiserror::Error;

use super::open_beneath::{DirectoryHandle, file_kind};

/// The most levels of a directory that is content: more than any usable path has.
const DEPTH_MAX: usize = 128;
/// The most entries of one directory with all below it.
pub(super) const ENTRIES_MAX: usize = 1_000_000;
/// The most bytes of all their paths together, and of the targets of links.
const PATHS_MAX: usize = 128 << 20;

/// The reason why a directory cannot be walked through.
#[derive(Debug, Error)]
pub(super) enum DirectoryWalkError {
    #[error("{0}")]
    Failed(#[from] io::Error),
    #[error("it is more than {DEPTH_MAX} levels deep; pack it into one file, and name that")]
    TooDeep,
    #[error("it has more than {0} entries; pack them into one file, and name that")]
    TooMany(usize),
    #[error(
        "its paths, and what its links point to, have more than {PATHS_MAX} bytes; pack it into \
         one file, and name that"
    )]
    TooLong,
}

/// A directory held open, and the way back to the one that it was entered from.
#[derive(Debug)]
pub(super) struct DirectoryWalkPosition {
    here: DirectoryHandle,
    above: Vec<(u64, u64)>,
}

impl DirectoryWalkPosition {
    pub(super) fn new(top: DirectoryHandle) -> Self {
        Self {
            here: top,
            above: Vec::new(),
        }
    }

    pub(super) fn current_dir(&self) -> &DirectoryHandle {
        &self.here
    }

    /// Goes on in a directory that is in this one.
    pub(super) fn enter_dir(&mut self, below: DirectoryHandle) -> io::Result<()> {
        self.above.push(self.here.device_and_inode()?);
        self.here = below;
        Ok(())
    }

    /// Goes back to the one that this was entered from, if it is still in there.
    pub(super) fn leave_dir(&mut self) -> io::Result<()> {
        let Some(id) = self.above.pop() else {
            return Ok(());
        };
        let above = self.here.open_parent()?;
        if above.device_and_inode()? != id {
            return Err(io::Error::other("it was moved while it was read"));
        }
        self.here = above;
        Ok(())
    }
}

/// A step of a walk.
pub(super) enum WalkStep {
    /// Something in the directory that is open, by its name.
    Found(OsString, Stat),
    /// The end of a directory, which is being left.
    Leaves,
}

/// A walk through a directory. Names are found in order, a directory before its entries.
pub(super) struct DirectoryWalk {
    place: DirectoryWalkPosition,
    names: Vec<IntoIter<OsString>>,
    /// The path of what was found last, below the top.
    path: Vec<u8>,
    /// The length of the path of each open directory.
    ends: Vec<usize>,
    entries_max: usize,
    entries_left: usize,
    bytes_left: usize,
}

impl DirectoryWalk {
    /// Begins a walk; more than `entries_max` entries are an error.
    pub(super) fn new(
        top: DirectoryHandle,
        entries_max: usize,
    ) -> Result<Self, DirectoryWalkError> {
        let mut walk = Self {
            place: DirectoryWalkPosition::new(top),
            names: Vec::new(),
            path: Vec::new(),
            ends: Vec::new(),
            entries_max,
            entries_left: entries_max,
            bytes_left: PATHS_MAX,
        };
        walk.read_names(0)?;
        Ok(walk)
    }

    /// Returns the directory that is open.
    pub(super) fn current_dir(&self) -> &DirectoryHandle {
        self.place.current_dir()
    }

    /// Returns the path of what was found last, below the top.
    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns true if the directory that was entered last has an entry of this name to come.
    pub(super) fn has_name(&self, name: &OsStr) -> bool {
        let names = self
            .names
            .last()
            .map(IntoIter::as_slice)
            .unwrap_or_default();
        names
            .binary_search_by(|known| known.as_os_str().cmp(name))
            .is_ok()
    }

    /// Takes the next step; `None` at the end.
    pub(super) fn next_step(&mut self) -> Result<Option<WalkStep>, DirectoryWalkError> {
        let Some(names) = self.names.last_mut() else {
            return Ok(None);
        };
        let end = self.ends.last().copied().unwrap_or(0);
        self.path.truncate(end);
        let Some(name) = names.next() else {
            self.names.pop();
            self.ends.pop();
            if self.names.is_empty() {
                return Ok(None);
            }
            return Ok(Some(WalkStep::Leaves));
        };
        if end > 0 {
            self.path.push(b'/');
        }
        self.path.extend(name.as_bytes());
        self.count_bytes(self.path.len())?;
        let stat = self
            .current_dir()
            .stat(&name)
            .map_err(|error| self.error_at_path(&error))?;
        Ok(Some(WalkStep::Found(name, stat)))
    }

    /// Reads the target of the link that was found last.
    pub(super) fn read_link(&mut self, name: &OsStr) -> Result<OsString, DirectoryWalkError> {
        let target = self
            .current_dir()
            .read_link(name)
            .map_err(|error| self.error_at_path(&error))?;
        self.count_bytes(target.len())?;
        Ok(target)
    }

    /// Counts bytes, because all that is found is kept in memory.
    fn count_bytes(&mut self, bytes: usize) -> Result<(), DirectoryWalkError> {
        self.bytes_left = self
            .bytes_left
            .checked_sub(bytes)
            .ok_or(DirectoryWalkError::TooLong)?;
        Ok(())
    }

    /// Enters the directory that was found last.
    pub(super) fn enter_found(&mut self, name: &OsStr) -> Result<(), DirectoryWalkError> {
        let below = self
            .current_dir()
            .open_dir(name)
            .map_err(|error| self.error_at_path(&error))?;
        self.place.enter_dir(below)?;
        self.read_names(self.path.len())
    }

    fn error_at_path(&self, error: &io::Error) -> io::Error {
        let path = String::from_utf8_lossy(&self.path);
        io::Error::new(error.kind(), format!("{path:?}: {error}"))
    }

    /// Goes back from the directory that is being left.
    pub(super) fn leave_current(&mut self) -> io::Result<()> {
        self.place.leave_dir()
    }

    fn read_names(&mut self, end: usize) -> Result<(), DirectoryWalkError> {
        if self.names.len() > DEPTH_MAX {
            return Err(DirectoryWalkError::TooDeep);
        }
        let names = self.current_dir().names_up_to(self.entries_left)?;
        let names = names.ok_or(DirectoryWalkError::TooMany(self.entries_max))?;
        self.entries_left -= names.len();
        self.names.push(names.into_iter());
        self.ends.push(end);
        Ok(())
    }
}

/// Returns true if it is a directory.
pub(super) fn is_directory(stat: &Stat) -> bool {
    file_kind(stat) == FileType::Directory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_links_point_to_counts_as_much_as_paths() {
        let top = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("x".repeat(1_000), top.path().join("link")).unwrap();
        let read = |bytes_left| {
            let mut walk =
                DirectoryWalk::new(DirectoryHandle::open(top.path()).unwrap(), ENTRIES_MAX)
                    .unwrap();
            walk.bytes_left = bytes_left;
            let Ok(Some(WalkStep::Found(name, _))) = walk.next_step() else {
                panic!("no link is found")
            };
            walk.read_link(&name)
        };
        assert!(matches!(read(1_003), Err(DirectoryWalkError::TooLong)));
        assert_eq!(read(1_004).unwrap().len(), 1_000);
    }
}
