//! EASY backfilling: only the head of the queue has a reservation, and others
//! may overtake it if they do not put it off (D. Lifka, "The ANL/IBM SP
//! scheduling system", JSSPP 1995; A. Mu'alem and D. Feitelson, "Utilization,
//! predictability, workloads, and user runtime estimates in scheduling the IBM
//! SP2 with backfilling", IEEE TPDS 12(6), 2001, section 2.2).

use cospan_domain::units::Timestamp;

use super::queue::{LeastNeeds, NEVER, QueuedBatchJob};
use super::running::RunningBatchJobs;

/// The time at which the head of the queue can start by the estimates of the running jobs, and the
/// processors left then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EasyShadow {
    /// Start of the head; never, if the nodes in service are too few.
    pub(super) time: Timestamp,
    /// Processors free at that time beyond what the head needs.
    pub(super) extra: u32,
}

impl EasyShadow {
    /// Computes the shadow of a head that needs `processors`, of which `idle` are free now.
    pub(super) fn of_queue_head(processors: u32, idle: u32, running: &RunningBatchJobs) -> Self {
        let mut free = idle;
        let mut time = None;
        for (end, freed) in running.expected_ends() {
            if time.is_some_and(|time| end > time) {
                break;
            }
            free += freed;
            if free >= processors {
                time = Some(end);
            }
        }
        match time {
            Some(time) => Self {
                time,
                extra: free - processors,
            },
            None => Self {
                time: NEVER,
                extra: 0,
            },
        }
    }

    /// Returns true if a job may overtake the head: it fits now, and either ends by the shadow time
    /// or takes only what the head leaves.
    pub(super) fn may_overtake(&self, least: &LeastNeeds, idle: u32, now: Timestamp) -> bool {
        least.processors <= idle
            && (now + least.estimate <= self.time || least.processors <= self.extra)
    }

    /// Counts a job that overtakes.
    pub(super) fn count_overtaking(&mut self, job: &QueuedBatchJob, now: Timestamp) {
        if now + job.estimate > self.time {
            self.extra -= job.processors;
        }
    }
}
