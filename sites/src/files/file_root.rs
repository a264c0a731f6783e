//! The tree below a site's root, as control plane and agents both see it.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use cospan_domain::ids::{Digest, RelPath};
use cospan_domain::transfer::file_place::FilePlace;
use rustix::fs::FileType;

use super::open_beneath::{DirectoryHandle, file_kind, none_if_absent};

/// The directory of complete, checked contents, each under its digest.
pub(super) const STORE: &str = "store";
/// The directory of copies that are not in the store yet, `<digest>.<nonce>` each.
pub(super) const INCOMING: &str = "incoming";
/// The directory of files whose digests are being found out.
pub(super) const INSPECT: &str = "inspect";
/// The directory of what is being removed.
pub(super) const TRASH: &str = "trash";
/// The directory of budgets of links, one file per site that copies come from.
pub(super) const LINKS: &str = "links";
/// The directory of users' files.
pub(crate) const FILES: &str = "files";
/// The directory in which an attempt works, below its own.
pub const WORK: &str = "work";

/// All directories of ours below the root.
pub(crate) const OURS: [&str; 6] = [STORE, INCOMING, INSPECT, TRASH, LINKS, FILES];

const GATE: &str = "gate";
const GATE_MAX: Duration = Duration::from_secs(5);

/// A site's root held open for one operation. The control plane never keeps it open longer:
/// otherwise it would not notice that the root was moved away.
#[derive(Debug)]
pub(super) struct OpenSiteRoot(DirectoryHandle);

/// The lock for looking at the state of copies or changing it; released when dropped.
#[derive(Debug)]
pub(super) struct CopyStateLock {
    _locked: File,
}

impl OpenSiteRoot {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        DirectoryHandle::open(path).map(Self)
    }

    /// Makes our directories where they are missing, durably.
    pub(super) fn make_directories(&self) -> io::Result<()> {
        OURS.iter().try_for_each(|name| self.0.make_dir(*name))?;
        self.0.sync_names()
    }

    pub(super) fn open_own_dir(&self, name: &str) -> io::Result<DirectoryHandle> {
        self.0.open_dir(name).map_err(|error| {
            io::Error::new(error.kind(), format!("its directory {name:?}: {error}"))
        })
    }

    /// Waits for the turn to look at the state of copies or change it. Turns are short; a timeout
    /// says nothing about the copies.
    pub(super) fn lock_copy_state(&self) -> io::Result<CopyStateLock> {
        let gate = self.open_own_dir(INCOMING)?.open_to_write(GATE)?;
        let started = Instant::now();
        loop {
            match gate.try_lock() {
                Ok(()) => return Ok(CopyStateLock { _locked: gate }),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if started.elapsed() > GATE_MAX => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!("{INCOMING}/{GATE} is held by somebody for too long"),
                    ));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(500)),
            }
        }
    }

    /// Opens a file or directory at any kind of place.
    pub(super) fn open_place(&self, attempts: &str, place: &FilePlace) -> io::Result<File> {
        match place {
            FilePlace::Store(digest) => {
                let store = self.open_own_dir(STORE)?;
                store.open_to_read(digest.to_string())
            }
            FilePlace::User(path) => self.open_own_dir(FILES)?.open_beneath(path.as_str()),
            FilePlace::Output(tag, path) => {
                let attempt = self.open_own_dir(attempts)?.open_dir(tag.to_string())?;
                attempt.open_dir(WORK)?.open_beneath(path.as_str())
            }
        }
    }

    /// Opens a file by its path below the root; no link is followed.
    pub(super) fn open_own_file(&self, path: &RelPath) -> io::Result<File> {
        self.0.open_without_links(path.as_str())
    }

    /// Returns true if the store has a content.
    pub(super) fn has_content(&self, digest: Digest) -> io::Result<bool> {
        Ok(self
            .open_own_dir(STORE)?
            .find_name(digest.to_string())?
            .is_some())
    }

    /// Takes a name out of one of our directories at once; [`OpenSiteRoot::empty_trash`] removes
    /// what it stood for. `false` if it is not there. The caller must have the gate.
    pub(super) fn move_to_trash(&self, family: &str, name: &str) -> io::Result<bool> {
        let from = self.open_own_dir(family)?;
        let trash = self.open_own_dir(TRASH)?;
        let Some(stat) = from.find_name(name)? else {
            return Ok(false);
        };
        if file_kind(&stat) == FileType::Directory {
            // Moving a directory takes the right to write to it.
            from.ensure_dir(name)?;
        }
        for number in 0_u32.. {
            let aside = format!("{family}.{name}.{number}");
            if trash.find_name(&aside[..])?.is_none() {
                let moved = none_if_absent(from.rename(name, &trash, &aside[..]))?;
                from.sync_names()?;
                return Ok(moved.is_some());
            }
        }
        Ok(false)
    }

    /// Removes what was discarded under a name, in whatever state it is.
    pub(super) fn empty_trash(&self, family: &str, name: &str) -> io::Result<()> {
        let trash = self.open_own_dir(TRASH)?;
        let prefix = format!("{family}.{name}.");
        let names = trash.list_names()?;
        let ours = names
            .iter()
            .filter(|entry| entry.to_string_lossy().starts_with(&prefix));
        // One that stays must not keep the others.
        ours.map(|entry| trash.remove_tree(&entry[..]))
            .fold(Ok(()), io::Result::and)
    }
}
