//! Distances to other hosts: a program that measures them is run.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use cospan_domain::ids::HostName;
use cospan_domain::units::{DurationMs, DurationUs};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::{LocalSite, LocalSiteConfig};
use crate::ping;
use crate::port::SiteError;

/// The longest that the program may take. The ordinary one gives up after ten seconds.
const LONGEST: DurationMs = DurationMs(20_000);

impl LocalSite {
    /// Runs the program on a thread of its own: it takes seconds, and other
    /// calls must not wait for it.
    pub(super) async fn measure_round_trip(&self, to: &HostName) -> Result<DurationUs, SiteError> {
        self.run_blocking(|shared| shared.open_root().map(drop))
            .await?;
        let shared = self.shared.clone();
        let to = to.clone();
        let task = tokio::task::spawn_blocking(move || ping_host(&shared.config, &to));
        task.await
            .unwrap_or_else(|error| Err(SiteError::OutcomeUnknown(error.to_string())))
    }
}

fn ping_host(config: &LocalSiteConfig, to: &HostName) -> Result<DurationUs, SiteError> {
    let words = config.ping.iter().map(String::as_str).chain([to.as_str()]);
    let line = words.collect::<Vec<_>>().join(" ");
    let output = run_ping(config, to)
        .map_err(|error| SiteError::OutcomeUnknown(format!("{line:?} cannot be run: {error}")))?;
    ping::parse_shortest_round_trip(&output).ok_or_else(|| {
        let last = output
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .unwrap_or_default();
        SiteError::OutcomeUnknown(format!("{line:?} tells no round trip: {last:?}"))
    })
}

/// Returns what the program printed until it ended or took too long: as much as fits into a pipe.
fn run_ping(config: &LocalSiteConfig, to: &HostName) -> io::Result<String> {
    let (mut output, printed) = io::pipe()?;
    // Processes that it leaves behind may keep their end open.
    rustix::io::ioctl_fionbio(&output, true)?;
    let (program, arguments) = config
        .ping
        .split_first()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = Command::new(program)
        .args(arguments)
        .arg(to.as_str())
        .env_clear()
        .envs(&config.environment)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(printed.try_clone()?)
        .stderr(printed)
        .process_group(0)
        .spawn()?;
    let ended = await_ping_end(&child);
    // It is not reaped yet, so that its number is still its own.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    child.wait()?;
    ended?;
    let mut bytes = Vec::new();
    match output.read_to_end(&mut bytes) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

fn await_ping_end(child: &Child) -> io::Result<()> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let longest = Timespec {
        tv_sec: (LONGEST.0 / 1_000) as i64,
        tv_nsec: 0,
    };
    let mut ends = [PollFd::new(&process, PollFlags::IN)];
    match rustix::io::retry_on_intr(|| poll(&mut ends, Some(&longest)))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}
