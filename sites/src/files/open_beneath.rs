//! Directories held open, and what is opened below them.
//!
//! A name given to a [`DirectoryHandle`] is one name, never a path, and is never followed if it is
//! a symbolic link: whoever swaps a directory for a link gets an error, not a way out. Paths that
//! users give go through [`DirectoryHandle::open_beneath`], where the kernel itself refuses to
//! leave.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::removal;

/// Mode of directories that are written to.
const PRIVATE_DIR: Mode = Mode::RWXU;
/// Mode of files that are written to.
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A directory held open.
#[derive(Debug)]
pub(super) struct DirectoryHandle(OwnedFd);

impl DirectoryHandle {
    /// Opens a directory that the configuration names; links in its path are the operator's.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::openat(
            CWD,
            path,
            dir_flags(),
            Mode::empty(),
        )?))
    }

    /// Wraps a file that turned out to be a directory.
    pub(super) fn from_file(file: File) -> Self {
        Self(file.into())
    }

    /// Opens a directory in this one.
    pub(super) fn open_dir(&self, name: impl Arg) -> io::Result<Self> {
        let flags = dir_flags() | OFlags::NOFOLLOW;
        Ok(Self(rustix::fs::openat(
            &self.0,
            name,
            flags,
            Mode::empty(),
        )?))
    }

    /// Makes a directory in this one, if nothing of its name is there.
    pub(super) fn make_dir(&self, name: impl Arg) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.0, name, PRIVATE_DIR) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a directory in this one, made if it is missing, and writable to us.
    pub(super) fn ensure_dir(&self, name: impl Arg + Copy) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.0, name, PRIVATE_DIR) {
            Ok(()) => self.open_dir(name),
            Err(Errno::EXIST) => {
                let dir = self.open_dir(name)?;
                dir.set_mode(PRIVATE_DIR)?;
                Ok(dir)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a file in this one for reading. Never waits for the writer of a pipe.
    pub(super) fn open_to_read(&self, name: impl Arg) -> io::Result<File> {
        self.open_file(name, OFlags::RDONLY | OFlags::NONBLOCK)
    }

    /// Opens a file in this one for reading and writing; makes it if it is missing.
    pub(super) fn open_to_write(&self, name: impl Arg) -> io::Result<File> {
        self.open_file(name, OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK)
    }

    fn open_file(&self, name: impl Arg, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, name, flags, PRIVATE_FILE)?.into())
    }

    /// Opens a path given by a user, for reading. Links are followed as long as they stay
    /// beneath this directory; the kernel refuses the rest. If it is too old to know how,
    /// no link is followed at all.
    pub(super) fn open_beneath(&self, path: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&self.0, path, flags, Mode::empty(), resolve) {
            Ok(fd) => Ok(fd.into()),
            // Old kernels do not know the call; sandboxes answer with EPERM.
            Err(Errno::NOSYS | Errno::PERM) => self.open_without_links(path),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a path for reading name by name, refusing every link.
    pub(super) fn open_without_links(&self, path: impl AsRef<[u8]>) -> io::Result<File> {
        let (parent, name) = self.open_parent_of(path.as_ref())?;
        parent.as_ref().unwrap_or(self).open_to_read(name)
    }

    /// Returns the directory of a path's last name, `None` if that is this one, and that
    /// name. No link is followed.
    pub(super) fn open_parent_of<'a>(
        &self,
        path: &'a [u8],
    ) -> io::Result<(Option<Self>, &'a [u8])> {
        let Some(end) = path.iter().rposition(|byte| *byte == b'/') else {
            return Ok((None, path));
        };
        let mut parents = path[..end].split(|byte| *byte == b'/');
        let first = self.open_dir(parents.next().unwrap_or_default())?;
        Ok((
            Some(parents.try_fold(first, |dir, name| dir.open_dir(name))?),
            &path[end + 1..],
        ))
    }

    /// Looks up what a name stands for, without following it.
    pub(super) fn stat(&self, name: impl Arg) -> io::Result<Stat> {
        Ok(rustix::fs::statat(
            &self.0,
            name,
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }

    /// Does the same as [`DirectoryHandle::stat`], but returns `None` if there is nothing.
    pub(super) fn find_name(&self, name: impl Arg) -> io::Result<Option<Stat>> {
        none_if_absent(self.stat(name))
    }

    /// Lists the names in it, sorted, without `.` and `..`.
    pub(super) fn list_names(&self) -> io::Result<Vec<OsString>> {
        Ok(self.names_up_to(usize::MAX)?.unwrap_or_default())
    }

    /// Does the same, but returns `None` if there are more than `most`.
    pub(super) fn names_up_to(&self, most: usize) -> io::Result<Option<Vec<OsString>>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                if names.len() == most {
                    return Ok(None);
                }
                names.push(OsString::from_vec(name));
            }
        }
        names.sort_unstable();
        Ok(Some(names))
    }

    /// Reads the target of a link in it.
    pub(super) fn read_link(&self, name: impl Arg) -> io::Result<OsString> {
        let target = rustix::fs::readlinkat(&self.0, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Makes a link in it.
    pub(super) fn make_link(&self, target: impl Arg, name: impl Arg) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.0, name)?)
    }

    /// Changes the mode of this directory.
    pub(super) fn set_mode(&self, mode: Mode) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.0, mode)?)
    }

    /// Renames within the file system.
    pub(super) fn rename(
        &self,
        name: impl Arg,
        to: &DirectoryHandle,
        new: impl Arg,
    ) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, name, &to.0, new)?)
    }

    /// Makes its names durable.
    pub(super) fn sync_names(&self) -> io::Result<()> {
        cospan_durable::sync_directory_handle(&self.0)
    }

    /// Makes everything in its file system durable.
    pub(super) fn sync_file_system(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }

    /// Returns how many bytes its file system can still take from us.
    pub(super) fn free_bytes(&self) -> io::Result<u64> {
        let space = rustix::fs::fstatvfs(&self.0)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// Replaces a file as a whole: a reader sees the old or the new content. After a power cut it
    /// may be empty, and whoever reads it must take that for absent.
    pub(super) fn replace_file(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let temporary = format!("{name}.new");
        let mut file = self.open_to_write(&temporary)?;
        file.set_len(0)?;
        file.write_all(content)?;
        self.rename(&temporary, self, name)
    }

    /// Removes a name and everything below it; a missing name is no error.
    pub(super) fn remove_tree(&self, name: impl Arg) -> io::Result<()> {
        removal::remove_name(self.as_fd(), &name.into_c_str()?, u64::MAX).map(drop)
    }

    /// Opens the same directory once more.
    pub(super) fn reopen(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Opens the directory that this one is in.
    pub(super) fn open_parent(&self) -> io::Result<Self> {
        self.open_dir(c"..")
    }

    /// Returns device and inode, which identify the directory.
    pub(super) fn device_and_inode(&self) -> io::Result<(u64, u64)> {
        let stat = rustix::fs::fstat(&self.0)?;
        Ok((stat.st_dev, stat.st_ino))
    }
}

impl AsFd for DirectoryHandle {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns the kind of a file.
pub(super) fn file_kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Turns the error that there is nothing into `None`.
pub(super) fn none_if_absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn dir_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn temporary_directory() -> (tempfile::TempDir, DirectoryHandle) {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("root/a/b")).unwrap();
        std::fs::write(place.path().join("root/a/b/inside"), "inside").unwrap();
        std::fs::write(place.path().join("outside"), "outside").unwrap();
        symlink("a/b", place.path().join("root/short")).unwrap();
        symlink("..", place.path().join("root/up")).unwrap();
        symlink(place.path(), place.path().join("root/absolute")).unwrap();
        let root = DirectoryHandle::open(&place.path().join("root")).unwrap();
        (place, root)
    }

    #[test]
    fn a_link_that_stays_inside_is_followed_and_one_that_leaves_is_not() {
        let (_place, root) = temporary_directory();
        assert!(root.open_beneath("a/b/inside").is_ok());
        assert!(root.open_beneath("short/inside").is_ok());
        for path in [
            "up/outside",
            "absolute/outside",
            "../outside",
            "a/../../outside",
        ] {
            assert!(root.open_beneath(path).is_err(), "{path}");
        }
    }

    #[test]
    fn without_help_from_the_kernel_no_link_is_followed() {
        let (_place, root) = temporary_directory();
        assert!(root.open_without_links("a/b/inside").is_ok());
        for path in ["short/inside", "up/outside", "absolute/outside"] {
            assert!(root.open_without_links(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_is_opened_without_waiting() {
        let (_place, root) = temporary_directory();
        rustix::fs::mkfifoat(&root, "pipe", Mode::RWXU).unwrap();
        let (opened, result) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for open in [
                DirectoryHandle::open_beneath,
                |dir: &DirectoryHandle, path: &str| dir.open_without_links(path),
            ] {
                opened.send(open(&root, "pipe").is_ok()).unwrap();
            }
        });
        for _ in 0..2 {
            assert_eq!(
                result.recv_timeout(std::time::Duration::from_secs(60)),
                Ok(true)
            );
        }
    }

    #[test]
    fn removing_a_tree_leaves_what_its_links_point_to() {
        let (place, root) = temporary_directory();
        root.remove_tree("a").unwrap();
        root.remove_tree("absolute").unwrap();
        root.remove_tree("never there").unwrap();
        assert!(root.find_name("a").unwrap().is_none());
        assert!(place.path().join("outside").exists());
    }
}
