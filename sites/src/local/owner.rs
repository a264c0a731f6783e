//! Whose a site's root is: of one control plane at a time, for each counts the processors for
//! itself.
//!
//! The file `owner` below the root is locked for as long as its process lives, and names it. The
//! lock of a process that died is free at once. Over a network file system a lock may not be seen
//! from elsewhere: there the name counts.

use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cospan_domain::ids::InstanceId;

use super::root::Root;
use super::spawn::install_script;
use super::{Shared, not_done};
use crate::port::SiteError;

const OWNER: &str = "owner";
/// A process that was killed may be about to let go.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// The root that is ours, if one is.
#[derive(Debug, Default)]
pub(super) struct Hold(Mutex<Option<Held>>);

#[derive(Debug)]
struct Held {
    /// Locked for as long as it is open.
    _file: File,
    identity: (u64, u64),
}

/// Who has a root, as the file says.
#[derive(Debug, PartialEq, Eq)]
struct Owner {
    instance: String,
    host: String,
    pid: u32,
}

impl Owner {
    fn ours(instance: InstanceId) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = if host.trim().is_empty() { "localhost" } else { host.trim() }.to_owned();
        Self { instance: instance.to_string(), host, pid: std::process::id() }
    }

    fn read(file: &File) -> io::Result<Option<Self>> {
        let (mut text, mut file) = (String::new(), file);
        // From its beginning: it was just opened, or is another's.
        file.read_to_string(&mut text)?;
        let word = |name| text.lines().find_map(|line| line.strip_prefix(name));
        let parsed = || {
            let (instance, host) = (word("instance ")?.to_owned(), word("host ")?.to_owned());
            Some(Self { instance, host, pid: word("pid ")?.parse().ok()? })
        };
        Ok(parsed())
    }

    fn write(&self, file: &File) -> io::Result<()> {
        let text = format!("instance {}\nhost {}\npid {}\n", self.instance, self.host, self.pid);
        file.set_len(0)?;
        file.write_all_at(text.as_bytes(), 0)?;
        file.sync_all()
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "control plane {} on host {} (process {})", self.instance, self.host, self.pid)
    }
}

impl Shared {
    /// Sees to it that the root is ours alone and has a whole wrapper, and finishes what a removal
    /// left that was cut off when it last was somebody's.
    ///
    /// # Errors
    /// `NotSent` if it is another's, with both names and the remedy.
    pub(super) fn hold(&self, root: &Root) -> Result<(), SiteError> {
        let Some(instance) = self.config.owner else { return Ok(()) };
        let mut held = self.hold.0.lock().unwrap_or_else(PoisonError::into_inner);
        let there = root.identity(OWNER).map_err(|e| not_done(&e))?;
        if there.is_some() && held.as_ref().map(|held| held.identity) == there {
            return Ok(());
        }
        // Another root is in its place, or none was held.
        *held = None;
        *held = Some(self.take(root, &Owner::ours(instance))?);
        install_script(root).map_err(|e| not_done(&e))?;
        let (gone, left) = root.left_gone().map_err(|e| not_done(&e))?;
        self.sweeper.remove(gone, left).map_err(|e| not_done(&e))
    }

    fn take(&self, root: &Root, ours: &Owner) -> Result<Held, SiteError> {
        let file = root.open_or_make(OWNER).map_err(|e| not_done(&e))?;
        let is_free = lock(&file).map_err(|e| not_done(&e))?;
        let owner = Owner::read(&file).map_err(|e| not_done(&e))?;
        let place = self.config.root.display();
        match owner {
            None if !is_free => Err(SiteError::NotSent(format!(
                "its root {place} is in use by another process; this is {ours}; stop the other, or \
                 give each a root of its own"
            ))),
            Some(owner) if !is_free => Err(SiteError::NotSent(format!(
                "its root {place} is in use by {owner}; this is {ours}; two would use the same \
                 processors: stop the other, or give each a root of its own"
            ))),
            Some(owner) if owner.instance != ours.instance && owner.host != ours.host => {
                Err(SiteError::NotSent(format!(
                    "its root {place} is that of {owner}; this is {ours}; stop the other for good \
                     and remove {place}/{OWNER}, or give each a root of its own"
                )))
            }
            _ => {
                ours.write(&file).map_err(|e| not_done(&e))?;
                let found = file.metadata().map_err(|e| not_done(&e))?;
                Ok(Held { _file: file, identity: (found.dev(), found.ino()) })
            }
        }
    }
}

/// Locks a file; `false` if another has it.
fn lock(file: &File) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if begun.elapsed() >= LOCK_WAIT => return Ok(false),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            // Where there are no locks, the name counts.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                return Ok(true);
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
