//! Directories of a site of this machine, listed and read piece by piece for another site.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;

use cospan_domain::transfer::file_place::FilePlace;
use rustix::fs::FileType;

use super::agent::tree_mover::is_executable;
use super::file_area::FileArea;
use super::open_beneath::{DirectoryHandle, file_kind};
use super::tree_pieces::{DirectoryListing, FileByteRun, ListingEntry, ListingEntryKind};
use super::tree_walk::{DirectoryWalk, DirectoryWalkError, ENTRIES_MAX, WalkStep, is_directory};
use crate::port::SiteError;

impl FileArea {
    /// See [`crate::port::SiteFiles::list`].
    ///
    /// # Errors
    /// `Refused` if there is nothing, or something that cannot be content.
    pub fn list_directory(&self, place: &FilePlace) -> Result<Option<DirectoryListing>, SiteError> {
        let Some(directory) = self.open_directory(place)? else {
            return Ok(None);
        };
        DirectoryListing::new(
            collect_leaves(directory)
                .map_err(|error| SiteError::Refused(format!("cannot list it: {error}")))?,
        )
        .map(Some)
    }

    /// See [`super::RootedFiles::read_runs`].
    ///
    /// # Errors
    /// `Refused` if a file is not there any more, or is shorter.
    pub fn read_runs(&self, place: &FilePlace, runs: &[FileByteRun]) -> Result<Vec<u8>, SiteError> {
        let directory = self.open_directory(place)?;
        let directory = directory.ok_or_else(|| read_refusal(place, &"it is no directory"))?;
        let mut bytes = Vec::new();
        for run in runs {
            let read = directory.open_without_links(&run.path).and_then(|file| {
                let from = bytes.len();
                bytes.resize(from + run.length as usize, 0);
                file.read_exact_at(&mut bytes[from..], run.offset)
            });
            read.map_err(|error| {
                let path = String::from_utf8_lossy(&run.path);
                read_refusal(place, &format!("{path:?}: {error}"))
            })?;
        }
        Ok(bytes)
    }

    fn open_directory(&self, place: &FilePlace) -> Result<Option<DirectoryHandle>, SiteError> {
        let file: io::Result<File> = self.open_root()?.open_place(&self.config.attempts, place);
        let file = file.map_err(|error| read_refusal(place, &error))?;
        let metadata = file.metadata();
        let is_dir = metadata
            .map_err(|error| read_refusal(place, &error))?
            .is_dir();
        Ok(is_dir.then(|| DirectoryHandle::from_file(file)))
    }
}

fn read_refusal(place: &FilePlace, why: &dyn std::fmt::Display) -> SiteError {
    SiteError::Refused(format!("cannot read {place:?}: {why}"))
}

/// Lists what is below a directory. No link is followed.
fn collect_leaves(top: DirectoryHandle) -> Result<Vec<ListingEntry>, DirectoryWalkError> {
    let mut walk = DirectoryWalk::new(top, ENTRIES_MAX)?;
    let mut leaves = Vec::new();
    while let Some(step) = walk.next_step()? {
        let WalkStep::Found(name, stat) = step else {
            walk.leave_current()?;
            continue;
        };
        let found = match file_kind(&stat) {
            FileType::Directory => ListingEntryKind::Directory,
            FileType::RegularFile => ListingEntryKind::File {
                executable: is_executable(&stat),
                size: stat.st_size.unsigned_abs(),
            },
            FileType::Symlink => ListingEntryKind::Link(walk.read_link(&name)?.into_vec()),
            _ => {
                let shown = String::from_utf8_lossy(walk.path());
                let why = format!("{shown:?} is neither file, directory nor link; take it away");
                return Err(io::Error::other(why).into());
            }
        };
        leaves.push(ListingEntry {
            path: walk.path().to_vec(),
            kind: found,
        });
        if is_directory(&stat) {
            walk.enter_found(&name)?;
        }
    }
    Ok(leaves)
}
