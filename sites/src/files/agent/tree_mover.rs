//! Moves a directory, and lists it in its manifest on the way.
//!
//! Both sides are walked by directories held open, one name at a time, and no link is ever
//! followed: whatever is swapped while this runs, nothing outside is read or written.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{FileType, Mode, Stat};

use super::mover::{FileMover, MovedFileContent, open_copy};
use super::stall_watch::CopyThreadPhase;
use super::task_error::{AgentTaskError, BlameCopyEnd};
use crate::files::manifest::{self, ManifestEntry, ManifestEntryKind};
use crate::files::open_beneath::{DirectoryHandle, file_kind};
use crate::files::tree_walk::{DirectoryWalk, DirectoryWalkPosition, ENTRIES_MAX, WalkStep};

/// The mode of executable files and directories in the store.
pub(super) const SEALED_EXECUTABLE: Mode = Mode::from_bits_truncate(0o555);
const SEALED: Mode = Mode::from_bits_truncate(0o444);

/// Reads a directory to its end and, with a destination, brings that to the same content; the
/// destination's own mode is left to the caller.
pub(super) fn move_tree(
    mover: &mut FileMover,
    from: DirectoryHandle,
    to: Option<DirectoryHandle>,
) -> Result<MovedFileContent, AgentTaskError> {
    let walk = DirectoryWalk::new(from, ENTRIES_MAX).map_err(AgentTaskError::blaming_source)?;
    let to = to.map(DirectoryWalkPosition::new);
    let mut copying = DirectoryCopy {
        mover,
        walk,
        to,
        entries: Vec::new(),
        size: 0,
    };
    copying.drop_vanished_names()?;
    copying.copy_entries()?;
    let DirectoryCopy { entries, size, .. } = copying;
    manifest::check_links(entries.iter().filter_map(ManifestEntry::link_target))
        .map_err(AgentTaskError::blaming_source)?;
    Ok(MovedFileContent {
        digest: manifest::digest_entries(entries),
        size,
    })
}

struct DirectoryCopy<'a> {
    mover: &'a mut FileMover,
    walk: DirectoryWalk,
    to: Option<DirectoryWalkPosition>,
    entries: Vec<ManifestEntry>,
    size: u64,
}

impl DirectoryCopy<'_> {
    fn copy_entries(&mut self) -> Result<(), AgentTaskError> {
        while let Some(step) = self
            .walk
            .next_step()
            .map_err(AgentTaskError::blaming_source)?
        {
            self.mover.watch().check_stop()?;
            self.mover.watch().begin_step(CopyThreadPhase::Reading);
            match step {
                WalkStep::Found(name, stat) => self.copy_entry(&name, file_kind(&stat))?,
                WalkStep::Leaves => self.leave_directory()?,
            }
        }
        Ok(())
    }

    /// Drops names that an earlier try copied and the source no longer has.
    fn drop_vanished_names(&self) -> Result<(), AgentTaskError> {
        let Some(to) = &self.to else { return Ok(()) };
        let present = to
            .current_dir()
            .list_names()
            .at_destination(self.shown_path())?;
        present
            .iter()
            .filter(|name| !self.walk.has_name(name))
            .try_for_each(|name| to.current_dir().remove_tree(&name[..]))
            .at_destination(self.shown_path())
    }

    fn copy_entry(&mut self, name: &OsStr, found: FileType) -> Result<(), AgentTaskError> {
        self.drop_other_kind(name, found)?;
        match found {
            FileType::Directory => self.enter_directory(name),
            FileType::RegularFile => self.copy_file(name),
            FileType::Symlink => self.copy_link(name),
            other => Err(AgentTaskError::blaming_source(format_args!(
                "{} is neither file, directory nor link but {other:?}; take it away",
                self.shown_path()
            ))),
        }
    }

    fn drop_other_kind(&self, name: &OsStr, wanted: FileType) -> Result<(), AgentTaskError> {
        let Some(to) = &self.to else { return Ok(()) };
        match to
            .current_dir()
            .find_name(name)
            .at_destination(self.shown_path())?
        {
            Some(stat) if file_kind(&stat) != wanted => to
                .current_dir()
                .remove_tree(name)
                .at_destination(self.shown_path()),
            Some(_) | None => Ok(()),
        }
    }

    fn enter_directory(&mut self, name: &OsStr) -> Result<(), AgentTaskError> {
        self.entries.push(ManifestEntry {
            path: self.walk.path().to_vec(),
            kind: ManifestEntryKind::Directory,
        });
        let shown = self.shown_path();
        self.walk
            .enter_found(name)
            .map_err(AgentTaskError::blaming_source)?;
        if let Some(to) = &mut self.to {
            let below = to.current_dir().ensure_dir(name);
            below
                .and_then(|below| to.enter_dir(below))
                .at_destination(shown)?;
        }
        self.drop_vanished_names()
    }

    fn leave_directory(&mut self) -> Result<(), AgentTaskError> {
        let shown = self.shown_path();
        self.walk.leave_current().at_source(&shown)?;
        let Some(to) = &mut self.to else {
            return Ok(());
        };
        to.current_dir()
            .set_mode(SEALED_EXECUTABLE)
            .at_destination(&shown)?;
        to.leave_dir().at_destination(&shown)
    }

    fn copy_file(&mut self, name: &OsStr) -> Result<(), AgentTaskError> {
        let shown = self.shown_path();
        let source = self
            .walk
            .current_dir()
            .open_to_read(name)
            .at_source(&shown)?;
        // Only what was opened counts: the name may have stood for something else a moment ago.
        let stat = rustix::fs::fstat(&source)
            .map_err(Into::into)
            .at_source(&shown)?;
        if file_kind(&stat) != FileType::RegularFile {
            return Err(AgentTaskError::blaming_source(format_args!(
                "{shown} changed while it was read"
            )));
        }
        let executable = is_executable(&stat);
        let moved = match &self.to {
            None => self.mover.move_file(&source, None, &shown)?,
            Some(to) => {
                let copy =
                    open_copy(to.current_dir(), name, stat.st_size).at_destination(&shown)?;
                let moved = self.mover.move_file(&source, Some(&copy), &shown)?;
                let mode = if executable {
                    SEALED_EXECUTABLE
                } else {
                    SEALED
                };
                rustix::fs::fchmod(&copy, mode)
                    .map_err(Into::into)
                    .at_destination(&shown)?;
                moved
            }
        };
        self.size = self.size.saturating_add(moved.size);
        let kind = ManifestEntryKind::File {
            executable,
            size: moved.size,
            digest: moved.digest,
        };
        self.entries.push(ManifestEntry {
            path: self.walk.path().to_vec(),
            kind,
        });
        Ok(())
    }

    fn copy_link(&mut self, name: &OsStr) -> Result<(), AgentTaskError> {
        let target = self
            .walk
            .read_link(name)
            .map_err(AgentTaskError::blaming_source)?;
        if let Some(to) = &self.to {
            to.current_dir()
                .remove_tree(name)
                .and_then(|()| to.current_dir().make_link(&target[..], name))
                .at_destination(self.shown_path())?;
        }
        let kind = ManifestEntryKind::Link {
            target: target.into_vec(),
        };
        self.entries.push(ManifestEntry {
            path: self.walk.path().to_vec(),
            kind,
        });
        Ok(())
    }

    fn shown_path(&self) -> String {
        match self.walk.path() {
            [] => "the directory".to_owned(),
            path => format!("{:?}", String::from_utf8_lossy(path)),
        }
    }
}

/// Returns true if somebody may execute it.
pub(in crate::files) fn is_executable(stat: &Stat) -> bool {
    stat.st_mode & 0o111 != 0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    use super::*;
    use crate::files::agent::stall_watch::CopyThreadState;
    use crate::files::agent_messages::WrittenCopyBlame;

    fn read_tree(root: &DirectoryHandle) -> Result<MovedFileContent, AgentTaskError> {
        let mut mover = FileMover::new(Arc::new(CopyThreadState::default()), None, u64::MAX);
        move_tree(&mut mover, root.reopen().unwrap(), None)
    }

    /// Ends the exchanging thread also when a check fails.
    struct EndWhenDropped<'a>(&'a AtomicBool);

    impl Drop for EndWhenDropped<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }

    #[test]
    fn a_directory_swapped_for_a_link_between_two_looks_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let at = |path: &str| place.path().join(path);
        for (directory, content) in [("root/d", "inside"), ("outside", "secret")] {
            std::fs::create_dir_all(at(directory)).unwrap();
            std::fs::write(at(directory).join("x"), content).unwrap();
        }
        std::os::unix::fs::symlink(at("outside"), at("link")).unwrap();
        let root = DirectoryHandle::open(&at("root")).unwrap();
        let honest = read_tree(&root).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _end = EndWhenDropped(&over);
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    renameat_with(CWD, at("root/d"), CWD, at("link"), RenameFlags::EXCHANGE)
                        .unwrap();
                }
            });
            let mut found = 0;
            let mut refused = 0;
            while found < 1000 || refused < 1000 {
                match read_tree(&root) {
                    Ok(moved) => {
                        assert_eq!(moved, honest);
                        found += 1;
                    }
                    Err(trouble) => {
                        assert_eq!(trouble.blame, WrittenCopyBlame::Source);
                        refused += 1;
                    }
                }
            }
        });
    }
}
