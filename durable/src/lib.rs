//! Small files and directories that are there, and whole, after a power cut.
//!
//! Unsynced writes may be lost in a power cut, and a file that was renamed before its content was
//! synced may be empty. A file is therefore written under a temporary name in the same file system,
//! synced, renamed to its final name, and the directory is synced after that: a reader finds either
//! the old file or the new one, and whatever was reported as written is there.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

/// The default mode: only the owner may read or change a file.
pub const PRIVATE: u32 = 0o600;

const PRIVATE_DIRECTORY: u32 = 0o700;
/// Suffix of the temporary names of files that are still being written.
const HALF_MADE: &[u8] = b".new";

/// Replaces a private file as a whole.
///
/// # Errors
/// Fails if the file cannot be written. The old content then stays, unless only the last sync
/// failed.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_file_with_mode(path, bytes, PRIVATE)
}

/// Replaces a file as a whole, and gives it another mode.
///
/// # Errors
/// As for [`replace_file`].
pub fn replace_file_with_mode(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let directory = open_directory(parent_directory(path))?;
    loop {
        let aside = temporary_name(name);
        match write_new_file(&directory, &aside, bytes, mode) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(()) => return move_durably(&directory, &aside, name),
        }
    }
}

/// Replaces a private file as a whole, relative to a directory that is held open. Until then the
/// file has the name `aside`, which nobody else uses. Only that directory itself is synced: `name`
/// lies directly in it.
///
/// # Errors
/// As for [`replace_file`].
pub fn replace_file_at(
    directory: impl AsFd,
    aside: &str,
    name: &str,
    bytes: &[u8],
) -> io::Result<()> {
    match write_new_file(&directory, OsStr::new(aside), bytes, PRIVATE) {
        // A file left by an earlier process that had the same number.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            rustix::fs::unlinkat(&directory, aside, AtFlags::empty())?;
            write_new_file(&directory, OsStr::new(aside), bytes, PRIVATE)?;
        }
        written => written?,
    }
    move_durably(&directory, OsStr::new(aside), OsStr::new(name))
}

/// Renames a file that was written beside its place, and synced, to its final name. Both names are
/// in the same directory.
///
/// # Errors
/// Fails if the file cannot be renamed, or the rename cannot be made durable.
pub fn rename_durably(aside: &Path, path: &Path) -> io::Result<()> {
    std::fs::rename(aside, path)?;
    sync_directory(parent_directory(path))
}

/// Returns true for the name of a file that was still being written when its process died.
pub fn is_temporary_name(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b".") && name.ends_with(HALF_MADE)
}

/// Makes a directory for its owner alone, with all missing parents. All of them are durable
/// afterwards, also those that somebody else made just before. An existing directory is no error.
///
/// # Errors
/// One of them cannot be made, or made durable.
pub fn make_directory(path: &Path) -> io::Result<()> {
    let made = match DirBuilder::new().mode(PRIVATE_DIRECTORY).create(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && !path.as_os_str().is_empty() => {
            make_directory(parent_directory(path))?;
            DirBuilder::new().mode(PRIVATE_DIRECTORY).create(path)
        }
        made => made,
    };
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists || !path.is_dir() => Err(error),
        _ => sync_directory_name(path),
    }
}

/// Makes the names in a directory durable, as far as its file system can.
///
/// # Errors
/// The directory cannot be opened, or its disk fails.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    sync_directory_handle(&open_directory(path)?)
}

/// Makes the names in a directory durable that is held open.
///
/// # Errors
/// Its disk fails.
pub fn sync_directory_handle(directory: impl AsFd) -> io::Result<()> {
    match rustix::fs::fsync(directory) {
        // Some network file systems have no such call for directories.
        Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes durable what somebody else wrote to a file, as far as its file system can.
///
/// # Errors
/// Its disk fails.
pub fn sync_content(file: impl AsFd) -> io::Result<()> {
    match rustix::fs::fsync(file) {
        // A read-only file system takes no writes, and pipes have no disk.
        Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::ROFS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes the name of a directory durable in its parent. If we may not read the parent, the whole
/// file system is synced instead.
fn sync_directory_name(path: &Path) -> io::Result<()> {
    match open_directory(&path.join("..")) {
        Ok(above) => sync_directory_handle(above),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Ok(rustix::fs::syncfs(open_directory(path)?)?)
        }
        Err(error) => Err(error),
    }
}

fn open_directory(directory: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(directory, flags, Mode::empty())?.into())
}

fn parent_directory(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Makes a temporary name that no other call of this process returns.
fn temporary_name(name: &OsStr) -> OsString {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let mut aside = b".".to_vec();
    aside.extend_from_slice(name.as_bytes());
    aside.extend_from_slice(format!(".{}-{call}", std::process::id()).as_bytes());
    aside.extend_from_slice(HALF_MADE);
    OsString::from_vec(aside)
}

/// Writes a new file durably. Leaves nothing behind if it cannot be written.
fn write_new_file(directory: impl AsFd, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let private = Mode::from_raw_mode(PRIVATE);
    let mut file: File = rustix::fs::openat(&directory, name, flags, private)?.into();
    let mut written = file.write_all(bytes);
    if mode != PRIVATE {
        let mode = Mode::from_raw_mode(mode);
        written = written.and_then(|()| Ok(rustix::fs::fchmod(&file, mode)?));
    }
    written
        .and_then(|()| file.sync_all())
        .inspect_err(|_| discard_temporary(&directory, name))
}

fn move_durably(directory: impl AsFd, aside: &OsStr, name: &OsStr) -> io::Result<()> {
    if let Err(error) = rustix::fs::renameat(&directory, aside, &directory, name) {
        discard_temporary(&directory, aside);
        return Err(error.into());
    }
    sync_directory_handle(directory)
}

/// Removes a temporary file. Errors are ignored: the caller reports the first one.
fn discard_temporary(directory: impl AsFd, name: &OsStr) {
    let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn entry_names(directory: &Path) -> Vec<OsString> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    fn mode_of(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a");
        replace_file(&file, b"long enough").unwrap();
        replace_file(&file, b"short").unwrap();
        assert_eq!(
            (std::fs::read(&file).unwrap(), mode_of(&file)),
            (b"short".to_vec(), PRIVATE)
        );
        replace_file_with_mode(&file, b"seen", 0o644).unwrap();
        assert_eq!(
            (entry_names(home.path()), mode_of(&file)),
            (vec!["a".into()], 0o644)
        );
    }

    #[test]
    fn a_file_that_cannot_be_put_in_place_leaves_what_was_there_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let taken = home.path().join("taken");
        std::fs::create_dir_all(taken.join("below")).unwrap();
        replace_file(&taken, b"new").unwrap_err();
        assert_eq!(entry_names(home.path()), ["taken"]);
        replace_file(&home.path().join("not/there"), b"new").unwrap_err();
        replace_file(Path::new("/"), b"new").unwrap_err();
    }

    #[test]
    fn what_a_dead_process_left_half_made_keeps_nobody_from_the_name() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("gone")).unwrap();
        std::fs::write(home.path().join("gone/1.tmp"), "half of it, and more").unwrap();
        let directory = open_directory(home.path()).unwrap();
        replace_file_at(&directory, "gone/1.tmp", "a", b"whole").unwrap();
        assert_eq!(std::fs::read(home.path().join("a")).unwrap(), b"whole");
        assert!(entry_names(&home.path().join("gone")).is_empty());
        let aside = temporary_name(OsStr::new("a"));
        assert!(
            is_temporary_name(&aside) && aside != temporary_name(OsStr::new("a")),
            "{aside:?}"
        );
        assert!(!is_temporary_name(OsStr::new("a.new")) && !is_temporary_name(OsStr::new(".a")));
    }

    #[test]
    fn a_directory_is_made_with_those_above_it_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let deep = home.path().join("a/b/c");
        make_directory(&deep).unwrap();
        make_directory(&deep).unwrap();
        let made = [&deep, &home.path().join("a")].map(|path| mode_of(path));
        assert_eq!(made, [PRIVATE_DIRECTORY; 2]);
        std::fs::write(deep.join("file"), "").unwrap();
        make_directory(&deep.join("file")).unwrap_err();
        make_directory(&deep.join("file/below")).unwrap_err();
        make_directory(Path::new("")).unwrap_err();
    }
}
