//! The progress of a copy. Volatile: after a restart it is watched from the start.

use crate::units::{Bytes, DurationMs, Timestamp};

/// The observations of one try so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyTryProgress {
    /// Bytes that had arrived.
    pub done: Bytes,
    /// The time of the last change of that number, as far as we saw.
    pub moved_at: Timestamp,
}

impl CopyTryProgress {
    /// Starts a try that has not been observed yet.
    pub fn new(now: Timestamp) -> Self {
        Self {
            done: Bytes(0),
            moved_at: now,
        }
    }

    /// Takes an observation, and returns for how long nothing has moved. A number that went down
    /// counts as movement: the try began again.
    pub fn note_progress(&mut self, done: Bytes, now: Timestamp) -> DurationMs {
        if done != self.done {
            *self = Self {
                done,
                moved_at: now,
            };
        }
        now.since(self.moved_at)
    }

    /// Estimates when all will be there, if the rest comes at this pace; `None` if nothing did yet.
    pub fn expected_at(&self, size: Bytes, began: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let spent = u128::from(now.since(began).0);
        let rest = u128::from(size.0.saturating_sub(self.done.0));
        let done = Some(u128::from(self.done.0)).filter(|done| *done > 0)?;
        let wait = (rest * spent).div_ceil(done);
        Some(now + DurationMs(u64::try_from(wait).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_receives_nothing_is_unchanged_for_longer_and_longer() {
        let mut progress = CopyTryProgress::new(Timestamp(0));
        assert_eq!(
            progress.note_progress(Bytes(10), Timestamp(1_000)),
            DurationMs::ZERO
        );
        assert_eq!(
            progress.note_progress(Bytes(10), Timestamp(5_000)),
            DurationMs(4_000)
        );
        assert_eq!(
            progress.note_progress(Bytes(11), Timestamp(6_000)),
            DurationMs::ZERO
        );
    }

    #[test]
    fn a_copy_that_begins_anew_counts_as_moving() {
        let mut progress = CopyTryProgress::new(Timestamp(0));
        progress.note_progress(Bytes(10), Timestamp(1_000));
        assert_eq!(
            progress.note_progress(Bytes(0), Timestamp(9_000)),
            DurationMs::ZERO
        );
    }

    #[test]
    fn a_clock_set_back_does_not_make_a_copy_stall() {
        let mut progress = CopyTryProgress::new(Timestamp(3_600_000));
        assert_eq!(
            progress.note_progress(Bytes(0), Timestamp(0)),
            DurationMs::ZERO
        );
    }

    #[test]
    fn the_rest_is_expected_at_the_pace_so_far() {
        let mut progress = CopyTryProgress::new(Timestamp(0));
        assert_eq!(
            progress.expected_at(Bytes(100), Timestamp(0), Timestamp(500)),
            None
        );
        progress.note_progress(Bytes(25), Timestamp(1_000));
        let expected = progress.expected_at(Bytes(100), Timestamp(0), Timestamp(1_000));
        assert_eq!(expected, Some(Timestamp(4_000)));
    }

    #[test]
    fn what_does_not_come_out_even_is_expected_no_earlier_than_it_can_be() {
        let mut progress = CopyTryProgress::new(Timestamp(0));
        progress.note_progress(Bytes(3), Timestamp(1_000));
        let expected = progress.expected_at(Bytes(4), Timestamp(0), Timestamp(1_000));
        assert_eq!(expected, Some(Timestamp(1_334)));
    }
}
