//! The jobs that run, by id and by expected end.

use std::collections::BTreeMap;

use cospan_domain::units::{DurationMs, Timestamp};

use super::LrmJobId;
use super::nodes::NodeShare;

/// Time from now to the assumed end of a job that has run past its estimate.
pub(super) const OVERRUN: DurationMs = DurationMs(1000);

/// A job that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunningBatchJob {
    pub(super) processors: u32,
    pub(super) start: Timestamp,
    /// Start plus estimate; moved on when the job runs past it.
    pub(super) expected_end: Timestamp,
    pub(super) shares: Vec<NodeShare>,
}

/// A job whose expected end was moved because it passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JobOverrun {
    pub(super) processors: u32,
    pub(super) expected_before: Timestamp,
    pub(super) expected_now: Timestamp,
}

/// All running jobs.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningBatchJobs {
    jobs: BTreeMap<LrmJobId, RunningBatchJob>,
    ends: BTreeMap<(Timestamp, LrmJobId), u32>,
    used: u32,
}

impl RunningBatchJobs {
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Returns the processors of all running jobs.
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    pub(super) fn get(&self, id: LrmJobId) -> Option<&RunningBatchJob> {
        self.jobs.get(&id)
    }

    pub(super) fn insert(&mut self, id: LrmJobId, job: RunningBatchJob) {
        self.used += job.processors;
        self.ends.insert((job.expected_end, id), job.processors);
        self.jobs.insert(id, job);
    }

    pub(super) fn remove(&mut self, id: LrmJobId) -> Option<RunningBatchJob> {
        let job = self.jobs.remove(&id)?;
        self.used -= job.processors;
        self.ends.remove(&(job.expected_end, id));
        Some(job)
    }

    /// Lists the jobs with processors on `node`, in order of id.
    pub(super) fn jobs_on_node(&self, node: u32) -> Vec<LrmJobId> {
        self.jobs
            .iter()
            .filter(|(_, job)| job.shares.iter().any(|share| share.node == node))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Lists expected ends with the processors that become free, soonest first.
    pub(super) fn expected_ends(&self) -> impl Iterator<Item = (Timestamp, u32)> {
        self.ends
            .iter()
            .map(|((end, _), processors)| (*end, *processors))
    }

    /// Moves every expected end before `now` to [`OVERRUN`] after `now`. An end of exactly `now`
    /// may still be reported, so it stays.
    pub(super) fn move_overrun_ends(&mut self, now: Timestamp) -> Vec<JobOverrun> {
        let mut moved = Vec::new();
        while let Some(first) = self.ends.first_entry() {
            let (expected_before, id) = *first.key();
            if expected_before >= now {
                break;
            }
            let processors = first.remove();
            let expected_now = now + OVERRUN;
            self.ends.insert((expected_now, id), processors);
            if let Some(job) = self.jobs.get_mut(&id) {
                job.expected_end = expected_now;
            }
            moved.push(JobOverrun {
                processors,
                expected_before,
                expected_now,
            });
        }
        moved
    }
}
