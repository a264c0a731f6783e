//! Bids: the distance of each site from what a job needs, over several resources at once (MRS,
//! multiple resource scheduling on a virtual map).
//!
//! A site answers [`bid`] for itself, from what it alone knows; whoever places the job only sorts,
//! with [`choose`]. Both are pure functions. [`BidRound`] counts a round of messages; a site keeps
//! what was announced to it at its [`Announcements`]; [`Resubmissions`] decides when a job is announced
//! again. Absent on purpose: deductions while a round lasts (see [`crate::provisional`]).
//!
//! To add a dimension, add its file in `dimensions` and one line in the list of [`Dimension`].

mod answer;
mod choose;
mod desk;
mod dimensions;
mod fragment;
mod need;
mod remedy;
mod resubmission;
mod round;
mod weights;

pub use answer::{Bid, Decline, SiteBid, bid};
pub use choose::choose;
pub use desk::{Announcements, Unheard};
pub use dimensions::{Axis, Dimension};
pub use fragment::fragment;
pub use need::{BidAmounts, BidNeed, Route, SiteMeans, Terms};
pub use remedy::remedy;
pub use resubmission::Resubmissions;
pub use round::BidRound;
pub use weights::{Weight, WeightError, Weights};

#[cfg(test)]
mod tests;
