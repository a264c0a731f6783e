//! Processes of the demonstration's sites: found by their environment, and ended for good.

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpgid, getpgrp, kill_process, kill_process_group};

/// The variable that names the attempt of a process.
const OWNER: &[u8] = b"COSPAN_ATTEMPT_DIR=";
/// The argument that starts the copy agent of a site.
const AGENT: &[u8] = b"copy-agent";
/// Time that killed processes get to vanish.
const VANISH_MAX: Duration = Duration::from_secs(5);

/// Finds the processes that belong to a site below `root`, or to `root` itself.
pub(super) fn find_processes(root: &Path) -> io::Result<Vec<Pid>> {
    let mut prefix = root.as_os_str().as_bytes().to_vec();
    prefix.push(b'/');
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(pid) = number.filter(|pid| *pid > 1).and_then(Pid::from_raw) else {
            continue;
        };
        if is_payload_below(pid, &prefix)? || is_agent_below(pid, &prefix)? {
            found.push(pid);
        }
    }
    Ok(found)
}

fn is_payload_below(pid: Pid, prefix: &[u8]) -> io::Result<bool> {
    let environment = read_words(pid, "environ")?;
    let mut words = environment.split(|byte| *byte == 0);
    Ok(words.any(|word| {
        word.strip_prefix(OWNER)
            .is_some_and(|path| path.starts_with(prefix))
    }))
}

fn is_agent_below(pid: Pid, prefix: &[u8]) -> io::Result<bool> {
    let arguments = read_words(pid, "cmdline")?;
    let mut words = arguments.split(|byte| *byte == 0).skip(1);
    if words.next() != Some(AGENT) {
        return Ok(false);
    }
    Ok(words.any(|word| [word, b"/"].concat().starts_with(prefix)))
}

/// Reads a file of a process; nothing if the process is gone, or belongs to another user.
fn read_words(pid: Pid, file: &str) -> io::Result<Vec<u8>> {
    match fs::read(format!("/proc/{}/{file}", pid.as_raw_nonzero())) {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::PermissionDenied
            ) || Errno::from_io_error(&error) == Some(Errno::SRCH) =>
        {
            Ok(Vec::new())
        }
        result => result,
    }
}

/// Kills every process group below `root` and waits until nothing is left of them. Returns the
/// number of processes that were found first.
pub(super) fn kill_all(root: &Path) -> io::Result<usize> {
    let begin = Instant::now();
    let found = find_processes(root)?;
    let count = found.len();
    let mut left = found;
    while !left.is_empty() {
        let own = getpgrp();
        let groups = left.iter().filter_map(|pid| getpgid(Some(*pid)).ok());
        for group in groups.filter(|group| *group != own).collect::<HashSet<_>>() {
            // A group that is gone already is fine.
            let _ = kill_process_group(group, Signal::KILL);
        }
        for pid in left {
            let _ = kill_process(pid, Signal::KILL);
        }
        if begin.elapsed() > VANISH_MAX {
            return Err(io::Error::new(
                ErrorKind::TimedOut,
                "killed processes do not vanish",
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
        left = find_processes(root)?;
    }
    Ok(count)
}
