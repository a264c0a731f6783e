//! Counted tries, and what follows from their number.

use super::parameters::QueueParameters;
use crate::ids::JobId;
use crate::job::spec::Priority;
use crate::units::Timestamp;

/// What follows from a counted try that failed; to be made durable by the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueDecision {
    /// One class up, to the tail there.
    Promote {
        /// Which job.
        job: JobId,
        /// Its new class.
        to: Priority,
    },
    /// Its tries exceed its limit: it fails.
    GiveUp {
        /// Which job.
        job: JobId,
        /// How many tries it had.
        tries: u32,
    },
}

/// Failed tries of one job. Volatile, kept while the job is placed or claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlacementTries {
    /// Since our start.
    pub(super) total: u32,
    /// Class in which it waits, and tries since it came there.
    class: Priority,
    in_class: u32,
    counted_at: Option<Timestamp>,
    /// The job was told what follows and did not answer yet. Told twice it would rise twice,
    /// were it moved back by its user in between.
    told: bool,
}

impl PlacementTries {
    pub(super) fn new(class: Priority) -> Self {
        Self {
            total: 0,
            class,
            in_class: 0,
            counted_at: None,
            told: false,
        }
    }

    /// The job waits in this class now.
    pub(super) fn enter(&mut self, class: Priority) {
        if self.class != class {
            self.class = class;
            self.in_class = 0;
        }
    }

    /// The job took in what it was told, or could not.
    pub(super) fn heard(&mut self) {
        self.told = false;
    }

    /// Counts a failed try, at most one per `scan_interval` (vector QS-9), and
    /// says what follows, unless the job was told and did not answer yet. A limit
    /// that is passed wins over a promotion (PR-4).
    /// `None`: not counted; `Some(None)`: counted, nothing follows.
    pub(super) fn count(
        &mut self,
        job: JobId,
        max_tries: Option<u32>,
        parameters: &QueueParameters,
        now: Timestamp,
    ) -> Option<Option<QueueDecision>> {
        if self
            .counted_at
            .is_some_and(|last| now.since(last) < parameters.scan_interval)
        {
            return None;
        }
        self.counted_at = Some(now);
        self.total = self.total.saturating_add(1);
        self.in_class = self.in_class.saturating_add(1);
        let decision = self
            .follows(job, max_tries, parameters)
            .filter(|_| !self.told);
        self.told |= decision.is_some();
        Some(decision)
    }

    fn follows(
        &self,
        job: JobId,
        max_tries: Option<u32>,
        parameters: &QueueParameters,
    ) -> Option<QueueDecision> {
        let max_tries = max_tries.or(parameters.max_placement_tries);
        if max_tries.is_some_and(|max| self.total > max) {
            return Some(QueueDecision::GiveUp {
                job,
                tries: self.total,
            });
        }
        let due = parameters
            .promote_after
            .is_some_and(|after| self.in_class >= after);
        let up = promoted(self.class).filter(|_| due);
        up.map(|to| QueueDecision::Promote { job, to })
    }
}

/// The class that a promotion leads to; super-low is never promoted (vector PR-2).
fn promoted(class: Priority) -> Option<Priority> {
    match class {
        Priority::Low => Some(Priority::High),
        Priority::High => Some(Priority::SuperHigh),
        Priority::SuperHigh | Priority::SuperLow => None,
    }
}
