//! Files that only their owner can read or change.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::KeyError;

/// Larger than any key file; a larger file is not ours.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> KeyError {
    move |source| KeyError::Io {
        action,
        path: path.into(),
        source,
    }
}

/// The account that runs this.
pub(super) fn own_account() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn check_owner(path: &Path, found: &Metadata, right: u32) -> Result<(), KeyError> {
    match found.uid() {
        owner if owner == right => Ok(()),
        owner => Err(KeyError::Foreign {
            path: path.into(),
            owner,
            us: right,
        }),
    }
}

/// Makes the directory if it is missing; else checks that nobody else can change its content.
pub(super) fn prepare_directory(path: &Path) -> Result<(), KeyError> {
    cospan_durable::make_directory(path).map_err(io_error("create", path))?;
    check_directory(path)
}

/// Checks that nobody else can change what is in the directory.
pub(super) fn check_directory(path: &Path) -> Result<(), KeyError> {
    let found = std::fs::metadata(path).map_err(io_error("look at", path))?;
    if !found.is_dir() {
        return Err(KeyError::WrongKind {
            path: path.into(),
            expected: "a directory",
        });
    }
    check_owner(path, &found, own_account())?;
    if found.mode() & 0o022 != 0 {
        return Err(KeyError::Loose {
            path: path.into(),
            mode: found.mode() & 0o777,
            right: "700",
        });
    }
    Ok(())
}

/// Opens a file that only its owner, this account, may access; `None` if there is none.
pub(super) fn open_private_file(
    path: &Path,
    owner: u32,
) -> Result<Option<(File, Metadata)>, KeyError> {
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = match OpenOptions::new()
        .read(true)
        .custom_flags(nofollow | nonblock)
        .open(path)
    {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("open", path)(error)),
    };
    let found = file.metadata().map_err(io_error("look at", path))?;
    if !found.is_file() {
        return Err(KeyError::WrongKind {
            path: path.into(),
            expected: "a plain file",
        });
    }
    check_owner(path, &found, owner)?;
    if found.mode() & 0o077 != 0 {
        return Err(KeyError::Loose {
            path: path.into(),
            mode: found.mode() & 0o777,
            right: "600",
        });
    }
    Ok(Some((file, found)))
}

/// Reads a file that only we may access; `None` if there is none.
pub(super) fn read_private_file(path: &Path) -> Result<Option<(String, Metadata)>, KeyError> {
    read_file_of_account(path, own_account())
}

/// Reads a file that only its owner, this account, may access; `None` if there is none.
pub(super) fn read_file_of_account(
    path: &Path,
    owner: u32,
) -> Result<Option<(String, Metadata)>, KeyError> {
    let Some((file, found)) = open_private_file(path, owner)? else {
        return Ok(None);
    };
    let mut text = String::new();
    let read = file
        .take(MAX_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(io_error("read", path))?;
    if read as u64 > MAX_BYTES {
        let problem = format!("longer than {MAX_BYTES} bytes");
        return Err(KeyError::Damaged {
            path: path.into(),
            problem,
        });
    }
    Ok(Some((text, found)))
}

/// Replaces a file as a whole: a reader sees the old text or the new one, and the new one survives
/// a power cut.
pub(super) fn write_private_file(path: &Path, text: &str) -> Result<(), KeyError> {
    cospan_durable::replace_file(path, text.as_bytes()).map_err(io_error("write", path))
}

/// Removes a file; it may be gone already.
pub(super) fn remove_private_file(path: &Path) -> Result<(), KeyError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io_error("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Locks out everybody else until the result is dropped.
pub(super) fn lock_private_file(path: &Path) -> Result<File, KeyError> {
    let options = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path);
    let file = options.map_err(io_error("open", path))?;
    file.lock().map_err(io_error("lock", path))?;
    Ok(file)
}
