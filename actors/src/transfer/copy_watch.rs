//! A copy under way as it looks from here: volatile, watched anew after a restart.

use cospan_domain::transfer::copy_state::TryNonce;
use cospan_domain::transfer::stall_clock::CopyTryProgress;
use cospan_domain::units::{Bytes, DurationMs, Timestamp};

/// Observations of the try under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopyTryWatch {
    nonce: TryNonce,
    progress: CopyTryProgress,
    began: Timestamp,
    /// The first observation: bytes that were there before say nothing about the pace.
    base: Option<(Bytes, Timestamp)>,
    /// The site did not answer last time: so an absence of new bytes says nothing.
    blind: bool,
}

impl CopyTryWatch {
    /// The shortest and the longest pause between two looks at a copy.
    pub(super) const POLL_MIN: DurationMs = DurationMs(100);
    const POLL_MAX: DurationMs = DurationMs(5_000);

    /// Begins to watch a try.
    pub(super) fn new(nonce: TryNonce, now: Timestamp) -> Self {
        Self {
            nonce,
            progress: CopyTryProgress::new(now),
            began: now,
            base: None,
            blind: false,
        }
    }

    /// Returns true if this is the try that is watched.
    pub(super) fn is_for_try(&self, nonce: TryNonce) -> bool {
        self.nonce == nonce
    }

    /// Notes that the site did not answer.
    pub(super) fn excuse_next_stall(&mut self) {
        self.blind = true;
    }

    /// Takes an observation; returns for how long nothing has arrived.
    pub(super) fn note_bytes_done(&mut self, done: Bytes, now: Timestamp) -> DurationMs {
        if std::mem::take(&mut self.blind) {
            self.progress.moved_at = now;
        }
        if self.base.is_none_or(|(base, _)| done < base) {
            self.base = Some((done, now));
        }
        self.progress.note_progress(done, now)
    }

    /// Returns when all is expected to be there, by the pace that was seen.
    pub(super) fn expected_end_by_pace(&self, size: Bytes, now: Timestamp) -> Option<Timestamp> {
        let (base, since) = self.base?;
        let since_base = CopyTryProgress {
            done: Bytes(self.progress.done.0.saturating_sub(base.0)),
            ..self.progress
        };
        let size = Bytes(size.0.saturating_sub(base.0));
        since_base.expected_at(size, since, now)
    }

    /// Returns the bytes that arrived since the first look, and in which time, of a try that is
    /// whole now; `None` if it was not seen to arrive.
    pub(super) fn bytes_moved(&self, size: Bytes, now: Timestamp) -> Option<(Bytes, DurationMs)> {
        let (base, since) = self.base.filter(|_| !self.blind)?;
        Some((Bytes(size.0.saturating_sub(base.0)), now.since(since)))
    }

    /// The bytes seen so far.
    pub(super) fn bytes_done(&self) -> Bytes {
        self.progress.done
    }

    /// Returns when to look again: short copies often, so that they do not keep a job waiting, long
    /// ones seldom, and at the end that is expected.
    pub(super) fn pause_until_look(
        &self,
        expected: Option<Timestamp>,
        now: Timestamp,
    ) -> DurationMs {
        let quarter = DurationMs(now.since(self.began).0 / 4);
        let left = expected.map_or(Self::POLL_MAX, |end| end.since(now));
        quarter.min(left).clamp(Self::POLL_MIN, Self::POLL_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_that_told_nothing_for_long_does_not_make_a_copy_look_stalled() {
        let mut watch = CopyTryWatch::new(TryNonce(1), Timestamp(0));
        assert_eq!(
            watch.note_bytes_done(Bytes(10), Timestamp(1_000)),
            DurationMs::ZERO
        );
        watch.excuse_next_stall();
        assert_eq!(
            watch.note_bytes_done(Bytes(10), Timestamp(600_000)),
            DurationMs::ZERO
        );
        assert_eq!(
            watch.note_bytes_done(Bytes(10), Timestamp(605_000)),
            DurationMs(5_000)
        );
    }

    #[test]
    fn a_copy_that_is_watched_from_its_middle_is_not_expected_too_early() {
        let mut watch = CopyTryWatch::new(TryNonce(1), Timestamp(0));
        watch.note_bytes_done(Bytes(500), Timestamp(10));
        assert_eq!(
            watch.expected_end_by_pace(Bytes(1_000), Timestamp(10)),
            None
        );
        watch.note_bytes_done(Bytes(600), Timestamp(1_010));
        assert_eq!(
            watch.expected_end_by_pace(Bytes(1_000), Timestamp(1_010)),
            Some(Timestamp(5_010))
        );
    }

    #[test]
    fn what_was_there_before_it_was_watched_measures_nothing() {
        let mut watch = CopyTryWatch::new(TryNonce(1), Timestamp(0));
        assert_eq!(watch.bytes_moved(Bytes(1_000), Timestamp(10)), None);
        watch.note_bytes_done(Bytes(400), Timestamp(10));
        let moved = Some((Bytes(600), DurationMs(3_000)));
        assert_eq!(watch.bytes_moved(Bytes(1_000), Timestamp(3_010)), moved);
        watch.excuse_next_stall();
        assert_eq!(
            watch.bytes_moved(Bytes(1_000), Timestamp(9_010)),
            None,
            "it ended unseen"
        );
    }

    #[test]
    fn looks_become_rarer_as_a_copy_takes_longer_but_not_past_its_end() {
        let watch = CopyTryWatch::new(TryNonce(1), Timestamp(0));
        assert_eq!(
            watch.pause_until_look(None, Timestamp(0)),
            CopyTryWatch::POLL_MIN
        );
        assert_eq!(
            watch.pause_until_look(None, Timestamp(4_000)),
            DurationMs(1_000)
        );
        assert_eq!(
            watch.pause_until_look(None, Timestamp(3_600_000)),
            CopyTryWatch::POLL_MAX
        );
        assert_eq!(
            watch.pause_until_look(Some(Timestamp(4_300)), Timestamp(4_000)),
            DurationMs(300)
        );
    }
}
