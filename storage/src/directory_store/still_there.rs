//! Checks that a store is still where it was when it was opened.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::directory::LOCK_FILE;
use super::{EngineKind, io_error};
use crate::port::StoreError;

type FileIdentity = (u64, u64);

/// The directory and the files of a store, as they were at its opening.
pub(super) struct OpenedStoreFiles {
    each: Vec<OpenedStoreFile>,
    /// The parent of the directory. If it is there, a missing store is gone rather than out of
    /// reach.
    above: Option<PathBuf>,
}

struct OpenedStoreFile {
    path: PathBuf,
    identity: FileIdentity,
    /// Open file, to check whether it still has a name anywhere.
    file: File,
}

impl OpenedStoreFiles {
    pub(super) fn open_places(directory: &Path, engine: EngineKind) -> Result<Self, StoreError> {
        let names = [LOCK_FILE, engine.data_file_name()].map(|name| directory.join(name));
        let places = std::iter::once(directory.to_path_buf()).chain(names);
        let each = places.map(|path| {
            let file = File::open(&path).map_err(|source| io_error(&path, "looked at", source))?;
            let identity = file_identity(file.metadata())
                .map_err(|source| io_error(&path, "looked at", source))?;
            Ok(OpenedStoreFile {
                path,
                identity,
                file,
            })
        });
        let each = each.collect::<Result<_, StoreError>>()?;
        let whole = std::path::absolute(directory).ok();
        let above = whole
            .as_deref()
            .and_then(Path::parent)
            .map(Path::to_path_buf);
        Ok(Self { each, above })
    }

    /// # Errors
    /// Fails with [`StoreError::Vanished`] if writes would be lost, or with [`StoreError::Unseen`]
    /// if that cannot be checked now.
    pub(super) fn check_still_there(&self) -> Result<(), StoreError> {
        self.each.iter().try_for_each(
            |place| match file_identity(std::fs::metadata(&place.path)) {
                Ok(found) if found == place.identity => Ok(()),
                Ok(_) => Err(place.vanished_error()),
                Err(error) if self.is_gone(&error) => Err(place.vanished_error()),
                Err(source) => Err(StoreError::Unseen {
                    path: place.path.display().to_string(),
                    source,
                }),
            },
        )
    }

    /// Returns true if the place that gave this error is certainly gone, rather than out of reach.
    fn is_gone(&self, error: &io::Error) -> bool {
        self.each.iter().any(OpenedStoreFile::is_removed)
            || error.kind() == ErrorKind::NotFound
                && self.above.as_ref().is_some_and(|above| above.exists())
    }
}

impl OpenedStoreFile {
    fn is_removed(&self) -> bool {
        self.file.metadata().is_ok_and(|found| found.nlink() == 0)
    }

    fn vanished_error(&self) -> StoreError {
        StoreError::Vanished {
            path: self.path.display().to_string(),
        }
    }
}

fn file_identity(found: io::Result<std::fs::Metadata>) -> io::Result<FileIdentity> {
    found.map(|found| (found.dev(), found.ino()))
}
