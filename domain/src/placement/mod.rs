//! Placement: choosing the site of each component, and the sources of its files.
//!
//! A policy reads an immutable [`GridSnapshot`] and a [`PlacementRequest`], takes what it uses from
//! a working copy ([`RemainingResources`]), and answers with a whole [`PlacementPlan`] or a
//! [`PlacementRefusal`] that changed nothing. The same code explains itself to an
//! [`VerdictObserver`]. Absent on purpose: anything that claims processors (see [`crate::claim`])
//! and any order between jobs (see [`crate::queue`]).
//!
//! To add a policy, add its file in [`policies`] and one line in the list there.

mod barred_owners;
pub mod bounded_split;
mod counterfactual;
pub mod dominant;
pub mod estimate;
pub mod grid;
pub mod history;
pub mod missing_links;
pub mod network;
mod obstacles;
mod part_placement;
mod partition_pool;
pub mod placement_by_bids;
pub mod placement_plan;
pub mod placement_request;
pub mod policies;
pub mod policy;
pub mod reason;
pub mod remaining;
mod reservation_sites;
mod site_group;
mod site_pairs;
mod site_queues;
pub mod site_quota;
pub mod site_search;
pub mod unplaceable;

pub use dominant::dominant_refusal;
pub use grid::{
    GridSite, GridSnapshot, LoadReport, PlacementAcceptance, PlacementHindrance, ReplicaLookup,
    SiteProperties, StagedContentLookup,
};
pub use history::SitePairHistory;
pub use missing_links::{MissingLink, find_missing_link};
pub use network::{BandwidthKind, BidBandwidthChoice, SiteLink, SiteNetwork};
pub use part_placement::{place_parts, sites_for_parts};
pub use partition_pool::PartitionPool;
pub use placement_by_bids::{AnnouncedNeed, BidRoundBasis, BidWithResources, is_placed_by_bids};
pub use placement_plan::PlacementPlan;
pub use placement_request::{ComponentRequest, PlacementRequest};
pub use policy::{
    PlacementContext, PlacementDefaults, Policy, PolicyChoiceError, find_policy, place_on_idle,
    policy_for, try_to_place,
};
pub use reason::{
    PlacementRefusal, RefusalReason, SilentObserver, SiteSuitability, SiteVerdict, VerdictObserver,
    VerdictRecorder,
};
pub use remaining::RemainingResources;
pub use reservation_sites::{
    could_be_reserved, place_on_resources, rank_reservable_sites, rank_unreserved_sites,
};
pub use site_queues::place_in_queues_instead;
pub use site_quota::{QuotaBasis, SiteQuota};
pub use unplaceable::{
    UnplaceableError, check_placeable, find_closed_site, fits_any_site, may_try_out_any,
};

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;
