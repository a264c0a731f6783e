//! The site actors, one per site: all calls to it, the one loop that polls it, its record.

mod calls;
mod contact;
mod file_inspections;
mod job_interest;
mod latency;
#[cfg(test)]
mod latency_tests;
mod own_probe;
#[cfg(test)]
mod own_probe_tests;
mod partition_experience;
#[cfg(test)]
mod partition_experience_tests;
mod poll;
mod poll_interval;
mod reconcile;
mod shared_reservations;
mod site_actor;
mod site_bids;
mod site_changes;
mod site_metrics;
mod site_record;
mod slots;
#[cfg(test)]
mod tests;

pub use crate::awaited_inspections::InspectionState;
pub use calls::SiteCallMessage;
pub(crate) use file_inspections::inspect_file;
pub use site_actor::ClusterActor;
pub(crate) use site_bids::{BidReply, BidReplyContent, BiddingMessage, JobAnnouncement};
pub(crate) use site_changes::follow_commit;
pub use site_record::{
    AskAdmission, AttemptOver, ErrorCharge, NotificationSent, SiteCommandMessage,
};
pub(crate) use slots::free_slots;
