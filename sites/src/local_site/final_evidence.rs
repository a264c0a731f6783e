//! The end of attempts whose wrapper is gone, and of the processes that it left.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cospan_domain::ids::AttemptTag;
use rustix::process::Signal;

use super::attempt_processes::{self, ProcessHandle};
use super::attempt_root::{ATTEMPTS, SPOOL, VerifiedSiteRoot};
use super::live_entry::WrapperProcess;
use super::read_evidence::{self, WrapperEvidence};
use crate::attempt_end::{BatchJobState, WrapperFileState, interpret_end};
use crate::port::{AttemptObservation, GateState, SiteEndReason};
use crate::wrapper::attempt_files::to_observation;
use crate::wrapper::parameters::{push_end_line, push_line};

/// The time that killed processes get to vanish before the next look.
const DEATH_AWAITED: Duration = Duration::from_millis(200);

/// The exit code by which a wrapper says that it could not write its files.
const COULD_NOT_WRITE: i32 = 74;

/// Finds the wrapper that wrote `ready`; `None` if there is none (yet).
pub(super) fn find_wrapper(
    root: &VerifiedSiteRoot,
    tag: AttemptTag,
) -> io::Result<Option<WrapperProcess>> {
    let Some((ready, _)) = WrapperEvidence::collect_evidence(root, tag)?.and_then(|e| e.ready)
    else {
        return Ok(None);
    };
    if ready.boot != attempt_processes::boot_id() {
        return Ok(Some(WrapperProcess::Gone));
    }
    let process = ProcessHandle::from_identity(&ready.wrapper)?;
    Ok(Some(process.map_or(WrapperProcess::Gone, |process| {
        WrapperProcess::Known(Arc::new(process))
    })))
}

/// Determines the end of an attempt whose wrapper has ended: from its files, or that it vanished.
/// Its other processes are ended first, so that nothing changes afterwards.
pub(super) fn determine_end(
    root: &VerifiedSiteRoot,
    tag: AttemptTag,
    known: RememberedEvidence,
) -> io::Result<AttemptObservation> {
    let before = WrapperEvidence::collect_evidence(root, tag)?;
    if let Some(last) = before.as_ref().and_then(WrapperEvidence::final_observation) {
        return Ok(last);
    }
    // After an incomplete record of the wrapper or of an earlier look, nothing can be running.
    let settled = before
        .as_ref()
        .is_some_and(|e| e.trouble.is_some() && !e.perhaps_begun);
    if !settled && kill_attempt_processes(root, tag)? > 0 {
        return Ok(AttemptObservation::Unknown(
            "its processes were killed and are not gone yet".into(),
        ));
    }
    match WrapperEvidence::collect_evidence(root, tag)? {
        Some(evidence) => Ok(known.interpret_files(evidence)),
        // If somebody removed the directory while the root is well, the payload ran in it.
        None if known.began && root.exists(ATTEMPTS)? => Ok(AttemptObservation::Ended {
            began: true,
            why: SiteEndReason::Spoiled,
            detail: "its directory was removed while its payload ran".to_owned(),
        }),
        None => match last_log_line(root, tag)? {
            Some(log) => record_early_end(root, tag, &log),
            // It wrote nothing anywhere: perhaps whoever was about to start it died just before.
            None => Ok(AttemptObservation::Absent),
        },
    }
}

/// Observations of an attempt while it went on: files can be altered, these cannot.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RememberedEvidence {
    /// True if this process saw its wrapper alive: a process that finds it dead at its start does
    /// not know what else died then.
    pub(super) witnessed: bool,
    /// True if its gate was opened.
    pub(super) began: bool,
    /// The end of its wrapper, if that was our child.
    pub(super) wrapper: Option<WrapperEnd>,
    /// True if this machine has run out of memory since its start, and killed some process for it.
    pub(super) memory_ran_out: bool,
    /// True if we killed it because its payload exceeded its wall time.
    pub(super) overran: bool,
}

/// The end of a wrapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WrapperEnd {
    /// A signal ended it.
    Killed,
    /// It ended by itself, with this code.
    Exited(i32),
}

impl RememberedEvidence {
    /// Interprets files that record no end.
    fn interpret_files(self, mut evidence: WrapperEvidence) -> AttemptObservation {
        evidence.perhaps_begun |= self.may_have_lost_begun(&evidence);
        let left = self.left_file_state(&evidence);
        // What was seen to begin did begin, whatever its files say.
        evidence.perhaps_begun |=
            self.began && matches!(left, WrapperFileState::Begun | WrapperFileState::Spoiled);
        let verdict = interpret_end(self.machine_report(), left, true);
        to_observation(verdict, Some(&evidence), || self.explain_end().to_owned())
    }

    /// After a power cut a gate may be open and `begun` lost, which is not synced.
    fn may_have_lost_begun(self, evidence: &WrapperEvidence) -> bool {
        let boot = evidence
            .ready
            .as_ref()
            .map(|(ready, _)| ready.boot.as_str());
        let was_restarted = boot.is_some_and(|boot| boot != attempt_processes::boot_id());
        let is_open = matches!(evidence.decision, Some((GateState::Opened, _)));
        !self.witnessed && was_restarted && is_open
    }

    /// Reads the remains in the light of what was seen: files can be another's.
    fn left_file_state(self, evidence: &WrapperEvidence) -> WrapperFileState {
        let is_open = self.began || matches!(evidence.decision, Some((GateState::Opened, _)));
        match (evidence.file_state(), self.wrapper) {
            // A wrapper that was killed wrote no more, whatever is found in its name.
            (WrapperFileState::AtGate | WrapperFileState::Trouble, Some(WrapperEnd::Killed))
                if self.began =>
            {
                WrapperFileState::Begun
            }
            // A wrapper that ended well recorded the end: so it did in another directory than this.
            (
                WrapperFileState::AtGate | WrapperFileState::Trouble | WrapperFileState::Begun,
                Some(WrapperEnd::Exited(0)),
            ) if is_open => WrapperFileState::Spoiled,
            // Its gate was opened because `ready` was there.
            (WrapperFileState::AtGate | WrapperFileState::Begun, Some(WrapperEnd::Exited(_)))
                if self.began && evidence.ready.is_none() =>
            {
                WrapperFileState::Spoiled
            }
            (left, _) => left,
        }
    }

    /// Returns what a batch system would report: whether this machine is well.
    fn machine_report(self) -> BatchJobState {
        let could_not_write = self.wrapper == Some(WrapperEnd::Exited(COULD_NOT_WRITE));
        // A machine without memory kills some process, and does not say which.
        let is_known = self.witnessed && !could_not_write && !self.memory_ran_out;
        if is_known || self.overran {
            BatchJobState::Completed
        } else {
            BatchJobState::Forgotten
        }
    }

    fn explain_end(self) -> &'static str {
        match self.wrapper {
            _ if self.overran => {
                "it ran on after its wall time, and its wrapper, stopped or hung, did not end it"
            }
            _ if self.memory_ran_out => "this machine ran out of memory; its wrapper is gone",
            Some(WrapperEnd::Exited(0)) => "its directory was exchanged while its payload ran",
            Some(WrapperEnd::Exited(COULD_NOT_WRITE)) => "its wrapper could not write how it ended",
            Some(WrapperEnd::Exited(_) | WrapperEnd::Killed) | None => {
                "its wrapper was killed or crashed"
            }
        }
    }
}

/// Reads how many processes this machine has killed because it ran out of memory; `None`
/// if it does not count them.
pub(super) fn count_killed_for_memory() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/vmstat").ok()?;
    told.lines()
        .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// Reads the last line that a wrapper wrote to its log, if any.
fn last_log_line(root: &VerifiedSiteRoot, tag: AttemptTag) -> io::Result<Option<String>> {
    let log = root.read_file(&format!("{SPOOL}/{tag}/log"))?;
    let log = log
        .map(|log| String::from_utf8_lossy(&log.bytes).into_owned())
        .unwrap_or_default();
    Ok(log.lines().last().map(str::to_owned))
}

/// Records the end of a wrapper that could not even make its directory, so that the reason stays.
fn record_early_end(
    root: &VerifiedSiteRoot,
    tag: AttemptTag,
    log: &str,
) -> io::Result<AttemptObservation> {
    let detail = format!("its wrapper ended before it was ready: {log}");
    if root.make_dir(&format!("{ATTEMPTS}/{tag}"))? {
        let mut trouble = Vec::new();
        push_line(&mut trouble, "why", &detail);
        push_end_line(&mut trouble, tag);
        root.replace_file(&read_evidence::attempt_file_path(tag, "trouble"), &trouble)?;
    }
    Ok(AttemptObservation::Vanished {
        began: false,
        detail,
    })
}

/// Lists living processes of an attempt.
pub(super) fn list_attempt_processes(
    root: &VerifiedSiteRoot,
    tag: AttemptTag,
) -> io::Result<Vec<ProcessHandle>> {
    let mut found =
        attempt_processes::find_attempt_processes(&root.attempts_directory(), |carried| {
            *carried == tag
        })?;
    Ok(found.remove(&tag).unwrap_or_default())
}

/// Kills every process of an attempt; returns how many are not gone after a moment.
pub(super) fn kill_attempt_processes(
    root: &VerifiedSiteRoot,
    tag: AttemptTag,
) -> io::Result<usize> {
    if let Some(evidence) = WrapperEvidence::collect_evidence(root, tag)?
        && let (Some((ready, _)), Some((payload, _))) = (&evidence.ready, &evidence.begun)
        && ready.boot == attempt_processes::boot_id()
        && let Some(leader) = ProcessHandle::from_identity(payload)?
    {
        leader.signal_group(Signal::KILL);
    }
    let awaited = Instant::now();
    loop {
        let left = list_attempt_processes(root, tag)?;
        left.iter()
            .for_each(|process| process.send_signal(Signal::KILL));
        if left.is_empty() || awaited.elapsed() > DEATH_AWAITED {
            return Ok(left.len());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use cospan_domain::units::Timestamp;

    use super::*;
    use crate::wrapper::state_files::{ProcessIdentity, ReadyFile};

    fn evidence_at_open_gate(boot: &str) -> WrapperEvidence {
        let wrapper = ProcessIdentity { pid: 12, start: 34 };
        let host = "n1".to_owned();
        let boot = boot.to_owned();
        let ready = ReadyFile {
            host,
            wrapper,
            boot,
            run: None,
            job: None,
            nodes: None,
        };
        WrapperEvidence {
            ready: Some((ready, Timestamp(1))),
            decision: Some((GateState::Opened, Timestamp(2))),
            ..WrapperEvidence::default()
        }
    }

    fn evidence_of_wrapper_exit(code: i32) -> RememberedEvidence {
        let wrapper = Some(WrapperEnd::Exited(code));
        RememberedEvidence {
            witnessed: true,
            began: true,
            wrapper,
            ..RememberedEvidence::default()
        }
    }

    #[test]
    fn what_a_restart_of_the_machine_found_behind_an_open_gate_may_have_begun() {
        let began = |seen| match seen {
            AttemptObservation::Vanished { began, .. } => began,
            seen => panic!("{seen:?}"),
        };
        assert!(began(
            RememberedEvidence::default().interpret_files(evidence_at_open_gate("another"))
        ));
        let shut = WrapperEvidence {
            decision: None,
            ..evidence_at_open_gate("another")
        };
        assert!(!began(RememberedEvidence::default().interpret_files(shut)));
        assert!(!began(RememberedEvidence::default().interpret_files(
            evidence_at_open_gate(attempt_processes::boot_id())
        )));
    }

    #[test]
    fn only_a_wrapper_that_says_so_could_not_write_how_it_ended() {
        let why = |known: RememberedEvidence, evidence| match known.interpret_files(evidence) {
            AttemptObservation::Ended { why, .. } => Some(why),
            AttemptObservation::Vanished { .. } => None,
            seen => panic!("{seen:?}"),
        };
        let begun = || WrapperEvidence {
            perhaps_begun: true,
            ..evidence_at_open_gate("b")
        };
        assert_eq!(
            why(evidence_of_wrapper_exit(COULD_NOT_WRITE), begun()),
            None
        );
        assert_eq!(
            why(evidence_of_wrapper_exit(2), begun()),
            Some(SiteEndReason::WrapperKilled)
        );
        assert_eq!(
            why(evidence_of_wrapper_exit(0), begun()),
            Some(SiteEndReason::Spoiled)
        );
        // Another directory is in the place of its own.
        let none = || WrapperEvidence::default();
        assert_eq!(
            why(evidence_of_wrapper_exit(COULD_NOT_WRITE), none()),
            Some(SiteEndReason::Spoiled)
        );
    }
}
