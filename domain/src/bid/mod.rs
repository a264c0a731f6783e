//! Bids: the distance of each site from what a job needs, over several resources at once (MRS,
//! multiple resource scheduling on a virtual map).
//!
//! A site answers [`compute_bid`] for itself, from what it alone knows; whoever places the job only
//! sorts, with [`rank_bids`]. Both are pure functions. [`BidRound`] counts a round of messages; a
//! site keeps what was announced to it at its [`JobAnnouncements`]; [`BidResubmissions`] decides
//! when a job is announced again. Absent on purpose: deductions while a round lasts (see
//! [`crate::deduction`]).
//!
//! To add a dimension, add its file in `dimensions` and one line in the list of [`Dimension`].

mod announcements;
mod bid_order;
mod bid_remedy;
mod bid_round;
mod dimensions;
mod fragment;
mod needs_and_means;
mod resubmission;
mod site_bid;
mod weights;

pub use announcements::{AnnouncementRefusal, JobAnnouncements};
pub use bid_order::rank_bids;
pub use bid_remedy::suggest_remedy;
pub use bid_round::BidRound;
pub use dimensions::{Dimension, MapAxis};
pub use fragment::split_in_order;
pub use needs_and_means::{BidAmounts, BidNeed, BidTerms, InputRoute, SiteSupply};
pub use resubmission::BidResubmissions;
pub use site_bid::{Bid, BidRefusal, SiteBid, compute_bid};
pub use weights::{DimensionWeight, DimensionWeightError, DimensionWeights};

#[cfg(test)]
mod tests;
