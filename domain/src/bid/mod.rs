//! Bids: how far each site is from what a job needs, over several resources at once (MRS,
//! multiple resource scheduling on a virtual map).
//!
//! A site answers [`bid`] for itself, from what it alone knows; whoever places the job only
//! sorts, with [`choose`]. Both are functions of their arguments. Absent on purpose: what is
//! promised while a round lasts, and the messages of one.
//!
//! To add a dimension, add its file in `dimensions` and one line in the list of
//! [`Dimension`].

mod answer;
mod choose;
mod dimension;
mod dimensions;
mod fragment;
mod need;
mod weights;

pub use answer::{Bid, Decline, SiteBid, bid};
pub use choose::choose;
pub use dimension::{Axis, Dimension};
pub use fragment::fragment;
pub use need::{Amounts, Need, Offer, Route, Terms};
pub use weights::{Weight, WeightError, Weights};

#[cfg(test)]
mod tests;
