//! Repetition of effects that failed or came to nothing yet.

use std::collections::BTreeMap;

use cospan_domain::job::job_due::{JobEffect, JobEffectKind};
use cospan_domain::units::{DurationMs, Timestamp};

/// The longest pause; the first one doubles until then.
const LONGEST: DurationMs = DurationMs(30_000);
/// The longest pause for a gate: soon it is too late to open it.
const GATE_LONGEST: DurationMs = DurationMs(5_000);

/// Effects that failed or must be repeated: the time before which each is not made again, and its
/// last pause.
#[derive(Debug, Default)]
pub(super) struct EffectRetryPauses(BTreeMap<JobEffect, (Timestamp, DurationMs)>);

impl EffectRetryPauses {
    /// Puts off an effect that was carried out, or failed. If it is still due it is not made again
    /// for `first`, or for longer if it came to nothing before.
    pub(super) fn put_off_effect(&mut self, effect: &JobEffect, first: DurationMs, now: Timestamp) {
        let longest = match effect.kind {
            JobEffectKind::OpenGate => GATE_LONGEST,
            _ => LONGEST,
        };
        let (_, last) = self.0.get(effect).copied().unwrap_or_default();
        let pause = first.max(longest.min(last + last));
        self.0.insert(effect.clone(), (now + pause, pause));
    }

    /// Forgets effects that are no longer due.
    pub(super) fn retain_due(&mut self, due: &[JobEffect]) {
        self.0.retain(|effect, _| due.contains(effect));
    }

    /// Returns true if it is too soon for an effect.
    pub(super) fn is_too_soon(&self, effect: &JobEffect, now: Timestamp) -> bool {
        self.0.get(effect).is_some_and(|(until, _)| *until > now)
    }

    /// Returns the next time at which an effect that was put off may be made again.
    pub(super) fn next_retry_time(&self, now: Timestamp) -> Option<Timestamp> {
        self.0
            .values()
            .map(|(until, _)| *until)
            .filter(|until| *until > now)
            .min()
    }
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::{Attempt, ComponentIndex};

    use super::*;

    /// Seconds between one time and the next at which it is made, if it is made whenever it may be.
    fn retry_pauses(
        again: &mut EffectRetryPauses,
        kind: JobEffectKind,
        first: u64,
        times: usize,
    ) -> Vec<u64> {
        let effect = JobEffect {
            component: ComponentIndex(0),
            attempt: Attempt(1),
            kind,
        };
        let mut now = Timestamp(0);
        let mut pauses = Vec::new();
        for _ in 0..times {
            again.put_off_effect(&effect, DurationMs::from_secs(first), now);
            assert!(again.is_too_soon(&effect, now));
            let next = again.next_retry_time(now).expect("it is made again");
            assert!(!again.is_too_soon(&effect, next));
            pauses.push(next.since(now).0 / 1_000);
            now = next;
        }
        pauses
    }

    #[test]
    fn what_comes_to_nothing_is_asked_for_ever_more_seldom() {
        let of = |kind, first, times| {
            retry_pauses(&mut EffectRetryPauses::default(), kind, first, times)
        };
        assert_eq!(of(JobEffectKind::End, 5, 5), [5, 10, 20, 30, 30]);
        assert_eq!(of(JobEffectKind::OpenGate, 1, 5), [1, 2, 4, 5, 5]);
        assert_eq!(of(JobEffectKind::LookUp, 60, 2), [60, 60]);
    }

    #[test]
    fn what_was_not_due_for_a_while_is_asked_for_as_soon_as_at_first() {
        let mut again = EffectRetryPauses::default();
        retry_pauses(&mut again, JobEffectKind::End, 5, 5);
        again.retain_due(&[]);
        assert_eq!(retry_pauses(&mut again, JobEffectKind::End, 5, 2), [5, 10]);
    }
}
