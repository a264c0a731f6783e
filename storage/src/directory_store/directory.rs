//! The directory of a store: private, and used by one process at a time.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{marker, retry_while_in_use};
use crate::port::StoreError;

pub(super) const LOCK_FILE: &str = "lock";

/// A directory that no other process has; the lock is released when this is dropped.
#[derive(Debug)]
pub(crate) struct LockedDirectory {
    path: PathBuf,
    _lock: File,
}

impl LockedDirectory {
    /// Makes the directory if it is missing, makes it private, and locks it.
    pub(crate) fn create_and_lock(path: &Path, lock_wait: Duration) -> Result<Self, StoreError> {
        create_private(path)?;
        let lock_path = path.join(LOCK_FILE);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .map_err(|source| io_error(path, "locked", source))?;
        retry_while_in_use(lock_wait, || match lock.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse {
                path: path_text(path),
            }),
            Err(TryLockError::Error(source)) => Err(io_error(path, "locked", source)),
        })?;
        let directory = Self {
            path: path.into(),
            _lock: lock,
        };
        directory.clear_entries(is_temporary_marker);
        Ok(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path for messages.
    pub(crate) fn place_text(&self) -> String {
        path_text(&self.path)
    }

    /// Returns the name of an entry other than the lock.
    pub(crate) fn first_entry(&self) -> Result<Option<String>, StoreError> {
        let entries =
            fs::read_dir(&self.path).map_err(|source| io_error(&self.path, "read", source))?;
        let mut names = entries
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
        Ok(names.find(|name| name != LOCK_FILE))
    }

    /// Removes the entries with such names, but not the lock, as far as possible.
    pub(crate) fn clear_entries(&self, is_meant: impl Fn(&OsStr) -> bool) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name == LOCK_FILE || !is_meant(&name) {
                continue;
            }
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            // Whatever stays is reported by the next user: an import, or the engine.
            let _ = if is_directory {
                fs::remove_dir_all(entry.path())
            } else {
                fs::remove_file(entry.path())
            };
        }
    }

    /// Makes the names in it durable, and its own name in its parent.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        sync_directory(&self.path)?;
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
}

/// Returns true for a marker that was still being written when its process died.
fn is_temporary_marker(name: &OsStr) -> bool {
    let begin = format!(".{}.", marker::FILE);
    cospan_durable::is_temporary_name(name) && name.as_encoded_bytes().starts_with(begin.as_bytes())
}

fn create_private(path: &Path) -> Result<(), StoreError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => {
            Err(unusable_directory_error(path, "it is not a directory"))
        }
        Ok(found) => {
            let mut permissions = found.permissions();
            let mode = permissions.mode() & 0o7777;
            if mode & 0o077 == 0 {
                return Ok(());
            }
            // A directory that was made for something else keeps its mode.
            if !path.join(marker::FILE).is_file() {
                let problem = format!(
                    "others can look into it (mode {mode:03o}), and it has no store yet; run \
                     chmod 700 {}",
                    path.display()
                );
                return Err(unusable_directory_error(path, &problem));
            }
            permissions.set_mode(0o700);
            fs::set_permissions(path, permissions)
                .map_err(|source| io_error(path, "made private", source))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => cospan_durable::make_directory(path)
            .map_err(|source| match source.kind() {
                ErrorKind::StorageFull => io_error(path, "made", source),
                _ => unusable_directory_error(path, &source.to_string()),
            }),
        Err(error) => Err(unusable_directory_error(path, &error.to_string())),
    }
}

fn unusable_directory_error(path: &Path, problem: &str) -> StoreError {
    StoreError::NotADirectory {
        path: path_text(path),
        problem: format!("{problem}; name a directory, or one that can be made"),
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    cospan_durable::sync_directory(path).map_err(|source| io_error(path, "made durable", source))
}

/// Makes the error for something that failed at `path`; a full disk has its own.
pub(crate) fn io_error(path: &Path, action: &'static str, source: io::Error) -> StoreError {
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full {
            path: path_text(path),
        },
        _ => StoreError::Io {
            path: path_text(path),
            action,
            source,
        },
    }
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}
