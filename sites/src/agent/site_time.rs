//! A site's clock, corrected for steps.
//!
//! The times of a site are those of its files. A clock that somebody sets makes the old ones wrong.
//! So each answer also says for how long the machine that gave it has run. Where the clock differs
//! from that it was set, and we leave out the difference from then on.

use std::collections::BTreeMap;

use cospan_domain::ids::AttemptTag;
use cospan_domain::units::{ClockSkew, Timestamp};
use tracing::warn;

use super::SiteAgentAnswer;
use super::attempt_remains::seconds_to_timestamp;

/// A clock that is off by more than this, and one part in a thousand, was set.
const STEP_MS: u64 = 2_000;
/// Two looks at the uptime must be no further apart, in ms: otherwise they do not say when the
/// clock was read in between.
const READ_MS: u64 = 1_000;

/// The state of a site's clock.
#[derive(Debug, Default)]
pub(crate) struct SiteClockState {
    /// The sum of all steps since the clock was first read.
    set: ClockSkew,
    last: Option<ClockReading>,
    step: Option<ClockStep>,
    /// Times of files that were seen before: as written, and corrected.
    files: BTreeMap<(AttemptTag, String), (Timestamp, Timestamp)>,
}

/// A reading of a site's clock.
#[derive(Debug)]
struct ClockReading {
    clock: Timestamp,
    /// The uptime of its machine.
    up: Timestamp,
    boot: String,
}

/// The last time that the clock was set.
#[derive(Debug)]
struct ClockStep {
    /// The latest time that it can have shown before the step.
    before: Timestamp,
    set_before: ClockSkew,
}

impl ClockReading {
    fn from_answer(answer: &SiteAgentAnswer) -> Option<Self> {
        let clock = answer.last_value("clock").and_then(seconds_to_timestamp)?;
        let mut words = answer.last_value("uptime")?.split(' ');
        let before = words.next().and_then(seconds_to_timestamp)?;
        let up = words.next().and_then(seconds_to_timestamp)?;
        let boot = words.next()?.to_owned();
        (up.since(before).0 <= READ_MS).then_some(Self { clock, up, boot })
    }
}

impl SiteClockState {
    /// Takes an answer into account and returns what its clock shows.
    pub(crate) fn read_clock(&mut self, answer: &SiteAgentAnswer) -> Option<Timestamp> {
        let clock = answer.last_value("clock").and_then(seconds_to_timestamp)?;
        if let Some(reading) = ClockReading::from_answer(answer) {
            self.detect_step(&reading);
            self.last = Some(reading);
        }
        Some(clock)
    }

    fn detect_step(&mut self, reading: &ClockReading) {
        let Some(last) = self.last.as_ref().filter(|last| last.boot == reading.boot) else {
            return;
        };
        let elapsed = ClockSkew::between(reading.up, last.up);
        let expected = last.clock + elapsed;
        let by = ClockSkew::between(reading.clock, expected);
        if by.0.unsigned_abs() > STEP_MS + elapsed.0.unsigned_abs() / 1_000 {
            warn!(
                by_ms = by.0,
                "the clock of a site was set; its times go on without that"
            );
            self.step = Some(ClockStep {
                before: expected,
                set_before: self.set,
            });
            self.set = ClockSkew(self.set.0.saturating_add(by.0));
        }
    }

    /// Corrects a time that the clock shows.
    pub(crate) fn to_corrected_time(&self, shown: Timestamp) -> Timestamp {
        shown - self.set
    }

    /// Returns what the clock shows at a corrected time.
    pub(crate) fn to_clock_time(&self, steady: Timestamp) -> Timestamp {
        steady + self.set
    }

    /// Returns the corrected time of a file of an attempt. It never changes
    /// once the file has been seen.
    pub(crate) fn file_time(
        &mut self,
        tag: AttemptTag,
        name: &str,
        written: Timestamp,
    ) -> Timestamp {
        let key = (tag, name.to_owned());
        if let Some((_, steady)) = self.files.get(&key).filter(|(seen, _)| *seen == written) {
            return *steady;
        }
        let steady = written - self.correction_at(written);
        self.files.insert(key, (written, steady));
        steady
    }

    /// Returns the correction for a file that was written at this time and
    /// is seen for the first time.
    fn correction_at(&self, written: Timestamp) -> ClockSkew {
        let now = self.last.as_ref().map(|last| last.clock);
        match &self.step {
            // Set forward: it shows nothing between.
            Some(step) if self.set > step.set_before && written <= step.before => step.set_before,
            // Set back: nothing is written after now.
            Some(step) if self.set < step.set_before && now.is_some_and(|now| written > now) => {
                step.set_before
            }
            _ => self.set,
        }
    }

    /// Forgets the files of an attempt that is removed.
    pub(crate) fn forget_attempt(&mut self, tag: AttemptTag) {
        self.files.retain(|(of, _), _| *of != tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_S: i64 = 3_600;
    const MONTH_S: i64 = 30 * 24 * HOUR_S;

    fn tag() -> AttemptTag {
        "cabcdefgh-1-0-1".parse().unwrap()
    }

    /// An answer after so many seconds of a machine that started at 1000 by a clock that is so far
    /// ahead.
    fn clock_answer(up_s: i64, ahead_s: i64) -> SiteAgentAnswer {
        let clock = 1_800_000_000 + up_s + ahead_s;
        SiteAgentAnswer(format!(
            "clock {clock}.250\nuptime {up_s}.100 {up_s}.200 boot"
        ))
    }

    fn clock_time(up_s: i64, ahead_s: i64) -> Timestamp {
        seconds_to_timestamp(&format!("{}.250", 1_800_000_000 + up_s + ahead_s)).unwrap()
    }

    fn read_corrected_time(time: &mut SiteClockState, up_s: i64, ahead_s: i64) -> Timestamp {
        let shown = time.read_clock(&clock_answer(up_s, ahead_s)).unwrap();
        time.to_corrected_time(shown)
    }

    #[test]
    fn a_clock_that_is_set_changes_no_age() {
        for set_s in [HOUR_S, -HOUR_S, MONTH_S, -MONTH_S, -1_800_000_000 + 10] {
            let mut time = SiteClockState::default();
            assert_eq!(
                read_corrected_time(&mut time, 1_000, 0),
                clock_time(1_000, 0)
            );
            let before = time.file_time(tag(), "ready", clock_time(990, 0));
            // Written between two looks, before the clock was set and after.
            assert_eq!(
                read_corrected_time(&mut time, 1_020, set_s),
                clock_time(1_020, 0),
                "{set_s}"
            );
            let late = time.file_time(tag(), "decision", clock_time(1_010, 0));
            let after = time.file_time(tag(), "begun", clock_time(1_015, set_s));
            assert_eq!(
                (late, after),
                (clock_time(1_010, 0), clock_time(1_015, 0)),
                "{set_s}"
            );
            assert_eq!(time.file_time(tag(), "ready", clock_time(990, 0)), before);
            // And back again.
            assert_eq!(
                read_corrected_time(&mut time, 5_000, 0),
                clock_time(5_000, 0),
                "{set_s}"
            );
            assert_eq!(
                time.file_time(tag(), "begun", clock_time(1_015, set_s)),
                after,
                "{set_s}"
            );
            assert_eq!(
                time.file_time(tag(), "exit", clock_time(4_999, 0)),
                clock_time(4_999, 0),
                "{set_s}"
            );
        }
    }

    #[test]
    fn what_is_told_in_our_time_is_shown_by_the_clock_as_it_is_now() {
        let mut time = SiteClockState::default();
        let first = read_corrected_time(&mut time, 1_000, 0);
        read_corrected_time(&mut time, 1_010, HOUR_S);
        assert_eq!(time.to_clock_time(first), clock_time(1_000, HOUR_S));
    }

    #[test]
    fn corrections_are_followed_and_another_machine_says_nothing_of_this_one() {
        let mut time = SiteClockState::default();
        read_corrected_time(&mut time, 1_000, 0);
        assert_eq!(
            read_corrected_time(&mut time, 1_010, 1),
            clock_time(1_010, 1),
            "a second"
        );
        assert_eq!(
            read_corrected_time(&mut time, 11_010, 6),
            clock_time(11_010, 6),
            "five in three hours"
        );
        let other = SiteAgentAnswer("clock 1800005000.0\nuptime 7.000 7.100 other".to_owned());
        let shown = time.read_clock(&other).unwrap();
        assert_eq!(time.to_corrected_time(shown), Timestamp(1_800_005_000_000));
        let slow = SiteAgentAnswer("clock 1800009000.0\nuptime 8.000 12.100 other".to_owned());
        let shown = time.read_clock(&slow).unwrap();
        assert_eq!(
            time.to_corrected_time(shown),
            shown,
            "it took long between the looks"
        );
        let silent = SiteAgentAnswer("clock 1.0".to_owned());
        assert_eq!(time.read_clock(&silent), Some(Timestamp(1_000)));
    }
}
