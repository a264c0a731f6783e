//! Processes of attempts: how they are identified, watched and signalled.
//!
//! A process is signalled through a descriptor that was checked against its start time: its number
//! may long be another process's.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use cospan_domain::ids::AttemptTag;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use crate::wrapper::state_files::ProcessIdentity;

/// The variable that says which attempt a process belongs to: the directory of its attempt, so that
/// equal tags at two sites of this machine differ.
pub(super) const OWNER_VARIABLE: &str = "COSPAN_ATTEMPT_DIR";

/// The number of looks at empty environments, a millisecond apart.
const LOOKS_AT_EMPTY: usize = 20;

/// A process that was there when it was looked up, and can be mistaken for no other.
#[derive(Debug)]
pub(super) struct ProcessHandle {
    pid: Pid,
    handle: OwnedFd,
}

impl ProcessHandle {
    /// Opens the process of this name, if it still is that process and lives.
    ///
    /// # Errors
    /// It could not be found out, which is not the same as gone.
    pub(super) fn from_identity(name: &ProcessIdentity) -> io::Result<Option<Self>> {
        let Some(process) = Self::open_pid(name.pid)? else {
            return Ok(None);
        };
        let is_it =
            process_stat(name.pid)?.is_some_and(|stat| stat.lives && stat.start == name.start);
        Ok(is_it.then_some(process))
    }

    /// Opens a child that was not waited for, so that its number is its own.
    pub(super) fn from_child(pid: u32) -> io::Result<Option<Self>> {
        Self::open_pid(pid)
    }

    fn open_pid(pid: u32) -> io::Result<Option<Self>> {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Ok(Some(Self { pid, handle })),
            // INVAL: the number of a thread, so not of the process that was meant.
            Err(Errno::SRCH | Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns true if it has ended (perhaps nobody waited for it yet).
    pub(super) fn has_ended(&self) -> bool {
        wait_for_ends(&[self], Duration::ZERO, None) == [true]
    }

    /// Sends it a signal; that it is gone is no error.
    pub(super) fn send_signal(&self, signal: Signal) {
        // The only other failure is a process of another user, which does not concern us.
        let _ = pidfd_send_signal(&self.handle, signal);
    }

    /// Resumes it if somebody has stopped it.
    pub(super) fn resume_if_stopped(&self) {
        let pid = self.pid.as_raw_nonzero().get().unsigned_abs();
        // Another process of the same number is not signalled.
        if process_stat(pid).is_ok_and(|stat| stat.is_some_and(|stat| stat.is_stopped)) {
            self.send_signal(Signal::CONT);
        }
    }

    /// Sends a signal to the group that it leads, if it lives: then the group's number is its own.
    pub(super) fn signal_group(&self, signal: Signal) {
        if !self.has_ended() {
            let _ = kill_process_group(self.pid, signal);
        }
    }
}

/// Returns which of these processes have ended, after waiting for one to end, for `wake` to become
/// readable, or for `pause` to pass, whichever comes first.
pub(super) fn wait_for_ends(
    processes: &[&ProcessHandle],
    pause: Duration,
    wake: Option<&OwnedFd>,
) -> Vec<bool> {
    let handles = processes.iter().map(|process| &process.handle).chain(wake);
    let mut watched: Vec<_> = handles.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let pause = Timespec {
        tv_sec: i64::try_from(pause.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(pause.subsec_nanos()),
    };
    // An error (a signal came) leaves nothing marked: no process is known to have ended.
    if poll(&mut watched, Some(&pause)).is_err() {
        return vec![false; processes.len()];
    }
    watched
        .iter()
        .take(processes.len())
        .map(|fd| !fd.revents().is_empty())
        .collect()
}

/// The state of a process, as the kernel reports it.
struct ProcessStat {
    lives: bool,
    is_stopped: bool,
    start: u64,
}

/// Reads whether a process lives, and when it started; `None` if there is none.
fn process_stat(pid: u32) -> io::Result<Option<ProcessStat>> {
    let Some(text) = proc_file(&format!("/proc/{pid}/stat"))? else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&text);
    // The name of the program, in parentheses, may contain anything.
    let parsed = text.rsplit_once(") ").and_then(|(_, rest)| {
        let mut fields = rest.split(' ');
        let state = fields.next()?;
        let lives = !matches!(state, "Z" | "X" | "x");
        let is_stopped = state == "T";
        Some(ProcessStat {
            lives,
            is_stopped,
            start: fields.nth(18)?.parse().ok()?,
        })
    });
    parsed.map(Some).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("/proc/{pid}/stat has no start time"),
        )
    })
}

/// Returns when a living process started, in ticks since the start of the machine.
pub(super) fn start_ticks(pid: u32) -> Option<u64> {
    process_stat(pid)
        .ok()?
        .filter(|stat| stat.lives)
        .map(|stat| stat.start)
}

/// Reads a file of a process; `None` if the process is gone.
fn proc_file(path: &str) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || Errno::from_io_error(&error) == Some(Errno::SRCH) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the identifier of this run of the machine.
pub(super) fn boot_id() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_or_else(|_| "-".to_owned(), |id| id.trim().to_owned())
    })
}

/// Lists all processes of this machine but the first.
fn list_pids() -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let pid = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok());
        pids.extend(pid.filter(|pid| *pid > 1));
    }
    Ok(pids)
}

/// Finds living processes that carry a wanted attempt (a tag below `attempts`) in their
/// environment, whatever group they went to.
///
/// # Errors
/// The processes of this machine cannot be listed or looked at.
pub(super) fn find_attempt_processes(
    attempts: &Path,
    wanted: impl Fn(&AttemptTag) -> bool,
) -> io::Result<BTreeMap<AttemptTag, Vec<ProcessHandle>>> {
    let mut found: BTreeMap<AttemptTag, Vec<ProcessHandle>> = BTreeMap::new();
    for (tag, process) in read_until_complete(
        list_pids()?,
        |pid| open_attempt_process(attempts, pid, &wanted),
        || std::thread::sleep(Duration::from_millis(1)),
    )?
    .into_iter()
    .flatten()
    {
        found.entry(tag).or_default().push(process);
    }
    Ok(found)
}

/// Returns the processes of attempts that were seen on this machine at most `within` ago, at any
/// site: each by its attempt's directory and its number. All sites of this machine share one look,
/// because each look reads something of every process.
///
/// # Errors
/// The processes of this machine cannot be listed or looked at.
pub(super) fn recent_attempt_processes(within: Duration) -> io::Result<Arc<Vec<AttemptProcess>>> {
    static SEEN: Mutex<Option<(Instant, Arc<Vec<AttemptProcess>>)>> = Mutex::new(None);
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, carriers)) = seen.as_ref().filter(|(at, _)| at.elapsed() < within) {
        return Ok(carriers.clone());
    }
    let begun = Instant::now();
    let carriers = read_until_complete(list_pids()?, read_attempt_process, || {
        std::thread::sleep(Duration::from_millis(1))
    })?
    .into_iter()
    .flatten()
    .collect();
    let carriers = Arc::new(carriers);
    *seen = Some((begun, Arc::clone(&carriers)));
    Ok(carriers)
}

/// A process as it was seen; its number may be another's since.
#[derive(Debug)]
pub(super) struct AttemptProcess {
    directory: PathBuf,
    pid: u32,
}

impl AttemptProcess {
    /// Returns its attempt, if that is one of those below this directory.
    pub(super) fn attempt_tag(&self, attempts: &Path) -> Option<AttemptTag> {
        self.directory
            .strip_prefix(attempts)
            .ok()?
            .to_str()?
            .parse()
            .ok()
    }

    /// Opens the process, if it is there and still carries this attempt.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub(super) fn open_process(
        &self,
        attempts: &Path,
        tag: AttemptTag,
    ) -> io::Result<Option<ProcessHandle>> {
        Ok(
            match open_attempt_process(attempts, self.pid, |seen| *seen == tag)? {
                ProcessLookOutcome::Whole(Some((_, process))) => Some(process),
                ProcessLookOutcome::Whole(None) | ProcessLookOutcome::Empty => None,
            },
        )
    }
}

fn read_attempt_process(pid: u32) -> io::Result<ProcessLookOutcome<Option<AttemptProcess>>> {
    let ProcessLookOutcome::Whole(environment) = read_environment(pid)? else {
        return Ok(ProcessLookOutcome::Empty);
    };
    Ok(ProcessLookOutcome::Whole(
        attempt_directory_in(&environment).map(|path| AttemptProcess {
            directory: path.into(),
            pid,
        }),
    ))
}

/// Looks at all processes, and again at those that show nothing yet, all of them together for as
/// long as one may take: others wait for this.
fn read_until_complete<T>(
    mut pids: Vec<u32>,
    look: impl Fn(u32) -> io::Result<ProcessLookOutcome<T>>,
    mut pause: impl FnMut(),
) -> io::Result<Vec<T>> {
    let mut seen = Vec::new();
    for _ in 0..LOOKS_AT_EMPTY {
        let mut empty = Vec::new();
        for pid in pids {
            match look(pid)? {
                ProcessLookOutcome::Whole(what) => seen.push(what),
                ProcessLookOutcome::Empty => empty.push(pid),
            }
        }
        if empty.is_empty() {
            break;
        }
        pids = empty;
        pause();
    }
    Ok(seen)
}

/// The result of a look at a process.
#[derive(Debug, PartialEq, Eq)]
enum ProcessLookOutcome<T> {
    Whole(T),
    /// It has no environment, or none yet.
    Empty,
}

/// Returns the wanted attempt that a process carries, and that process.
fn open_attempt_process(
    attempts: &Path,
    pid: u32,
    wanted: impl Fn(&AttemptTag) -> bool,
) -> io::Result<ProcessLookOutcome<Option<(AttemptTag, ProcessHandle)>>> {
    let tag = match tag_of_process(attempts, pid)? {
        ProcessLookOutcome::Empty => return Ok(ProcessLookOutcome::Empty),
        ProcessLookOutcome::Whole(tag) => tag,
    };
    let Some(tag) = tag.filter(wanted) else {
        return Ok(ProcessLookOutcome::Whole(None));
    };
    let Some(process) = ProcessHandle::open_pid(pid)? else {
        return Ok(ProcessLookOutcome::Whole(None));
    };
    // Read again now that the handle is open: so it is certainly this process that carries it.
    match tag_of_process(attempts, pid)? {
        ProcessLookOutcome::Empty => Ok(ProcessLookOutcome::Empty),
        ProcessLookOutcome::Whole(again) => {
            let same = again == Some(tag) && !process.has_ended();
            Ok(ProcessLookOutcome::Whole(same.then_some((tag, process))))
        }
    }
}

fn tag_of_process(attempts: &Path, pid: u32) -> io::Result<ProcessLookOutcome<Option<AttemptTag>>> {
    let ProcessLookOutcome::Whole(environment) = read_environment(pid)? else {
        return Ok(ProcessLookOutcome::Empty);
    };
    let tag = attempt_directory_in(&environment).and_then(|directory| {
        directory
            .strip_prefix(attempts)
            .ok()?
            .to_str()?
            .parse()
            .ok()
    });
    Ok(ProcessLookOutcome::Whole(tag))
}

/// Returns the directory of the attempt that an environment names.
fn attempt_directory_in(environment: &[u8]) -> Option<&Path> {
    environment.split(|b| *b == 0).find_map(|variable| {
        let path = variable
            .strip_prefix(OWNER_VARIABLE.as_bytes())?
            .strip_prefix(b"=")?;
        Some(Path::new(OsStr::from_bytes(path)))
    })
}

/// Reads the environment of a process; no bytes if it is over or another user's.
///
/// A process that has just been started has none for a moment: whoever started it goes on before
/// its new image is complete. A look then would miss an attempt that was submitted.
fn read_environment(pid: u32) -> io::Result<ProcessLookOutcome<Vec<u8>>> {
    let environment = match proc_file(&format!("/proc/{pid}/environ")) {
        Ok(environment) => environment.unwrap_or_default(),
        // Another user's process is none of an attempt.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Vec::new(),
        Err(error) => return Err(error),
    };
    // A process without a program is over, or the kernel's.
    if environment.is_empty() && fs::read_link(format!("/proc/{pid}/exe")).is_ok() {
        Ok(ProcessLookOutcome::Empty)
    } else {
        Ok(ProcessLookOutcome::Whole(environment))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn processes_without_environment_are_waited_for_together() {
        let pauses = Cell::new(0);
        // Every third has none for three looks, and every other third has none at all.
        let seen = read_until_complete(
            (0..300).collect(),
            |pid: u32| {
                Ok(match pid % 3 {
                    0 => ProcessLookOutcome::Whole(pid),
                    1 if pauses.get() >= 3 => ProcessLookOutcome::Whole(pid),
                    _ => ProcessLookOutcome::Empty,
                })
            },
            || pauses.set(pauses.get() + 1),
        )
        .unwrap();
        assert_eq!(seen.len(), 200);
        assert_eq!(pauses.get(), LOOKS_AT_EMPTY);
    }
}
