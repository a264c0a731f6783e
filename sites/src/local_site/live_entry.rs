//! An attempt that uses resources, as it was last seen.

use std::io;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cospan_domain::ids::AttemptTag;
use cospan_domain::reservation::ReservationTag;
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};

use super::attempt_processes::ProcessHandle;
use super::attempt_root::{ATTEMPTS, LIVE, VerifiedSiteRoot};
use super::final_evidence::{
    RememberedEvidence, WrapperEnd, count_killed_for_memory, determine_end, kill_attempt_processes,
};
use super::gate_bell::WrapperWaker;
use super::read_evidence::{self, WrapperEvidence};
use crate::port::{AttemptObservation, GateState};
use crate::wrapper::parameters::{push_end_line, push_line};
use crate::wrapper::state_files::complete_lines;

/// The time that an entry without any process is kept: a control plane that died meanwhile may be
/// about to start its wrapper.
const UNSTARTED_KEPT: Duration = Duration::from_secs(10);
/// The most that the wrapper may be late in ending its payload.
const OVERRUN: DurationMs = DurationMs(30_000);
/// The pause between two looks whether a wrapper can still do its work.
const SEES_TO_WRAPPER: Duration = Duration::from_secs(1);

/// An attempt that uses resources.
#[derive(Debug)]
pub(super) struct LiveAttempt {
    pub(super) resources: Resources,
    /// The longest from the opening of the gate to the end, grace included.
    longest: DurationMs,
    /// The latest time until which it uses them.
    until: Timestamp,
    /// The tag of the reservation that it uses.
    reservation: Option<String>,
    /// True while a call that still runs submits it.
    pub(super) in_flight: bool,
    pub(super) child: Option<Child>,
    pub(super) wrapper: WrapperProcess,
    /// Calls the wrapper from its gate, once.
    bell: Option<WrapperWaker>,
    /// The latest observation.
    pub(super) seen: AttemptObservation,
    /// True if the gate was opened.
    pub(super) opened: bool,
    /// The time since when we know that its payload was let in.
    seen_running: Option<Instant>,
    /// The time since when neither it nor a process of it has been found.
    without_process: Option<Instant>,
    /// The time of the last look whether its wrapper can still do its work.
    seen_to: Option<Instant>,
    /// True if it was killed because its payload exceeded its wall time.
    overran: bool,
    /// Processes that the machine had killed for want of memory when it was started or found.
    killed_before: Option<u64>,
}

/// The wrapper of an attempt, as far as it is known.
#[derive(Debug)]
pub(super) enum WrapperProcess {
    /// Not found yet: another run of the control plane started it.
    Unknown,
    /// This process, ended or not.
    Known(Arc<ProcessHandle>),
    /// The wrapper has certainly ended.
    Gone,
}

/// The result of a look at one attempt.
pub(super) enum AttemptLookOutcome {
    Same,
    Changed,
    Ended(AttemptObservation),
}

impl LiveAttempt {
    /// Makes the entry of an attempt that is about to be started.
    pub(super) fn new(resources: Resources, longest: DurationMs) -> Self {
        Self {
            resources,
            longest,
            until: Timestamp(u64::MAX),
            reservation: None,
            in_flight: true,
            child: None,
            wrapper: WrapperProcess::Unknown,
            bell: None,
            seen: AttemptObservation::Starting,
            opened: false,
            seen_running: None,
            without_process: None,
            seen_to: None,
            overran: false,
            killed_before: count_killed_for_memory(),
        }
    }

    /// Sets the latest time until which it uses its resources, and its reservation.
    pub(super) fn with_end_and_reservation(
        mut self,
        until: Timestamp,
        under: Option<ReservationTag>,
    ) -> Self {
        self.until = until;
        self.reservation = under.map(|tag| tag.to_string());
        self
    }

    /// Returns until when it uses its resources at the latest; one that is late ends any moment.
    pub(super) fn holds_until(&self, now: Timestamp) -> Timestamp {
        self.until.max(now + OVERRUN)
    }

    /// Returns the tag of the reservation that it uses.
    pub(super) fn reservation(&self) -> Option<&str> {
        self.reservation.as_deref()
    }

    /// Records that its wrapper was started.
    pub(super) fn record_start(&mut self, child: Child, bell: Option<WrapperWaker>) {
        self.bell = bell;
        if let Ok(Some(process)) = ProcessHandle::from_child(child.id()) {
            self.wrapper = WrapperProcess::Known(Arc::new(process));
        }
        self.child = Some(child);
        self.in_flight = false;
    }

    /// Rings its wrapper's bell; true if there was one and the wrapper certainly hears it.
    pub(super) fn wake_wrapper(&mut self) -> bool {
        self.bell.take().is_some_and(WrapperWaker::wake_wrapper)
    }

    /// Returns true while a file is awaited that must appear soon.
    pub(super) fn awaits_file_soon(&self) -> bool {
        match self.seen {
            AttemptObservation::Starting => true,
            AttemptObservation::Ready(_) => self.opened,
            _ => false,
        }
    }

    pub(super) fn encode_entry(&self, tag: AttemptTag) -> Vec<u8> {
        let mut out = Vec::new();
        push_line(
            &mut out,
            "processors",
            &self.resources.processors.to_string(),
        );
        push_line(&mut out, "longest_ms", &self.longest.0.to_string());
        push_line(&mut out, "until_ms", &self.until.0.to_string());
        if let Some(tag) = &self.reservation {
            push_line(&mut out, "reservation", tag);
        }
        for (name, count) in &self.resources.others {
            push_line(&mut out, "other", &format!("{count} {name}"));
        }
        push_end_line(&mut out, tag);
        out
    }

    /// Reads an entry that another process made. They are put in place complete; if one is damaged
    /// all the same, we only know that the attempt is there.
    pub(super) fn read_entry(bytes: &[u8], tag: AttemptTag) -> Self {
        let LiveAttemptFile {
            resources,
            longest,
            until,
            reservation,
        } = decode_entry(bytes, tag).unwrap_or_default();
        let longest = longest.unwrap_or(DurationMs(u64::MAX));
        let until = until.unwrap_or(Timestamp(u64::MAX));
        Self {
            in_flight: false,
            until,
            reservation,
            ..Self::new(resources, longest)
        }
    }

    /// Returns true if this process submits it, or knows its wrapper.
    pub(super) fn is_of_this_process(&self) -> bool {
        self.in_flight || self.child.is_some() || self.wrapper().is_some()
    }

    /// Returns the wrapper, if it is known and may live.
    pub(super) fn wrapper(&self) -> Option<&Arc<ProcessHandle>> {
        match &self.wrapper {
            WrapperProcess::Known(process) => Some(process),
            WrapperProcess::Unknown | WrapperProcess::Gone => None,
        }
    }

    /// Returns true if its wrapper has certainly ended. `ended` says so of a known wrapper.
    fn has_wrapper_ended(&mut self, ended: bool) -> io::Result<bool> {
        match (&self.wrapper, &mut self.child) {
            (WrapperProcess::Known(_), _) if !ended => Ok(false),
            (_, Some(child)) => Ok(child.try_wait()?.is_some()),
            (WrapperProcess::Known(_) | WrapperProcess::Gone, None) => Ok(true),
            (WrapperProcess::Unknown, None) => Ok(false),
        }
    }

    /// Looks at an attempt whose wrapper is known or cannot be found now. Without `thorough` it
    /// looks only at what costs next to nothing.
    pub(super) fn look_at_attempt(
        &mut self,
        root: &VerifiedSiteRoot,
        tag: AttemptTag,
        wrapper_ended: bool,
        thorough: bool,
    ) -> io::Result<AttemptLookOutcome> {
        if self.has_wrapper_ended(wrapper_ended)? {
            let known = self.remembered_evidence()?;
            return determine_end(root, tag, known).map(|last| self.apply_determined_end(last));
        }
        if !self.has_awaited_file(root, tag, thorough)? {
            return self.end_overrun(root, tag);
        }
        let Some(evidence) = WrapperEvidence::collect_evidence(root, tag)? else {
            return Ok(AttemptLookOutcome::Same);
        };
        self.opened = matches!(evidence.decision, Some((GateState::Opened, _)));
        let before = std::mem::replace(&mut self.seen, evidence.live_observation());
        Ok(if before == self.seen {
            AttemptLookOutcome::Same
        } else {
            AttemptLookOutcome::Changed
        })
    }

    /// Returns what was seen of it, for the case that it recorded no end.
    fn remembered_evidence(&mut self) -> io::Result<RememberedEvidence> {
        let status = match &mut self.child {
            Some(child) => child.try_wait()?,
            None => None,
        };
        let wrapper = status.map(|status| match status.code() {
            Some(code) => WrapperEnd::Exited(code),
            None => WrapperEnd::Killed,
        });
        let has_exited = matches!(wrapper, Some(WrapperEnd::Exited(_)));
        Ok(RememberedEvidence {
            witnessed: self.child.is_some() || matches!(self.wrapper, WrapperProcess::Known(_)),
            began: self.opened || matches!(self.seen, AttemptObservation::Begun(_)),
            wrapper,
            memory_ran_out: !has_exited && self.memory_ran_out(count_killed_for_memory()),
            overran: self.overran,
        })
    }

    /// Returns true if processes were killed for want of memory since it was started or found;
    /// false if the machine does not count them.
    fn memory_ran_out(&self, killed: Option<u64>) -> bool {
        self.killed_before
            .zip(killed)
            .is_some_and(|(before, now)| now > before)
    }

    fn apply_determined_end(&mut self, last: AttemptObservation) -> AttemptLookOutcome {
        match last {
            AttemptObservation::Unknown(_) => {
                self.seen = last;
                AttemptLookOutcome::Same
            }
            _ => AttemptLookOutcome::Ended(last),
        }
    }

    /// Resumes a wrapper that its payload stopped, which would see neither end nor wall time; and
    /// ends an attempt whose payload removed the directory into which its end would be written.
    fn resume_or_end_wrapper(
        &mut self,
        root: &VerifiedSiteRoot,
        tag: AttemptTag,
        since: Instant,
    ) -> io::Result<()> {
        let due = match self.seen_to {
            Some(before) => before + SEES_TO_WRAPPER,
            None => since + SEES_TO_WRAPPER / 4,
        };
        if Instant::now() < due {
            return Ok(());
        }
        self.seen_to = Some(Instant::now());
        self.wrapper()
            .into_iter()
            .for_each(|wrapper| wrapper.resume_if_stopped());
        if !root.exists(&format!("{ATTEMPTS}/{tag}"))? && root.exists(ATTEMPTS)? {
            kill_attempt_processes(root, tag)?;
        }
        Ok(())
    }

    /// Ends a wrapper that does not end its payload in time (because it was stopped, for instance).
    /// Measured since we saw it run, so that nobody who sets a clock ends it.
    fn end_overrun(
        &mut self,
        root: &VerifiedSiteRoot,
        tag: AttemptTag,
    ) -> io::Result<AttemptLookOutcome> {
        // A payload that was let in may have hidden that it began.
        if self.opened || matches!(self.seen, AttemptObservation::Begun(_)) {
            let since = *self.seen_running.get_or_insert_with(Instant::now);
            self.resume_or_end_wrapper(root, tag, since)?;
            let longest = self.longest.0.saturating_add(OVERRUN.0);
            if since.elapsed() > Duration::from_millis(longest) {
                self.overran = true;
                kill_attempt_processes(root, tag)?;
            }
        }
        Ok(AttemptLookOutcome::Same)
    }

    /// Returns true if a file that is awaited has appeared.
    fn has_awaited_file(
        &self,
        root: &VerifiedSiteRoot,
        tag: AttemptTag,
        thorough: bool,
    ) -> io::Result<bool> {
        let awaited = match &self.seen {
            AttemptObservation::Starting => "ready",
            AttemptObservation::Ready(_) if self.opened => "begun",
            // Our decision is known, and a wrapper that decides itself ends.
            AttemptObservation::Ready(_) if !thorough => return Ok(false),
            AttemptObservation::Ready(_) => "decision",
            // The wrapper ends right after writing its last file, and we
            // notice that without the file.
            AttemptObservation::Begun(_) if !thorough => return Ok(false),
            AttemptObservation::Begun(_) => "exit",
            _ => return Ok(true),
        };
        root.exists(&read_evidence::attempt_file_path(tag, awaited))
    }
}

impl LiveAttempt {
    /// Records that it has a process, though no wrapper that is ready.
    pub(super) fn record_process(&mut self) {
        self.without_process = None;
        self.seen = AttemptObservation::Starting;
    }

    /// Handles an entry without `ready` and process: the wrapper ended early, or was never started.
    pub(super) fn handle_missing_process(&mut self, root: &VerifiedSiteRoot, tag: AttemptTag) {
        match root.exists(&format!("{ATTEMPTS}/{tag}")) {
            Ok(true) => self.wrapper = WrapperProcess::Gone,
            Ok(false) => {
                self.seen = AttemptObservation::Absent;
                // Its file carries a time of a clock that may have been set
                // since, so that says nothing.
                let since = *self.without_process.get_or_insert_with(Instant::now);
                let is_made = root.exists(&format!("{LIVE}/{tag}"));
                if since.elapsed() > UNSTARTED_KEPT || is_made.is_ok_and(|made| !made) {
                    self.wrapper = WrapperProcess::Gone;
                }
            }
            Err(error) => self.seen = AttemptObservation::Unknown(error.to_string()),
        }
    }
}

fn decode_entry(bytes: &[u8], tag: AttemptTag) -> Option<LiveAttemptFile> {
    let mut kept = LiveAttemptFile::default();
    complete_lines(bytes, tag)?
        .into_iter()
        .try_for_each(|line| kept.parse_line(line))?;
    Some(kept)
}

/// The content of the file of an entry.
#[derive(Default)]
struct LiveAttemptFile {
    resources: Resources,
    longest: Option<DurationMs>,
    until: Option<Timestamp>,
    reservation: Option<String>,
}

impl LiveAttemptFile {
    fn parse_line(&mut self, line: &str) -> Option<()> {
        match line.split_once(' ')? {
            ("processors", count) => self.resources.processors = count.parse().ok()?,
            ("longest_ms", length) => self.longest = Some(DurationMs(length.parse().ok()?)),
            ("until_ms", time) => self.until = Some(Timestamp(time.parse().ok()?)),
            ("reservation", tag) => self.reservation = Some(tag.to_owned()),
            ("other", rest) => {
                let (count, name) = rest.split_once(' ')?;
                self.resources
                    .others
                    .insert(name.into(), count.parse().ok()?);
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_ran_out_counts_for_all_that_were_there_and_none_that_came_later() {
        let entry = |before| LiveAttempt {
            killed_before: before,
            ..LiveAttempt::new(Resources::processors(1), DurationMs(1))
        };
        let one = entry(Some(7));
        let other = entry(Some(7));
        let later = entry(Some(9));
        let ran_out = [&one, &other, &later].map(|entry| entry.memory_ran_out(Some(9)));
        assert_eq!(ran_out, [true, true, false]);
        assert!(!entry(None).memory_ran_out(Some(9)) && !one.memory_ran_out(None));
    }
}
