//! When a job that no round has covered is announced again.

use std::collections::BTreeMap;

use crate::ids::JobId;
use crate::units::{DurationMs, Timestamp};

/// Jobs that wait, each with what was known when its last round ended.
///
/// What brings a job back is what resource managers report, counted as `changes`, or that by
/// what is known it would be covered now, since another job gave back what it had. Never the
/// release of what a round deducted for itself: that would chase its own tail.
#[derive(Debug, Clone, Default)]
pub struct Resubmissions(BTreeMap<JobId, EndedRound>);

#[derive(Debug, Clone, Copy)]
struct EndedRound {
    at: Timestamp,
    changes: u64,
    /// It would be covered by now, and was not announced only since its interval is not over.
    put_off: bool,
}

impl Resubmissions {
    /// Whether the job may be announced now: it is new; or its last round is an interval ago,
    /// and so many changes were reported that some are since then. It is tried without any
    /// when there is `cause`: tries are counted, or it would be covered.
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

    /// Whether it was announced before.
    pub fn is_known(&self, job: JobId) -> bool {
        self.0.contains_key(&job)
    }

    /// A round did not cover the job.
    pub fn refused(&mut self, job: JobId, changes: u64, now: Timestamp) {
        self.0.insert(
            job,
            EndedRound {
                at: now,
                changes,
                put_off: false,
            },
        );
    }

    /// The job would be covered, but may not be announced yet: it is once its interval is over.
    pub fn put_off(&mut self, job: JobId) {
        if let Some(ended) = self.0.get_mut(&job) {
            ended.put_off = true;
        }
    }

    /// The job has a place, or waits no more; whether it was announced before.
    pub fn forget(&mut self, job: JobId) -> bool {
        self.0.remove(&job).is_some()
    }

    /// When, after now, the next one may be announced again by what was reported already.
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
        let mut waiting = Resubmissions::default();
        let may = |waiting: &Resubmissions, changes, now| {
            waiting.may_announce(JOB, changes, false, INTERVAL, Timestamp(now))
        };
        assert!(may(&waiting, 0, 0), "it is new");
        waiting.refused(JOB, 3, Timestamp(500));
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
        waiting.put_off(JOB);
        assert_eq!(
            waiting.next_due(3, INTERVAL, Timestamp(600)),
            Some(Timestamp(1_500))
        );
        waiting.refused(JOB, 3, Timestamp(1_500));
        assert_eq!(
            waiting.next_due(3, INTERVAL, Timestamp(1_500)),
            None,
            "it was tried"
        );
        assert!(waiting.is_known(JOB) && waiting.forget(JOB) && !waiting.forget(JOB));
        assert!(may(&waiting, 0, 0), "it is new again");
    }
}
