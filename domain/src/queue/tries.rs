//! Counts failed tries, and decides what follows from their number.

use super::queue_parameters::QueueParameters;
use crate::ids::JobId;
use crate::job::spec::Priority;
use crate::units::Timestamp;

/// The consequence of a counted try that failed. The job makes it durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueDecision {
    /// The job moves up one class, to the tail there.
    Promote {
        job: JobId,
        /// The class that it moves to.
        to: Priority,
    },
    /// The job fails, because its tries exceed its limit.
    GiveUp {
        job: JobId,
        /// Tries that it had.
        tries: u32,
    },
}

/// The failed tries of one job. Volatile, kept while the job is placed or claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlacementTries {
    /// Counted since our start.
    pub(super) total: u32,
    /// The class in which it waits. `in_class` counts the tries since it came there.
    class: Priority,
    in_class: u32,
    counted_at: Option<Timestamp>,
    /// True from the moment the job gets a decision until it answers. A second one in between would
    /// promote it twice, if its user moved it back meanwhile.
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

    /// Notes the class in which the job waits now.
    pub(super) fn enter_class(&mut self, class: Priority) {
        if self.class != class {
            self.class = class;
            self.in_class = 0;
        }
    }

    /// Notes that the job applied its decision, or could not.
    pub(super) fn clear_pending(&mut self) {
        self.told = false;
    }

    /// Counts a failed try, at most one per `scan_interval` (vector QS-9), and returns what
    /// follows, unless the job has a decision that it has not answered. A limit that is passed wins
    /// over a promotion (PR-4). `None`: not counted; `Some(None)`: counted, nothing follows.
    pub(super) fn count_failed(
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
            .decision_due(job, max_tries, parameters)
            .filter(|_| !self.told);
        self.told |= decision.is_some();
        Some(decision)
    }

    fn decision_due(
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
        let up = promoted_class(self.class).filter(|_| due);
        up.map(|to| QueueDecision::Promote { job, to })
    }
}

/// Returns the class that a promotion leads to; super-low is never promoted (vector PR-2).
fn promoted_class(class: Priority) -> Option<Priority> {
    match class {
        Priority::Low => Some(Priority::High),
        Priority::High => Some(Priority::SuperHigh),
        Priority::SuperHigh | Priority::SuperLow => None,
    }
}
