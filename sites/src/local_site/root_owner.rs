//! The owner of a site's root: one control plane at a time, because each counts
//! the processors for itself.
//!
//! The file `owner` below the root is locked for as long as its process lives, and names it. The
//! lock of a process that died is free at once. Over a network file system a lock may not be seen
//! from elsewhere: there the name counts.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cospan_domain::ids::InstanceId;
use rustix::io::Errno;

use super::attempt_root::VerifiedSiteRoot;
use super::spawn_wrapper::install_wrapper;
use super::{LocalSiteState, attempt_processes, not_done_error};
use crate::port::SiteError;

pub(crate) const OWNER: &str = "owner";
/// The longest wait for the lock: a process that was killed may be about to release it.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// The same when the lock was another's before: every call waits this long, one after the other.
const LOCK_WAIT_AGAIN: Duration = Duration::from_millis(200);

/// The root that we have locked, if any.
#[derive(Debug, Default)]
pub(crate) struct RootLock(Mutex<RootLockState>);

#[derive(Debug, Default)]
enum RootLockState {
    #[default]
    Untried,
    Held(HeldRootLock),
    /// The last try failed.
    NotHeld,
}

#[derive(Debug)]
struct HeldRootLock {
    /// The lock lasts for as long as this is open.
    _file: File,
    identity: (u64, u64),
}

/// The owner of a root, as the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RootOwner {
    instance: String,
    host: String,
    pid: u32,
    /// The start of that process: its number may long be another's. Earlier versions do not say.
    start: Option<u64>,
    /// The data directory of that process. Earlier versions do not say.
    data: Option<String>,
}

impl RootOwner {
    pub(crate) fn of_this_process(instance: InstanceId, data: &Path) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = if host.trim().is_empty() {
            "localhost"
        } else {
            host.trim()
        }
        .to_owned();
        let pid = std::process::id();
        let start = attempt_processes::start_ticks(pid);
        // The directory must fit on a line of the file.
        let data = data
            .to_str()
            .filter(|data| !data.is_empty() && !data.contains('\n'));
        Self {
            instance: instance.to_string(),
            host,
            pid,
            start,
            data: data.map(str::to_owned),
        }
    }

    /// Parses the text of a file.
    pub(crate) fn parse_owner(text: &str) -> Option<Self> {
        Some(Self {
            instance: word_after(text, "instance ")?.to_owned(),
            host: word_after(text, "host ")?.to_owned(),
            pid: word_after(text, "pid ")?.parse().ok()?,
            start: word_after(text, "start ").and_then(|start| start.parse().ok()),
            data: word_after(text, "data ").map(str::to_owned),
        })
    }

    /// Formats the text of the file.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!(
            "instance {}\nhost {}\npid {}\n",
            self.instance, self.host, self.pid
        );
        let lines = [
            ("start", self.start.map(|start| start.to_string())),
            ("data", self.data.clone()),
        ];
        for (name, value) in lines {
            if let Some(value) = value {
                text += &format!("{name} {value}\n");
            }
        }
        text
    }

    /// Returns true if it is a live process of this machine, and not this one.
    fn lives_beside(&self, ours: &Self) -> bool {
        let lives = self.start.is_some() && attempt_processes::start_ticks(self.pid) == self.start;
        self.host == ours.host && self.pid != ours.pid && lives
    }

    /// Returns why this process does not take a root with this owner, if no lock can be seen.
    pub(crate) fn reason_to_stay_out(&self, ours: &Self, place: &Path) -> Option<String> {
        if self.lives_beside(ours) {
            return Some(in_named_use(&place.display(), self, ours));
        }
        self.reason_other_host(ours, place)
    }

    /// Explains why this process does not take back a root that it had.
    pub(crate) fn explain_loss(&self, ours: &Self, place: &Path) -> String {
        in_named_use(&place.display(), self, ours)
    }

    /// Returns true if another process must have the lock: the one named here has ended, or is
    /// this one.
    fn is_certainly_not_holder(&self, ours: &Self) -> bool {
        let has_ended = self.host == ours.host
            && self.start.is_some()
            && attempt_processes::start_ticks(self.pid) != self.start;
        has_ended || self == ours
    }

    /// Returns why the root is that of another control plane on another host, whose lock
    /// may not be seen from here.
    fn reason_other_host(&self, ours: &Self, place: &Path) -> Option<String> {
        let place = place.display();
        (self.instance != ours.instance && self.host != ours.host).then(|| {
            format!(
                "its root {place} is that of {self}; this is {ours}; stop the other for good \
                 and remove {place}/{OWNER}, or give each a root of its own"
            )
        })
    }

    fn read_owner(file: &File) -> io::Result<Option<Self>> {
        let mut text = String::new();
        let mut file = file;
        // The file is read from its beginning: it was just opened, or is another's.
        file.read_to_string(&mut text)?;
        Ok(Self::parse_owner(&text))
    }

    fn write_owner(&self, file: &File) -> io::Result<()> {
        file.set_len(0)?;
        file.write_all_at(self.to_text().as_bytes(), 0)?;
        file.sync_all()
    }
}

fn word_after<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

impl fmt::Display for RootOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            instance,
            host,
            pid,
            ..
        } = self;
        write!(f, "control plane {instance} on host {host} (process {pid})")?;
        match &self.data {
            Some(data) => write!(f, " with the data directory {data}"),
            None => Ok(()),
        }
    }
}

impl RootLock {
    /// Makes sure that a root is ours alone. A new one is prepared, and counts as ours only once
    /// that is done; nobody else has it meanwhile.
    ///
    /// # Errors
    /// `OutOfOrder` if it is another's, with both names and the remedy; `NotSent` if it cannot be
    /// prepared.
    pub(crate) fn ensure_root_lock(
        &self,
        root: &VerifiedSiteRoot,
        ours: impl FnOnce() -> RootOwner,
        prepare: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), SiteError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let there = root.file_identity(OWNER).map_err(|e| not_done_error(&e))?;
        if let RootLockState::Held(held) = &*state
            && Some(held.identity) == there
        {
            return Ok(());
        }
        // Another root is in its place, or we had none.
        let lock_wait = match *state {
            RootLockState::NotHeld => LOCK_WAIT_AGAIN,
            RootLockState::Untried | RootLockState::Held(_) => LOCK_WAIT,
        };
        *state = RootLockState::NotHeld;
        let taken = take_lock(root, &ours(), lock_wait)?;
        prepare().map_err(|e| not_done_error(&e))?;
        *state = RootLockState::Held(taken);
        Ok(())
    }
}

impl LocalSiteState {
    /// Makes sure that the root is ours alone and has a complete wrapper, and finishes a removal
    /// that was cut off when somebody last had the root.
    ///
    /// # Errors
    /// `OutOfOrder` if it is another's, with both names and the remedy; `NotSent` if it cannot be
    /// prepared.
    pub(super) fn ensure_root_is_ours(&self, root: &VerifiedSiteRoot) -> Result<(), SiteError> {
        let Some(instance) = self.config.owner else {
            return Ok(());
        };
        self.hold.ensure_root_lock(
            root,
            || RootOwner::of_this_process(instance, &self.config.data_directory),
            || {
                install_wrapper(root)?;
                let (gone, left) = root.list_unremoved_trees()?;
                self.sweeper.queue_trees(left, || Ok(gone))
            },
        )
    }
}

fn take_lock(
    root: &VerifiedSiteRoot,
    ours: &RootOwner,
    lock_wait: Duration,
) -> Result<HeldRootLock, SiteError> {
    let file = root.open_or_make(OWNER).map_err(|e| not_done_error(&e))?;
    let locked = lock_file(&file, lock_wait).map_err(|e| not_done_error(&e))?;
    let owner = RootOwner::read_owner(&file).map_err(|e| not_done_error(&e))?;
    let place = root.path();
    let why = match (locked, owner) {
        (LockHolder::Elsewhere, Some(owner)) if !owner.is_certainly_not_holder(ours) => {
            Some(describe_use(&place.display(), &owner, ours))
        }
        (LockHolder::Elsewhere, _) => Some(describe_unknown_use(&place.display(), ours)),
        // A process that lives and does not lock the root has given it up.
        (LockHolder::Here, Some(owner)) => owner.reason_other_host(ours, place),
        (LockHolder::Nowhere, Some(owner)) => owner.reason_to_stay_out(ours, place),
        (LockHolder::Here | LockHolder::Nowhere, None) => None,
    };
    if let Some(why) = why {
        return Err(SiteError::OutOfOrder(why));
    }
    ours.write_owner(&file).map_err(|e| not_done_error(&e))?;
    let found = file.metadata().map_err(|e| not_done_error(&e))?;
    Ok(HeldRootLock {
        _file: file,
        identity: (found.dev(), found.ino()),
    })
}

fn describe_use(place: &dyn fmt::Display, owner: &RootOwner, ours: &RootOwner) -> String {
    format!(
        "its root {place} is in use by {owner}; this is {ours}; two would use the same processors: \
         stop the other, or give each a root of its own"
    )
}

/// Explains the same if only the file says so: whatever runs at the site may have written it.
fn in_named_use(place: &dyn fmt::Display, owner: &RootOwner, ours: &RootOwner) -> String {
    let in_use = describe_use(place, owner, ours);
    format!("{in_use}; if there is no such control plane, remove {place}/{OWNER}")
}

/// Explains that a process has the lock which the file does not name, such as one that a payload
/// left behind.
fn describe_unknown_use(place: &dyn fmt::Display, ours: &RootOwner) -> String {
    format!(
        "its root {place} is in use by a process that has locked {place}/{OWNER} and is not the \
         one named there; this is {ours}; find it with `fuser {place}/{OWNER}` and stop it, or give \
         the site another root"
    )
}

/// The side that has a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockHolder {
    Here,
    Elsewhere,
    /// There are no locks, so the name counts.
    Nowhere,
}

/// Locks a file, unless another process keeps it locked for long.
fn lock_file(file: &File, lock_wait: Duration) -> io::Result<LockHolder> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(LockHolder::Here),
            Err(TryLockError::WouldBlock) if begun.elapsed() >= lock_wait => {
                return Ok(LockHolder::Elsewhere);
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            Err(TryLockError::Error(error)) if is_no_locks_error(&error) => {
                return Ok(LockHolder::Nowhere);
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Returns true if the file system has no locks; some network file systems say so in their own way.
fn is_no_locks_error(error: &io::Error) -> bool {
    let none = [Errno::NOLCK, Errno::NOSYS, Errno::OPNOTSUPP];
    error.kind() == io::ErrorKind::Unsupported
        || Errno::from_io_error(error).is_some_and(|errno| none.contains(&errno))
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::SiteName;

    use super::*;

    #[test]
    fn a_root_that_could_not_be_prepared_is_prepared_the_next_time_and_then_no_more() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("root");
        let name = SiteName::new("here").unwrap();
        VerifiedSiteRoot::initialise_root(&path, &name).unwrap();
        let root = VerifiedSiteRoot::open(&path, &name).unwrap();
        let hold = RootLock::default();
        let ours = || RootOwner::of_this_process(InstanceId::from_random(1), home.path());
        hold.ensure_root_lock(&root, ours, || Err(io::Error::other("no room")))
            .unwrap_err();
        let mut prepared = 0;
        for _ in 0..3 {
            hold.ensure_root_lock(&root, ours, &mut || {
                prepared += 1;
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(prepared, 1);
    }
}
