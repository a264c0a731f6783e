//! Placement: choosing the site of each component, and the sources of its files.
//!
//! A policy reads an immutable [`GridSnapshot`] and a [`PlacementRequest`], takes what it uses from
//! a working copy ([`Remaining`]), and answers with a whole [`PlacementPlan`] or a [`PlacementRefusal`] that changed
//! nothing. The same code explains itself to an [`Observer`]. Absent on purpose: anything that
//! claims processors (see [`crate::claim`]) and any order between jobs (see [`crate::queue`]).
//!
//! To add a policy, add its file in [`policies`] and one line in the list there.

pub mod bidding;
pub mod dominant;
pub mod estimate;
pub mod grid;
mod group;
pub mod history;
pub mod network;
mod obstacles;
mod pairs;
mod parts;
pub mod plan;
pub mod policies;
pub mod policy;
mod pool;
mod queues;
pub mod quota;
pub mod reach;
pub mod reason;
pub mod remaining;
pub mod request;
mod reserving;
pub mod search;
pub mod split;
pub mod submission;
mod suppose;
mod suspects;

pub use bidding::{AnnouncedNeed, BidBasis, GivenBid, takes_bids};
pub use dominant::dominant_refusal;
pub use grid::{
    Belief, GridSite, GridSnapshot, Hindrance, PlacementAcceptance, Replicas, SiteShape,
    StagedLookup,
};
pub use history::PairHistory;
pub use network::{BandwidthKind, BidBandwidths, Link, Network};
pub use parts::{could_take_part, place_parts};
pub use plan::PlacementPlan;
pub use policy::{
    DefaultPolicies, PlacementContext, Policy, UnknownPolicy, find_policy, place, place_now,
    policy_for,
};
pub use pool::Pool;
pub use queues::queue_instead;
pub use quota::{Quota, QuotaBasis};
pub use reach::{MissingLink, missing_link};
pub use reason::{Observer, PlacementRefusal, Reason, Recorder, Silent, SiteVerdict, Suitability};
pub use remaining::Remaining;
pub use request::{ComponentRequest, PlacementRequest};
pub use reserving::{could_be_reserved, place_within, rank_to_reserve, rank_unreserved};
pub use submission::{Unplaceable, can_ever_be_placed, closed_site, may_try_out};

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;
