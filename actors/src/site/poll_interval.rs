//! Makes looks rare where nothing happens.
//!
//! While a job waits for placement, processors freed anywhere are worth knowing soon. At a site
//! that only we use, and that reports again and again that nothing is in use, nothing can be freed.

use cospan_domain::units::DurationMs;

/// The number of such answers after which looks become half as frequent.
const ANSWERS: u32 = 2;
/// The longest pause between two looks: a fault of the site itself must be seen as well.
const PAUSE_MAX: DurationMs = DurationMs(15_000);

/// The number of answers, since something last happened at the site, by which nothing is in use.
#[derive(Debug, Default)]
pub(super) struct CalmAnswerCount(u32);

impl CalmAnswerCount {
    /// Notes that something happened, or may have.
    pub(super) fn note_activity(&mut self) {
        self.0 = 0;
    }

    /// Counts an answer if nothing is in use; else starts again.
    pub(super) fn count_answer(&mut self, is_calm: bool) {
        self.0 = if is_calm { self.0.saturating_add(1) } else { 0 };
    }

    /// Returns the pause until the next look at this site, where other sites have the pause `soon`.
    pub(super) fn pause_between_looks(&self, soon: DurationMs) -> DurationMs {
        let doubled = soon.0.saturating_mul(1 << (self.0 / ANSWERS).min(16));
        DurationMs(doubled.min(PAUSE_MAX.0).max(soon.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rare_while_nothing_happens_and_are_as_before_once_something_does() {
        let soon = DurationMs(2_000);
        let mut calm = CalmAnswerCount::default();
        let mut pauses = Vec::new();
        for _ in 0..20 {
            pauses.push(calm.pause_between_looks(soon).0);
            calm.count_answer(true);
        }
        assert!(pauses.is_sorted());
        assert_eq!(
            (pauses[..4].to_vec(), pauses[19]),
            (vec![2_000, 2_000, 4_000, 4_000], 15_000)
        );
        calm.count_answer(false);
        assert_eq!(calm.pause_between_looks(soon), soon);
        (0..20).for_each(|_| calm.count_answer(true));
        calm.note_activity();
        assert_eq!(calm.pause_between_looks(soon), soon);
        // One that is asked more seldom anyhow is not asked more often.
        assert_eq!(
            calm.pause_between_looks(DurationMs(60_000)),
            DurationMs(60_000)
        );
    }
}
