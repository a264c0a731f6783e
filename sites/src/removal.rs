//! Removes trees, however deep and wide they are, and whatever modes they have.
//!
//! Payloads make trees that no path reaches, of more levels than a process may have files open. So
//! one directory is held open at a time: the way down goes by names, the way up by `..`, which
//! counts only if it is where we came from. Anything too deep is first moved up, to the top of the
//! tree. Links are removed, never followed. A name that cannot be removed stays, with the
//! directories above it, and all else goes.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// The most levels: anything deeper is moved up before it is removed.
const LEVELS_MAX: usize = 256;
/// The most names that are remembered, of all levels together.
const NAMES_MAX: usize = 65_536;
/// The least names that are remembered of each level.
const NAMES_MIN: usize = 16;
/// The most times that one directory is read again because names have appeared meanwhile.
const READ_AGAIN_MAX: u32 = 10_000;
/// The most times that all is begun anew because somebody moves directories meanwhile.
const BEGUN_AGAIN_MAX: u32 = 100;

/// The extent of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemovalExtent {
    /// Nothing is left.
    All,
    /// There was more than may be removed at a time.
    Some,
}

/// Removes what is at a path, with all below it; a missing path is no error. Made for trees whose
/// makers cannot be trusted: no recursion, few descriptors, and no link is followed.
///
/// # Errors
/// The first thing that could not be removed; all others are gone.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    remove_name(CWD, &name, u64::MAX).map(drop)
}

/// Removes a name in a directory, and about `most` things below it; a missing name is no error.
pub(crate) fn remove_name(
    parent: BorrowedFd<'_>,
    name: &CStr,
    most: u64,
) -> io::Result<RemovalExtent> {
    let unlinked = match unlink_name(parent, name, AtFlags::empty()) {
        Ok(()) => return Ok(RemovalExtent::All),
        Err(error) => error,
    };
    let removal = DirectoryRemoval {
        parent,
        name,
        levels: Vec::new(),
        held: 0,
        moved: 0,
        left: most,
        failed: None,
    };
    match open_directory(parent, name) {
        Ok(top) => removal.remove_all(top),
        Err(Errno::NOENT) => Ok(RemovalExtent::All),
        Err(Errno::NOTDIR | Errno::LOOP) => Err(unlinked.into()),
        Err(error) => Err(error.into()),
    }
}

/// Gives the owner all rights to a directory itself, not to its entries. A directory that
/// is not ours stays as it is.
pub(crate) fn grant_owner_rights(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    open_directory(parent, name)?;
    Ok(())
}

/// A directory being removed.
struct DirectoryRemoval<'a> {
    parent: BorrowedFd<'a>,
    name: &'a CStr,
    /// The levels from the top to the one that is open.
    levels: Vec<RemovalLevel>,
    /// The names remembered, of all levels.
    held: usize,
    /// The number of directories moved up.
    moved: u64,
    /// The things that may still be removed.
    left: u64,
    /// The first thing that could not be removed, and why.
    failed: Option<(CString, Errno)>,
}

/// A directory on the way down.
struct RemovalLevel {
    /// The name in the directory above.
    name: CString,
    id: (u64, u64),
    /// Directories in it that must still be removed.
    pending: Vec<CString>,
    /// True if something in it was removed since it was read.
    progress: bool,
    /// The number of times that it was read.
    read: u32,
}

/// The place to go on.
enum RemovalStep {
    /// Go on here, or in what was opened.
    On(OpenDirectory),
    /// Somebody moved the directory that we are in.
    Lost,
    Over,
}

/// An open directory and its identity.
struct OpenDirectory {
    directory: Dir,
    id: (u64, u64),
}

impl DirectoryRemoval<'_> {
    fn remove_all(mut self, top: OpenDirectory) -> io::Result<RemovalExtent> {
        let mut at = self.enter_level(top, self.name.to_owned());
        let mut begun_again = 0;
        while self.left > 0 {
            let next = self.levels.last_mut().and_then(|level| level.pending.pop());
            let turn = match next {
                Some(name) => {
                    self.held -= 1;
                    self.enter_or_remove(at, name)
                }
                None => self.leave_and_remove(at),
            };
            at = match turn {
                RemovalStep::On(open) => open,
                RemovalStep::Over => {
                    return self
                        .failed
                        .map_or(Ok(RemovalExtent::All), |why| Err(undeletable_error(&why)));
                }
                RemovalStep::Lost if begun_again == BEGUN_AGAIN_MAX => {
                    return Err(io::Error::other("it is being moved while it is removed"));
                }
                RemovalStep::Lost => {
                    begun_again += 1;
                    self.levels.clear();
                    self.held = 0;
                    match open_directory(self.parent, self.name) {
                        Ok(top) => self.enter_level(top, self.name.to_owned()),
                        Err(Errno::NOENT) => return Ok(RemovalExtent::All),
                        Err(error) => return Err(error.into()),
                    }
                }
            };
        }
        Ok(RemovalExtent::Some)
    }

    /// Begins with a directory that was opened.
    fn enter_level(&mut self, mut open: OpenDirectory, name: CString) -> OpenDirectory {
        let pending = Vec::new();
        self.levels.push(RemovalLevel {
            name,
            id: open.id,
            pending,
            progress: false,
            read: 0,
        });
        self.remove_entries(&mut open.directory);
        open
    }

    /// Removes the entries of the open directory that are no directories, and remembers the others.
    fn remove_entries(&mut self, directory: &mut Dir) {
        let Some(mut level) = self.levels.pop() else {
            return;
        };
        level.progress = false;
        level.read += 1;
        directory.rewind();
        let room = NAMES_MAX.saturating_sub(self.held).max(NAMES_MIN);
        while let Some(entry) = directory.read() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.note_failure(c".", error);
                    break;
                }
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let unlinked = match (entry.file_type(), directory.fd()) {
                (FileType::Directory, _) => Err(Errno::ISDIR),
                (_, Ok(at)) => unlink_name(at, name, AtFlags::empty()),
                (_, Err(error)) => Err(error),
            };
            match unlinked {
                Ok(()) => self.count_removed(&mut level),
                // If the kind is not reported, some systems refuse directories in this way.
                Err(Errno::ISDIR | Errno::PERM) if level.pending.len() < room => {
                    level.pending.push(name.to_owned());
                }
                // The others have their turn when it is read again.
                Err(Errno::ISDIR) => break,
                Err(error) => self.note_failure(name, error),
            }
            if self.left == 0 {
                break;
            }
        }
        self.held += level.pending.len();
        self.levels.push(level);
    }

    /// Removes a directory in the open one, or enters it.
    fn enter_or_remove(&mut self, at: OpenDirectory, name: CString) -> RemovalStep {
        let Ok(here) = at.directory.fd() else {
            return RemovalStep::Lost;
        };
        // If it is not empty, what happens inside says more.
        if unlink_name(here, &name, AtFlags::REMOVEDIR).is_ok() {
            self.note_progress();
            return RemovalStep::On(at);
        }
        match open_directory(here, &name) {
            // A mounted file system is not ours to remove.
            Ok(open) if open.id.0 != at.id.0 => self.note_failure(&name, Errno::XDEV),
            Ok(_) if self.levels.len() >= LEVELS_MAX && self.move_up(here, &name) => {}
            Ok(open) => return RemovalStep::On(self.enter_level(open, name)),
            Err(Errno::NOENT) => {}
            // It may have become something else meanwhile, or never been a directory.
            Err(error) => match unlink_name(here, &name, AtFlags::empty()) {
                Ok(()) => self.note_progress(),
                Err(Errno::ISDIR) => self.note_failure(&name, error),
                Err(error) => self.note_failure(&name, error),
            },
        }
        RemovalStep::On(at)
    }

    /// Moves a directory to the top, to be removed there; `false` if that is not possible.
    fn move_up(&mut self, here: BorrowedFd<'_>, name: &CStr) -> bool {
        let Some(top) = self.levels.first().map(|level| level.id) else {
            return false;
        };
        let Ok(open) = open_directory(self.parent, self.name) else {
            return false;
        };
        let Ok(to) = open.directory.fd() else {
            return false;
        };
        self.moved += 1;
        let Ok(new) = CString::new(format!(".cospan-moved-{}", self.moved)) else {
            return false;
        };
        if open.id != top || rustix::fs::renameat(here, name, to, &*new).is_err() {
            return false;
        }
        self.note_progress();
        if let Some(level) = self.levels.first_mut() {
            level.progress = true;
            // Otherwise it is found when the top is read again.
            if self.held < NAMES_MAX {
                level.pending.push(new);
                self.held += 1;
            }
        }
        true
    }

    /// Leaves a directory whose names are done, and removes it.
    fn leave_and_remove(&mut self, mut at: OpenDirectory) -> RemovalStep {
        let Some(level) = self.levels.pop() else {
            return RemovalStep::Over;
        };
        let (above, expected) = match self.levels.last() {
            None => (None, None),
            Some(last) => (open_parent_of(&at).ok(), Some(last.id)),
        };
        if above.as_ref().map(|above| above.id) != expected {
            return RemovalStep::Lost;
        }
        let removed = match above
            .as_ref()
            .map_or(Ok(self.parent), |above| above.directory.fd())
        {
            Ok(parent) => unlink_name(parent, &level.name, AtFlags::REMOVEDIR),
            Err(error) => Err(error),
        };
        match removed {
            Ok(()) | Err(Errno::NOENT) => self.note_progress(),
            Err(_) if level.progress && level.read < READ_AGAIN_MAX => {
                self.levels.push(level);
                self.remove_entries(&mut at.directory);
                return RemovalStep::On(at);
            }
            Err(error) => self.note_failure(&level.name, error),
        }
        above.map_or(RemovalStep::Over, RemovalStep::On)
    }

    fn count_removed(&mut self, level: &mut RemovalLevel) {
        level.progress = true;
        self.left = self.left.saturating_sub(1);
    }

    fn note_progress(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.progress = true;
        }
        self.left = self.left.saturating_sub(1);
    }

    /// Records a failure. That a directory is not empty says less than why.
    fn note_failure(&mut self, name: &CStr, error: Errno) {
        if error != Errno::NOENT
            && self
                .failed
                .as_ref()
                .is_none_or(|(_, known): &(CString, Errno)| *known == Errno::NOTEMPTY)
        {
            self.failed = Some((name.to_owned(), error));
        }
    }
}

fn undeletable_error((name, error): &(CString, Errno)) -> io::Error {
    let error = io::Error::from(*error);
    io::Error::new(
        error.kind(),
        format!("{:?} in it stays: {error}", name.to_string_lossy()),
    )
}

/// Opens a directory in another one, and gives its owner all rights. Never through a link.
fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> Result<OpenDirectory, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::openat(parent, name, flags | OFlags::RDONLY, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let closed = rustix::fs::openat(parent, name, flags | OFlags::PATH, Mode::empty())?;
            // This changes what is open, whatever has the name by now.
            let itself = format!("/proc/self/fd/{}", closed.as_raw_fd());
            rustix::fs::chmod(itself, Mode::RWXU)?;
            rustix::fs::openat(&closed, c".", flags | OFlags::RDONLY, Mode::empty())?
        }
        opened => opened?,
    };
    let stat = rustix::fs::fstat(&directory)?;
    if !Mode::from_raw_mode(stat.st_mode).contains(Mode::RWXU) {
        // If that is not allowed, the next call says so.
        let _ = rustix::fs::fchmod(&directory, Mode::RWXU);
    }
    wrap_directory(directory, (stat.st_dev, stat.st_ino))
}

/// Opens the directory that another one is in.
fn open_parent_of(at: &OpenDirectory) -> Result<OpenDirectory, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let above = rustix::fs::openat(at.directory.fd()?, c"..", flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&above)?;
    wrap_directory(above, (stat.st_dev, stat.st_ino))
}

fn wrap_directory(directory: OwnedFd, id: (u64, u64)) -> Result<OpenDirectory, Errno> {
    Ok(OpenDirectory {
        directory: Dir::new(directory)?,
        id,
    })
}

fn unlink_name(parent: impl AsFd, name: &CStr, flags: AtFlags) -> Result<(), Errno> {
    rustix::fs::unlinkat(parent, name, flags)
}
