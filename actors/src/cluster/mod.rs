//! The site actors, one per site: all calls to it, the one loop that polls it, its record.

mod actor;
mod bidding;
mod calls;
mod calm;
mod contact;
mod gauges;
mod learning;
#[cfg(test)]
mod learning_tests;
mod own_probe;
#[cfg(test)]
mod own_probe_tests;
mod poll;
mod reach;
#[cfg(test)]
mod reach_tests;
mod reconcile;
mod record;
mod seen;
mod shared_reservations;
mod slots;
#[cfg(test)]
mod tests;

pub use actor::ClusterActor;
pub(crate) use bidding::{Announcement, BidReply, BidResponse, Bidding};
pub use calls::Call;
pub use record::{AskAdmission, AttemptOver, ErrorCharge, NotificationSent, SiteCommandMessage};
pub(crate) use slots::free_slots;
