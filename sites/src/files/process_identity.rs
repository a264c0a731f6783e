//! Identity of a process: a number alone is given out again, so start time and boot go with it.

use std::fs;
use std::io;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process, told apart from every other that ever had its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AgentProcessIdentity {
    pid: i32,
    start_ticks: u64,
    boot: String,
}

impl AgentProcessIdentity {
    /// Identifies this process.
    pub(super) fn of_this_process() -> io::Result<Self> {
        let pid = rustix::process::getpid();
        let start_ticks = start_ticks(pid)?;
        Ok(Self {
            pid: pid.as_raw_nonzero().get(),
            start_ticks,
            boot: boot_id()?,
        })
    }

    /// Sends a signal if the process still lives; `false` if it is gone. Never reaches another
    /// process: the handle is taken first and compared afterwards.
    pub(super) fn send_signal(&self, signal: Signal) -> io::Result<bool> {
        let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.pid > 0) else {
            return Ok(false);
        };
        if boot_id()? != self.boot {
            return Ok(false);
        }
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
            return Ok(false);
        };
        if start_ticks(pid).ok() != Some(self.start_ticks) {
            return Ok(false);
        }
        Ok(pidfd_send_signal(handle, signal).is_ok())
    }
}

/// Reads the identifier of this boot of the machine.
pub(super) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

/// Reads when a process started, in clock ticks since boot.
fn start_ticks(pid: Pid) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))?;
    // The program's name stands in brackets and may contain anything, so count from its end.
    stat.rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no start time in /proc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_belongs_to_another_process_now_is_left_alone() {
        let me = AgentProcessIdentity::of_this_process().unwrap();
        let before = AgentProcessIdentity {
            start_ticks: me.start_ticks - 1,
            ..me.clone()
        };
        let rebooted = AgentProcessIdentity {
            boot: "another".into(),
            ..me.clone()
        };
        let nobody = AgentProcessIdentity { pid: 0, ..me };
        for other in [before, rebooted, nobody] {
            assert!(!other.send_signal(Signal::KILL).unwrap(), "{other:?}");
        }
    }
}
