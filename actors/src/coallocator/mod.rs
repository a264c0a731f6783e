//! The co-allocator: takes jobs from the placement queues and finds sites for all their components,
//! on a snapshot of what is known.

mod barred_owners;
mod bid_rounds;
#[cfg(test)]
mod bid_rounds_tests;
mod coallocator_actor;
mod crash_suspects;
mod estimate;
mod explain;
mod past_jobs;
mod placement_changes;
mod shared_reservation_admission;
mod start_forecast;
#[cfg(test)]
mod tests;

pub use coallocator_actor::{AskQueueStanding, CoAllocator};
pub(crate) use crash_suspects::CrashSuspects;
pub use estimate::StartEstimate;
pub use explain::{
    ExpectedTransfer, JobExplanation, SiteFigures, WaitCause, explain_in_full, explain_unsubmitted,
    explain_without_estimate,
};
pub(crate) use placement_changes::follow_commit;
pub use start_forecast::{StartForecaster, UnsubmittedJob};
