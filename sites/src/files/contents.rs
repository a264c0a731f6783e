//! The content store, the remains beside it, and reading pieces of files.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use cospan_domain::ids::{Digest, RelPath};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;

use super::agent_task::AgentTaskDirectory;
use super::file_area::FileArea;
use super::file_root::{INCOMING, INSPECT, OpenSiteRoot, STORE, TRASH};
use crate::port::{FileExcerpt, SiteError};

/// The most bytes of one piece.
pub const PIECE_MAX_BYTES: u32 = 4 << 20;

impl FileArea {
    /// Returns true if the store has a content. Whatever is there is complete: it was checked
    /// before it got its name, and loses its name before it is taken apart.
    ///
    /// # Errors
    /// `NotSent` if that cannot be found out.
    pub fn has_content(&self, digest: Digest) -> Result<bool, SiteError> {
        let root = self.open_root()?;
        // A content that was just renamed into place counts once the agent has made that durable.
        let _gate = self.lock_copy_state(&root)?;
        root.has_content(digest)
            .map_err(|error| self.area_error("look into the store", &error))
    }

    /// Deletes a content; a missing one is no error. Takes as long as removing takes, but from the
    /// first moment on the content is gone as a whole.
    ///
    /// # Errors
    /// `NotSent`: it is still there. `OutcomeUnknown`: call again.
    pub fn delete_content(&self, digest: Digest) -> Result<(), SiteError> {
        let root = self.open_root()?;
        let name = digest.to_string();
        let gate = self.lock_copy_state(&root)?;
        root.move_to_trash(STORE, &name)
            .map_err(|error| self.area_error("delete a content", &error))?;
        drop(gate);
        root.empty_trash(STORE, &name).map_err(|error| {
            SiteError::OutcomeUnknown(format!("{name} is deleted, its space is not free: {error}"))
        })
    }

    /// Lists all contents in the store.
    ///
    /// # Errors
    /// `NotSent` if it cannot be read.
    pub fn list_contents(&self) -> Result<BTreeSet<Digest>, SiteError> {
        let names = self
            .open_root()?
            .open_own_dir(STORE)
            .and_then(|store| store.list_names());
        let names = names.map_err(|error| self.area_error("list the store", &error))?;
        Ok(names
            .iter()
            .filter_map(|name| name.to_str()?.parse().ok())
            .collect())
    }

    /// Lists all copies that left something outside the store, by digest and nonce.
    ///
    /// # Errors
    /// `NotSent` if they cannot be listed.
    pub fn list_copies(&self) -> Result<Vec<(Digest, String)>, SiteError> {
        self.unfinished_copies(&self.open_root()?)
    }

    fn unfinished_copies(&self, root: &OpenSiteRoot) -> Result<Vec<(Digest, String)>, SiteError> {
        let names = root
            .open_own_dir(INCOMING)
            .and_then(|incoming| incoming.list_names());
        let names = names.map_err(|error| self.area_error("list copies", &error))?;
        Ok(names
            .iter()
            .filter_map(|name| {
                let (digest, nonce) = name.to_str()?.split_once('.')?;
                Some((digest.parse().ok()?, nonce.to_owned()))
            })
            .collect())
    }

    /// Stops and removes every copy whose nonce starts with `ours` and is not among the live ones,
    /// every finished inspection, and what an earlier deletion did not get to. Copies of other
    /// control planes stay. Returns how many copies it removed.
    ///
    /// # Errors
    /// The first one; the rest is done all the same.
    pub fn sweep_remains(&self, ours: &str, live: &BTreeSet<String>) -> Result<usize, SiteError> {
        let root = self.open_root()?;
        let mut results = vec![self.sweep_trash(&root), self.sweep_inspections(&root)];
        let mut removed = 0;
        for (digest, nonce) in self.unfinished_copies(&root)? {
            if nonce.starts_with(ours) && !live.contains(&nonce) {
                results.push(self.stop_task(&root, INCOMING, &format!("{digest}.{nonce}"), true));
                removed += 1;
            }
        }
        results
            .into_iter()
            .collect::<Result<(), _>>()
            .map(|()| removed)
    }

    fn sweep_trash(&self, root: &OpenSiteRoot) -> Result<(), SiteError> {
        let swept = root.open_own_dir(TRASH).and_then(|trash| {
            trash
                .list_names()?
                .iter()
                .try_for_each(|name| trash.remove_tree(&name[..]))
        });
        swept.map_err(|error| self.area_error("empty the trash", &error))
    }

    fn sweep_inspections(&self, root: &OpenSiteRoot) -> Result<(), SiteError> {
        let _gate = self.lock_copy_state(root)?;
        sweep_finished(root).map_err(|error| self.area_error("sweep inspections", &error))
    }

    /// Reads a piece of a file: at most `limit` bytes and [`PIECE_MAX_BYTES`].
    ///
    /// # Errors
    /// `Refused` if there is no such file, it is no file, or its path leads out.
    pub fn read_piece(
        &self,
        place: &FilePlace,
        offset: Bytes,
        limit: u32,
    ) -> Result<FileExcerpt, SiteError> {
        let root = self.open_root()?;
        let file = root.open_place(&self.config.attempts, place);
        self.read_piece_of(file, &format!("{place:?}"), offset, limit)
    }

    /// Reads a piece of a file of ours, by its path below the root; no link is followed.
    ///
    /// # Errors
    /// As [`FileArea::read_piece`].
    pub fn read_own_piece(
        &self,
        path: &RelPath,
        offset: Bytes,
        limit: u32,
    ) -> Result<FileExcerpt, SiteError> {
        let file = self.open_root()?.open_own_file(path);
        self.read_piece_of(file, path.as_str(), offset, limit)
    }

    fn read_piece_of(
        &self,
        file: io::Result<File>,
        what: &str,
        offset: Bytes,
        limit: u32,
    ) -> Result<FileExcerpt, SiteError> {
        let file = file.map_err(|error| read_refusal(what, &error))?;
        let meta = file
            .metadata()
            .map_err(|error| read_refusal(what, &error))?;
        if !meta.is_file() {
            return Err(read_refusal(what, &"it is not a file"));
        }
        let mut bytes = vec![0; limit.min(PIECE_MAX_BYTES) as usize];
        let mut length = 0;
        if offset.0 >= meta.len() {
            bytes.clear();
        }
        while let Some(space) = bytes.get_mut(length..).filter(|space| !space.is_empty()) {
            match file.read_at(space, offset.0.saturating_add(length as u64)) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(SiteError::NotSent(format!("reading {what}: {error}"))),
            }
        }
        bytes.truncate(length);
        Ok(FileExcerpt {
            bytes,
            size: Bytes(meta.len()),
        })
    }
}

fn sweep_finished(root: &OpenSiteRoot) -> io::Result<()> {
    for name in root.open_own_dir(INSPECT)?.list_names()? {
        let name = name.to_string_lossy();
        let is_finished = match AgentTaskDirectory::open_task(root, INSPECT, &name)? {
            Some(task) => task.try_lock()?.is_some(),
            None => false,
        };
        if is_finished {
            root.move_to_trash(INSPECT, &name)?;
            root.empty_trash(INSPECT, &name)?;
        }
    }
    Ok(())
}

fn read_refusal(what: &str, why: &dyn std::fmt::Display) -> SiteError {
    SiteError::Refused(format!("cannot read {what}: {why}"))
}
