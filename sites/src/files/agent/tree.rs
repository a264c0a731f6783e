//! Moves a directory, and lists it in its manifest on the way.
//!
//! Both sides are walked by directories held open, one name at a time, and no
//! link is ever followed: whatever is swapped for what while this runs, nothing
//! outside is read or written.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{FileType, Mode, Stat};

use super::mover::{Moved, Mover, open_copy};
use super::trouble::{At, Trouble};
use super::watch::Phase;
use crate::files::beneath::{Dir, kind};
use crate::files::manifest::{self, Entry, EntryKind};

/// Deepest directory; two open files are needed per level.
pub(in crate::files) const DEPTH_MAX: usize = 128;
/// Most entries of one directory with all below it.
const ENTRIES_MAX: usize = 1_000_000;

/// Modes of what is in the store.
pub(super) const SEALED_EXECUTABLE: Mode = Mode::from_bits_truncate(0o555);
const SEALED: Mode = Mode::from_bits_truncate(0o444);

/// Reads a directory to its end and, with a destination, brings that to the
/// same content; the destination's own mode is left to the caller.
pub(super) fn tree(mover: &mut Mover, from: &Dir, to: Option<&Dir>) -> Result<Moved, Trouble> {
    let mut walk = Walk { mover, path: Vec::new(), entries: Vec::new(), size: 0 };
    walk.directory(from, to, 0)?;
    let Walk { entries, size, .. } = walk;
    manifest::check_links(&entries).map_err(Trouble::source)?;
    Ok(Moved { digest: manifest::digest(entries), size })
}

struct Walk<'a> {
    mover: &'a mut Mover,
    path: Vec<u8>,
    entries: Vec<Entry>,
    size: u64,
}

impl Walk<'_> {
    fn directory(&mut self, from: &Dir, to: Option<&Dir>, depth: usize) -> Result<(), Trouble> {
        if depth > DEPTH_MAX {
            return Err(Trouble::source(format_args!("{} is too deep", self.shown())));
        }
        let names = from.names().at_source(self.shown())?;
        if let Some(to) = to {
            self.drop_foreign(to, &names)?;
        }
        for name in names {
            self.mover.watch().check_stop()?;
            self.mover.watch().enter(Phase::Reading);
            let parent = self.path.len();
            if parent > 0 {
                self.path.push(b'/');
            }
            self.path.extend(name.as_bytes());
            self.entry(from, to, &name, depth)?;
            self.path.truncate(parent);
        }
        Ok(())
    }

    /// An earlier try may have seen names that the source has no more.
    fn drop_foreign(&self, to: &Dir, names: &[OsString]) -> Result<(), Trouble> {
        let present = to.names().at_destination(self.shown())?;
        present
            .iter()
            .filter(|name| names.binary_search(name).is_err())
            .try_for_each(|name| to.remove(&name[..]))
            .at_destination(self.shown())
    }

    fn entry(
        &mut self,
        from: &Dir,
        to: Option<&Dir>,
        name: &OsStr,
        depth: usize,
    ) -> Result<(), Trouble> {
        if self.entries.len() >= ENTRIES_MAX {
            return Err(Trouble::source(format_args!("more than {ENTRIES_MAX} entries")));
        }
        let stat = from.stat(name).at_source(self.shown())?;
        let found = kind(&stat);
        if let Some(to) = to {
            self.drop_other_kind(to, name, found)?;
        }
        match found {
            FileType::Directory => self.subdirectory(from, to, name, depth),
            FileType::RegularFile => self.file(from, to, name),
            FileType::Symlink => self.link(from, to, name),
            other => Err(Trouble::source(format_args!(
                "{} is neither file, directory nor link but {other:?}; take it away",
                self.shown()
            ))),
        }
    }

    fn drop_other_kind(&self, to: &Dir, name: &OsStr, wanted: FileType) -> Result<(), Trouble> {
        match to.find(name).at_destination(self.shown())? {
            Some(stat) if kind(&stat) != wanted => to.remove(name).at_destination(self.shown()),
            Some(_) | None => Ok(()),
        }
    }

    fn subdirectory(
        &mut self,
        from: &Dir,
        to: Option<&Dir>,
        name: &OsStr,
        depth: usize,
    ) -> Result<(), Trouble> {
        self.entries.push(Entry { path: self.path.clone(), kind: EntryKind::Directory });
        let from = from.dir(name).at_source(self.shown())?;
        let to = to.map(|to| to.ensure_dir(name)).transpose().at_destination(self.shown())?;
        self.directory(&from, to.as_ref(), depth + 1)?;
        if let Some(to) = to {
            to.set_mode(SEALED_EXECUTABLE).at_destination(self.shown())?;
        }
        Ok(())
    }

    fn file(&mut self, from: &Dir, to: Option<&Dir>, name: &OsStr) -> Result<(), Trouble> {
        let shown = self.shown();
        let source = from.read(name).at_source(&shown)?;
        // What was opened counts, not what stood there a moment ago.
        let stat = rustix::fs::fstat(&source).map_err(Into::into).at_source(&shown)?;
        if kind(&stat) != FileType::RegularFile {
            return Err(Trouble::source(format_args!("{shown} changed while it was read")));
        }
        let executable = is_executable(&stat);
        let moved = match to {
            None => self.mover.file(&source, None, &shown)?,
            Some(to) => {
                let copy = open_copy(to, name, stat.st_size).at_destination(&shown)?;
                let moved = self.mover.file(&source, Some(&copy), &shown)?;
                let mode = if executable { SEALED_EXECUTABLE } else { SEALED };
                rustix::fs::fchmod(&copy, mode).map_err(Into::into).at_destination(&shown)?;
                moved
            }
        };
        self.size = self.size.saturating_add(moved.size);
        let kind = EntryKind::File { executable, size: moved.size, digest: moved.digest };
        self.entries.push(Entry { path: self.path.clone(), kind });
        Ok(())
    }

    fn link(&mut self, from: &Dir, to: Option<&Dir>, name: &OsStr) -> Result<(), Trouble> {
        let target = from.read_link(name).at_source(self.shown())?;
        if let Some(to) = to {
            let make = || {
                to.remove(name)?;
                to.link_to(&target[..], name)
            };
            make().at_destination(self.shown())?;
        }
        let kind = EntryKind::Link { target: target.into_vec() };
        self.entries.push(Entry { path: self.path.clone(), kind });
        Ok(())
    }

    fn shown(&self) -> String {
        if self.path.is_empty() {
            "the directory".to_owned()
        } else {
            format!("{:?}", String::from_utf8_lossy(&self.path))
        }
    }
}

/// Somebody may execute it.
pub(in crate::files) fn is_executable(stat: &Stat) -> bool {
    stat.st_mode & 0o111 != 0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    use super::*;
    use crate::files::agent::watch::Watch;
    use crate::files::wire::Blame;

    fn read(root: &Dir) -> Result<Moved, Trouble> {
        tree(&mut Mover::new(Arc::new(Watch::default()), None, u64::MAX), root, None)
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
        let root = Dir::open(&at("root")).unwrap();
        let honest = read(&root).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _end = EndWhenDropped(&over);
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    renameat_with(CWD, at("root/d"), CWD, at("link"), RenameFlags::EXCHANGE)
                        .unwrap();
                }
            });
            let (mut found, mut refused) = (0, 0);
            while found < 1000 || refused < 1000 {
                match read(&root) {
                    Ok(moved) => {
                        assert_eq!(moved, honest);
                        found += 1;
                    }
                    Err(trouble) => {
                        assert_eq!(trouble.blame, Blame::Source);
                        refused += 1;
                    }
                }
            }
        });
    }
}
