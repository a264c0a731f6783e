//! The tree below a site's root, as control plane and agents both see it.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use cospan_domain::ids::{Digest, RelPath};
use cospan_domain::transfer::place::FilePlace;
use rustix::fs::FileType;

use super::beneath::{Dir, absent, kind};

/// Whole, checked contents, each under its digest.
pub(super) const STORE: &str = "store";
/// Copies that are not in the store yet, `<digest>.<nonce>` each.
pub(super) const INCOMING: &str = "incoming";
/// Files whose digests are being found out.
pub(super) const INSPECT: &str = "inspect";
/// What is being removed.
pub(super) const TRASH: &str = "trash";
/// Budgets of links, one file per site that copies come from.
pub(super) const LINKS: &str = "links";
/// Users' files.
pub(crate) const FILES: &str = "files";
/// Where an attempt works, below its directory.
pub const WORK: &str = "work";

/// All directories of ours below the root.
pub(crate) const OURS: [&str; 6] = [STORE, INCOMING, INSPECT, TRASH, LINKS, FILES];

const GATE: &str = "gate";
const GATE_MAX: Duration = Duration::from_secs(5);

/// A site's root held open for one operation. It is never held longer by the
/// control plane: a root that was moved away must be missed.
#[derive(Debug)]
pub(super) struct OpenRoot(Dir);

/// Held while state of copies is looked at or changed; gives way when dropped.
#[derive(Debug)]
pub(super) struct CopyGate {
    _locked: File,
}

impl OpenRoot {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Dir::open(path).map(Self)
    }

    /// Makes our directories where they are missing, durably.
    pub(super) fn prepare(&self) -> io::Result<()> {
        OURS.iter().try_for_each(|name| self.0.make_dir(*name))?;
        self.0.sync()
    }

    pub(super) fn sub(&self, name: &str) -> io::Result<Dir> {
        self.0.dir(name).map_err(|error| {
            io::Error::new(error.kind(), format!("its directory {name:?}: {error}"))
        })
    }

    /// Waits for the turn to look at or change state of copies. Turns are short;
    /// that it does not come is no information about anything.
    pub(super) fn gate(&self) -> io::Result<CopyGate> {
        let gate = self.sub(INCOMING)?.write(GATE)?;
        let started = Instant::now();
        loop {
            match gate.try_lock() {
                Ok(()) => return Ok(CopyGate { _locked: gate }),
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

    /// Opens a file or directory at one of the places there are.
    pub(super) fn resolve(&self, attempts: &str, place: &FilePlace) -> io::Result<File> {
        match place {
            FilePlace::Store(digest) => {
                let store = self.sub(STORE)?;
                store.read(digest.to_string())
            }
            FilePlace::User(path) => self.sub(FILES)?.beneath(path.as_str()),
            FilePlace::Output(tag, path) => {
                let attempt = self.sub(attempts)?.dir(tag.to_string())?;
                attempt.dir(WORK)?.beneath(path.as_str())
            }
        }
    }

    /// Opens a file by its path below the root; no link is followed.
    pub(super) fn own_file(&self, path: &RelPath) -> io::Result<File> {
        self.0.beneath_without_links(path.as_str())
    }

    /// Whether the store has a content.
    pub(super) fn has(&self, digest: Digest) -> io::Result<bool> {
        Ok(self.sub(STORE)?.find(digest.to_string())?.is_some())
    }

    /// Takes a name out of one of our directories at once; what it stood for
    /// is removed by [`OpenRoot::empty_trash`]. `false` if it is not there. For
    /// holders of the gate.
    pub(super) fn discard(&self, family: &str, name: &str) -> io::Result<bool> {
        let from = self.sub(family)?;
        let trash = self.sub(TRASH)?;
        let Some(stat) = from.find(name)? else {
            return Ok(false);
        };
        if kind(&stat) == FileType::Directory {
            // Moving a directory takes the right to write to it.
            from.ensure_dir(name)?;
        }
        for number in 0_u32.. {
            let aside = format!("{family}.{name}.{number}");
            if trash.find(&aside[..])?.is_none() {
                let moved = absent(from.rename(name, &trash, &aside[..]))?;
                from.sync()?;
                return Ok(moved.is_some());
            }
        }
        Ok(false)
    }

    /// Removes what was discarded under a name, in whatever state it is.
    pub(super) fn empty_trash(&self, family: &str, name: &str) -> io::Result<()> {
        let trash = self.sub(TRASH)?;
        let prefix = format!("{family}.{name}.");
        let names = trash.names()?;
        let ours = names
            .iter()
            .filter(|entry| entry.to_string_lossy().starts_with(&prefix));
        // One that stays is not to keep the others.
        ours.map(|entry| trash.remove(&entry[..]))
            .fold(Ok(()), io::Result::and)
    }
}
