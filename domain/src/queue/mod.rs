//! The four placement queues, which decide the job that is tried next (KOALA, section 4.4).
//!
//! [`PlacementQueues`] is a fold of the journal: jobs enter, change and leave as their events are
//! committed. A [`Scan`] walks it in slices against one snapshot of the grid and proposes plans one
//! by one. Jobs of one shape fare alike, so a shape that does not fit is tried once per snapshot.
//! Try counts, the cycle's pointer and open proposals are volatile. Their consequences (a
//! promotion, giving up) are returned and made durable elsewhere.

pub mod classes;
pub mod cycle;
pub mod placement_queues;
pub mod queue_pace;
pub mod queue_parameters;
pub mod scan;
pub mod shapes;
pub mod starvation_guard;
pub mod sweep_groups;
pub mod tries;
pub mod waiting_job;

pub use classes::{
    AssignedClass, ClassLimitError, ClassRequest, JobClassProperties, JobClassRule, decide_class,
};
pub use cycle::QueueTurns;
pub use placement_queues::PlacementQueues;
pub use queue_pace::{QueuePace, QueueVisit};
pub use queue_parameters::{ParameterWarning, QueueParameters};
pub use scan::{Proposal, Scan, ScanReport, ScanSliceBudget, ScanStep, ScanTrigger};
pub use starvation_guard::{StarvationGuard, StarvationGuardParameters};
pub use sweep_groups::SweepGroups;
pub use tries::QueueDecision;
pub use waiting_job::{QueueStanding, WaitingCondition, WaitingJob};

#[cfg(test)]
mod tests;
