//! The times at which a job that no round has covered is announced again.

use std::collections::BTreeMap;

use crate::ids::JobId;
use crate::units::{DurationMs, Timestamp};

/// Waiting jobs, each with what was known when its last round ended.
///
/// A job comes back when batch systems report something new (counted as `changes`), or when by what
/// is known it would now be covered, as another job gave back what it had. The release of a round's
/// own deductions must not count: it would trigger the next round forever.
#[derive(Debug, Clone, Default)]
pub struct BidResubmissions(BTreeMap<JobId, EndedBidRound>);

#[derive(Debug, Clone, Copy)]
struct EndedBidRound {
    at: Timestamp,
    changes: u64,
    /// True if it would be covered by now, and waits only for its interval to end.
    put_off: bool,
}

impl BidResubmissions {
    /// Returns true if the job may be announced now: it is new, or its last round is an interval
    /// ago and changes were reported since. With a `cause` no change is needed: tries are counted,
    /// or the job would be covered.
    pub fn may_announce(
        &self,
        job: JobId,
        changes: u64,
        cause: bool,
        interval: DurationMs,
        now: Timestamp,
    ) -> bool {
        self.0
            .get(&job)
            .is_none_or(|ended| (cause || changes > ended.changes) && now >= ended.at + interval)
    }

    /// Returns true if it was announced before.
    pub fn is_known(&self, job: JobId) -> bool {
        self.0.contains_key(&job)
    }

    /// Records that a round did not cover the job.
    pub fn record_refusal(&mut self, job: JobId, changes: u64, now: Timestamp) {
        self.0.insert(
            job,
            EndedBidRound {
                at: now,
                changes,
                put_off: false,
            },
        );
    }

    /// Records that the job would be covered, and is announced once its interval is over.
    pub fn mark_postponed(&mut self, job: JobId) {
        if let Some(ended) = self.0.get_mut(&job) {
            ended.put_off = true;
        }
    }

    /// Forgets a job that was placed or no longer waits; returns true if it was announced before.
    pub fn forget(&mut self, job: JobId) -> bool {
        self.0.remove(&job).is_some()
    }

    /// Returns when, after `now`, the next job may be announced again on the strength of past
    /// reports.
    pub fn next_due(
        &self,
        changes: u64,
        interval: DurationMs,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let waiting = self
            .0
            .values()
            .filter(|ended| ended.put_off || changes > ended.changes);
        waiting
            .map(|ended| ended.at + interval)
            .filter(|due| *due > now)
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: DurationMs = DurationMs(1_000);
    const JOB: JobId = JobId(1);

    #[test]
    fn a_job_comes_back_once_something_was_reported_and_not_more_often() {
        let mut waiting = BidResubmissions::default();
        let may = |waiting: &BidResubmissions, changes, now| {
            waiting.may_announce(JOB, changes, false, INTERVAL, Timestamp(now))
        };
        assert!(may(&waiting, 0, 0), "it is new");
        waiting.record_refusal(JOB, 3, Timestamp(500));
        assert!(!may(&waiting, 3, 9_000), "nothing was reported");
        assert_eq!(waiting.next_due(3, INTERVAL, Timestamp(500)), None);
        assert!(!may(&waiting, 4, 1_499), "at most one round an interval");
        assert_eq!(
            waiting.next_due(4, INTERVAL, Timestamp(1_499)),
            Some(Timestamp(1_500))
        );
        assert_eq!(
            waiting.next_due(4, INTERVAL, Timestamp(1_500)),
            None,
            "it is tried now"
        );
        assert!(may(&waiting, 4, 1_500));
        assert!(
            waiting.may_announce(JOB, 3, true, INTERVAL, Timestamp(1_500)),
            "in its turn"
        );
        assert!(!waiting.may_announce(JOB, 4, true, INTERVAL, Timestamp(1_499)));
        waiting.mark_postponed(JOB);
        assert_eq!(
            waiting.next_due(3, INTERVAL, Timestamp(600)),
            Some(Timestamp(1_500))
        );
        waiting.record_refusal(JOB, 3, Timestamp(1_500));
        assert_eq!(
            waiting.next_due(3, INTERVAL, Timestamp(1_500)),
            None,
            "it was tried"
        );
        assert!(waiting.is_known(JOB) && waiting.forget(JOB) && !waiting.forget(JOB));
        assert!(may(&waiting, 0, 0), "it is new again");
    }
}
