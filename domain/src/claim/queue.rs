//! The claiming queue: placed jobs in order of their next try.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::JobId;
use crate::units::Timestamp;

/// Placed jobs by job claiming time (JCT), ties by job id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimingQueue {
    times: BTreeMap<JobId, Timestamp>,
    order: BTreeSet<(Timestamp, JobId)>,
}

impl ClaimingQueue {
    /// Sets the job's next claiming time, whatever it was before.
    pub fn set_time(&mut self, job: JobId, at: Timestamp) {
        self.remove(job);
        self.times.insert(job, at);
        self.order.insert((at, job));
    }

    /// Removes a job that is claimed no more; returns its time, if it was there.
    pub fn remove(&mut self, job: JobId) -> Option<Timestamp> {
        let at = self.times.remove(&job)?;
        self.order.remove(&(at, job));
        Some(at)
    }

    /// Returns when a job is to be claimed next.
    pub fn time_of(&self, job: JobId) -> Option<Timestamp> {
        self.times.get(&job).copied()
    }

    /// Returns when the first job is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.order.first().map(|&(at, _)| at)
    }

    /// Lists jobs that are due, the most overdue first.
    pub fn due_jobs(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, JobId)> + '_ {
        self.order
            .iter()
            .copied()
            .take_while(move |&(at, _)| at <= now)
    }

    /// Returns the number of jobs.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_due_in_order_of_their_claiming_times() {
        let mut queue = ClaimingQueue::default();
        for (job, at) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
            queue.set_time(JobId(job), Timestamp(at));
        }
        queue.set_time(JobId(3), Timestamp(5));
        let due: Vec<u64> = queue
            .due_jobs(Timestamp(10))
            .map(|(_, job)| job.0)
            .collect();
        assert_eq!(due, [3, 2, 4]);
        assert_eq!(queue.next_due(), Some(Timestamp(5)));
        assert_eq!(queue.remove(JobId(3)), Some(Timestamp(5)));
        assert_eq!(queue.remove(JobId(3)), None);
        assert_eq!((queue.len(), queue.next_due()), (3, Some(Timestamp(10))));
        assert_eq!(queue.time_of(JobId(1)), Some(Timestamp(30)));
    }
}
