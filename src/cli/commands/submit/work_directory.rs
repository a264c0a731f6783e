//! A directory of this machine that a job brings: it is packed into one file, sent as input, and
//! unpacked in the work directory before the program starts.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cospan_domain::ids::RelPath;
use tempfile::TempDir;

use crate::cli::exit::CliError;
use crate::cli::print::print_note;
use cospan_api::v1::document::{ComponentDocument, FeedDocument, InputDocument};

/// The name of the packed directory, here and in the work directory.
const ARCHIVE: &str = "workdir.tar";
/// The line that unpacks it. A program of which half is there does not start.
const UNPACK: &str =
    "tar -xf \"$COSPAN_ATTEMPT_DIR/work/workdir.tar\" -C \"$COSPAN_ATTEMPT_DIR/work\" || exit 1";

/// A directory that was packed; the archive goes with it.
pub(super) struct PackedDirectory {
    directory: PathBuf,
    archive: PathBuf,
    _place: TempDir,
}

impl PackedDirectory {
    /// Packs all that is in a directory. Symbolic links are kept as links.
    ///
    /// # Errors
    /// It is no directory, or something in it cannot be read.
    pub(super) fn pack(directory: &Path) -> Result<Self, CliError> {
        if !directory.is_dir() {
            return Err(CliError::usage_error(
                format!("{} is no directory", directory.display()),
                "name a directory of this machine; a single file is brought with --input",
            ));
        }
        let unread = |error: std::io::Error| CliError::file_error("pack", directory, &error);
        let place = tempfile::tempdir().map_err(unread)?;
        let archive = place.path().join(ARCHIVE);
        print_note(&format!("packing {}", directory.display()));
        let mut packer = tar::Builder::new(File::create(&archive).map_err(unread)?);
        packer.follow_symlinks(false);
        packer.append_dir_all(".", directory).map_err(unread)?;
        let file = packer.into_inner().map_err(unread)?;
        file.sync_all().map_err(unread)?;
        Ok(Self {
            directory: directory.to_owned(),
            archive,
            _place: place,
        })
    }

    /// Returns true if there is a file of this name, relative to the work directory.
    pub(super) fn has_file(&self, path: &str) -> bool {
        !path.starts_with('/') && self.directory.join(path).is_file()
    }

    /// Has a component bring the directory.
    ///
    /// # Errors
    /// The path of the archive on this machine is not UTF-8.
    pub(super) fn add_to_component(
        &self,
        component: &mut ComponentDocument,
    ) -> Result<(), CliError> {
        let archive = self.archive.to_str().ok_or_else(|| {
            CliError::usage_error(
                format!("the name of {} is not UTF-8", self.archive.display()),
                "set TMPDIR to a directory with another name",
            )
        })?;
        component.input.push(InputDocument {
            file: None,
            upload: Some(archive.into()),
            path: RelPath::new(ARCHIVE).ok(),
            read: FeedDocument::default(),
            digest: None,
            size_bytes: None,
        });
        component.setup.insert(0, Arc::from(UNPACK));
        Ok(())
    }
}
