//! The co-allocator: takes jobs from the placement queues and finds sites for all their components,
//! on a snapshot of what is known.

mod barred_owners;
mod bid_rounds;
#[cfg(test)]
mod bid_rounds_tests;
mod coallocator_actor;
mod division;
mod estimate;
mod explain;
mod grid_snapshot;
mod job_commands;
mod placement_changes;
mod rescheduling;
mod reservation_sites;
mod shared_reservation_admission;
#[cfg(test)]
mod tests;

pub use coallocator_actor::{AskQueueStanding, CoAllocator};
pub use division::DivisionPreview;
pub(crate) use division::preview_unsubmitted_division;
pub use estimate::StartEstimate;
pub use explain::{
    ExpectedTransfer, JobExplanation, SiteFigures, WaitCause, explain_in_full, explain_unsubmitted,
    explain_without_estimate,
};
pub use grid_snapshot::GridSnapshotMaker;
pub(crate) use grid_snapshot::{
    believed_idle, idle_drops_from_now, is_report_current, may_go_to_probed_site, sum_holdings,
};
pub(crate) use placement_changes::follow_commit;
pub(crate) use reservation_sites::preview_ranking;
