//! A copy, from the request to the store.
//!
//! Everything arrives under the task's own directory. It gets its name in the store by one
//! rename, after its digest was found right and it was flushed to the disk: at no moment is
//! anything in the store incomplete.

use std::fs::File;
use std::sync::Arc;

use cospan_domain::content::Content;
use cospan_domain::units::BitsPerSecond;
use rustix::fs::FileType;

use super::OpenCopySource;
use super::mover::{FileMover, MovedFileContent, open_copy};
use super::stall_watch::{CopyThreadPhase, CopyThreadState};
use super::task_error::{AgentTaskError, BlameCopyEnd};
use super::tree_mover::{SEALED_EXECUTABLE, move_tree};
use crate::files::agent_messages::CopyAgentRequest;
use crate::files::agent_task::{AgentTaskDirectory, DATA};
use crate::files::file_root::{INCOMING, LINKS, OpenSiteRoot, STORE};
use crate::files::open_beneath::{DirectoryHandle, file_kind};
use crate::files::shared_bandwidth::BandwidthLimiter;

/// A copy in progress.
pub(super) struct RunningCopy<'a> {
    pub(super) root: &'a OpenSiteRoot,
    pub(super) task: &'a AgentTaskDirectory,
    /// The name of the task.
    pub(super) name: &'a str,
    pub(super) order: &'a CopyAgentRequest,
    pub(super) wanted: Content,
    /// For a part of a file: what that file is, and the first byte of the part.
    pub(super) cut: Option<(Content, u64)>,
    pub(super) watch: Arc<CopyThreadState>,
}

impl RunningCopy<'_> {
    /// Brings the content beside the store, complete, checked and flushed. Builds on
    /// what an earlier try left. If the result is wrong, that may be to blame, so
    /// tries once more from nothing.
    pub(super) fn bring_content(&self) -> Result<(), AgentTaskError> {
        if self
            .root
            .has_content(self.wanted.digest)
            .at_destination("looking into the store")?
        {
            return Ok(());
        }
        let source = &OpenCopySource::open_source(self.order)?;
        self.check_size(source)?;
        self.check_space()?;
        let mut mover = self.make_mover()?;
        let mut moved = self.copy_once(source, &mut mover)?;
        if !self.is_wanted_content(moved) && mover.resumed {
            self.task
                .dir
                .remove_tree(DATA)
                .at_destination("dropping what is wrong")?;
            self.watch.reset_count();
            mover = self.make_mover()?;
            moved = self.copy_once(source, &mut mover)?;
        }
        if self.is_wanted_content(moved) {
            return Ok(());
        }
        // A wrong file is of no use to the next try.
        self.task
            .dir
            .remove_tree(DATA)
            .at_destination("dropping what is wrong")?;
        let file = self.source_content();
        Err(AgentTaskError::blaming_source(format_args!(
            "it is not the expected content: {} bytes with digest {} instead of {} with {}",
            moved.size, moved.digest, file.size.0, file.digest
        )))
    }

    /// Returns what the source has to be.
    fn source_content(&self) -> Content {
        self.cut.map_or(self.wanted, |(file, _)| file)
    }

    fn is_wanted_content(&self, moved: MovedFileContent) -> bool {
        let file = self.source_content();
        moved
            == MovedFileContent {
                digest: file.digest,
                size: file.size.0,
            }
    }

    fn make_mover(&self) -> Result<FileMover, AgentTaskError> {
        let limiter = self.order.limit.as_ref().map(|limit| {
            let budget = self
                .root
                .open_own_dir(LINKS)?
                .open_to_write(&limit.link[..])?;
            BandwidthLimiter::new(budget, BitsPerSecond(limit.bits_per_second))
        });
        let limiter = limiter
            .transpose()
            .at_destination("finding the link's budget")?;
        Ok(FileMover::new(
            self.watch.clone(),
            limiter,
            self.source_content().size.0,
        ))
    }

    fn copy_once(
        &self,
        source: &OpenCopySource,
        mover: &mut FileMover,
    ) -> Result<MovedFileContent, AgentTaskError> {
        match source {
            OpenCopySource::File(from) => self.copy_file_once(from, mover),
            OpenCopySource::Directory(_) if self.cut.is_some() => Err(
                AgentTaskError::blaming_source("it is a directory, and was to be read in chunks"),
            ),
            OpenCopySource::Directory(from) => self.copy_directory_once(from, mover),
        }
    }

    fn copy_file_once(
        &self,
        from: &File,
        mover: &mut FileMover,
    ) -> Result<MovedFileContent, AgentTaskError> {
        match self.cut {
            None => self.drop_other_kind(FileType::RegularFile)?,
            // Nothing says whether an earlier try took its bytes from the right file.
            Some(_) => self.drop_earlier_copy()?,
        }
        let length = i64::try_from(self.wanted.size.0).unwrap_or(i64::MAX);
        let data = open_copy(&self.task.dir, DATA, length).at_destination("opening the copy")?;
        let moved = match self.cut {
            None => mover.move_file(from, Some(&data), "the file")?,
            Some((_, offset)) => {
                let run = offset..offset.saturating_add(self.wanted.size.0);
                mover.move_run(from, &data, run, "the file")?
            }
        };
        self.watch.begin_step(CopyThreadPhase::Free);
        rustix::fs::fchmod(&data, SEALED_EXECUTABLE)
            .map_err(Into::into)
            .at_destination("sealing")?;
        data.sync_all().at_destination("flushing the copy")?;
        let length = data.metadata().at_destination("measuring the copy")?.len();
        if length != self.wanted.size.0 && self.is_wanted_content(moved) {
            return Err(AgentTaskError::blaming_destination(
                "somebody else wrote to the copy",
            ));
        }
        Ok(moved)
    }

    fn copy_directory_once(
        &self,
        from: &DirectoryHandle,
        mover: &mut FileMover,
    ) -> Result<MovedFileContent, AgentTaskError> {
        self.drop_other_kind(FileType::Directory)?;
        let data = self
            .task
            .dir
            .ensure_dir(DATA)
            .at_destination("opening the copy")?;
        let from = from.reopen().at_source("opening it")?;
        let to = data.reopen().at_destination("opening the copy")?;
        let moved = move_tree(mover, from, Some(to))?;
        self.watch.begin_step(CopyThreadPhase::Free);
        // One flush of the file system costs less than one per file.
        data.sync_file_system()
            .at_destination("flushing the copy")?;
        Ok(moved)
    }

    /// Drops what an earlier try left if it is of another kind.
    fn drop_other_kind(&self, wanted: FileType) -> Result<(), AgentTaskError> {
        let dir = &self.task.dir;
        match dir
            .find_name(DATA)
            .at_destination("looking for an earlier try")?
        {
            Some(stat) if file_kind(&stat) != wanted => {
                dir.remove_tree(DATA).at_destination("dropping")
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Drops what an earlier try left.
    fn drop_earlier_copy(&self) -> Result<(), AgentTaskError> {
        let dir = &self.task.dir;
        match dir
            .find_name(DATA)
            .at_destination("looking for an earlier try")?
        {
            Some(_) => dir.remove_tree(DATA).at_destination("dropping"),
            None => Ok(()),
        }
    }

    /// Refuses a file of another length without reading it.
    fn check_size(&self, source: &OpenCopySource) -> Result<(), AgentTaskError> {
        let OpenCopySource::File(file) = source else {
            return Ok(());
        };
        let length = file.metadata().at_source("measuring the file")?.len();
        let wanted = self.source_content().size.0;
        if length == wanted {
            return Ok(());
        }
        Err(AgentTaskError::blaming_source(format_args!(
            "it has {length} bytes instead of {wanted}"
        )))
    }

    /// Refuses a copy that cannot fit before it fills the disk for everybody.
    fn check_space(&self) -> Result<(), AgentTaskError> {
        let free = self
            .task
            .dir
            .free_bytes()
            .at_destination("asking for free space")?;
        let present = match self
            .task
            .dir
            .find_name(DATA)
            .at_destination("looking for an earlier try")?
        {
            Some(stat) if file_kind(&stat) == FileType::RegularFile => stat.st_size.unsigned_abs(),
            // An incomplete tree of an earlier try is not worth counting.
            Some(_) => self.wanted.size.0,
            None => 0,
        };
        let needed = self.wanted.size.0.saturating_sub(present);
        if needed <= free {
            return Ok(());
        }
        Err(AgentTaskError::blaming_destination(format_args!(
            "No space left on device: {needed} bytes are needed, {free} are free"
        )))
    }

    /// Gives the content its name in the store, and takes the task away. Nothing may write to the
    /// task's directory any more.
    pub(super) fn commit_copy(&self) -> Result<(), AgentTaskError> {
        let gate = self
            .root
            .lock_copy_state()
            .at_destination("waiting for the turn to finish")?;
        let store = self
            .root
            .open_own_dir(STORE)
            .at_destination("opening the store")?;
        let name = self.wanted.digest.to_string();
        if !self
            .root
            .has_content(self.wanted.digest)
            .at_destination("looking into the store")?
        {
            self.task
                .dir
                .rename(DATA, &store, &name[..])
                .at_destination("renaming")?;
            make_read_only(&store, &name).at_destination("sealing")?;
            store.sync_names().at_destination("flushing the store")?;
        }
        self.root
            .move_to_trash(INCOMING, self.name)
            .at_destination("taking the task away")?;
        drop(gate);
        // The content is there; a sweep removes what cannot be removed now.
        let _ = self.root.empty_trash(INCOMING, self.name);
        Ok(())
    }
}

/// Takes away the right to write to a directory; without it, it could not be moved.
fn make_read_only(store: &DirectoryHandle, name: &str) -> std::io::Result<()> {
    if file_kind(&store.stat(name)?) == FileType::Directory {
        store.open_dir(name)?.set_mode(SEALED_EXECUTABLE)?;
    }
    Ok(())
}
