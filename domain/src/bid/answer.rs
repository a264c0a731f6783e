//! One site's answer to a job.

use thiserror::Error;

use super::dimension::{Axis, Dimension};
use super::need::{Amounts, Need, Offer};
use crate::ids::SiteName;

/// How far a site is from what a job needs, and what it could give.
#[derive(Debug, Clone, PartialEq)]
pub struct Bid {
    /// The index of each dimension, without its weight, in the order of [`Dimension::ALL`].
    pub indices: [f64; Dimension::COUNT],
    /// The computation index: what the site lacks.
    pub x: f64,
    /// The data index: what the job's input costs.
    pub y: f64,
    /// The dimension that adds most to the distance; `None` if nothing does.
    pub farthest: Option<Dimension>,
    /// Distance of the point on the map from its origin.
    pub distance: f64,
    /// Of what the job asks for, what the site gives.
    pub amounts: Amounts,
}

/// Why a site does not bid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum Decline {
    /// It has nothing for the job: no processor is free.
    #[error("it has no free processor")]
    NothingFree,
    /// The job asks for GFLOPS.
    #[error("nobody said how many GFLOPS its processors do")]
    NoGflops,
    /// An input cannot be brought there.
    #[error("no known bandwidth from where the job's data is")]
    NoBandwidth,
    /// It did not answer in time, or did not acknowledge what it was given.
    #[error("it did not answer in time")]
    Silent,
    /// Nothing can be measured by a run time of 0.
    #[error("the job says of no time that it runs")]
    NoRunTime,
}

/// What a site answered.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteBid {
    /// The site.
    pub site: SiteName,
    /// Its bid, or why it declines.
    pub answer: Result<Bid, Decline>,
}

/// A site's answer to a job. Every index, and so the distance, is a number of 0 or more.
///
/// # Errors
/// It cannot take part.
pub fn bid(need: &Need, offer: &Offer) -> Result<Bid, Decline> {
    if offer.free.processors == 0 {
        return Err(Decline::NothingFree);
    }
    let mut indices = [0.0; Dimension::COUNT];
    for dimension in Dimension::ALL {
        indices[*dimension as usize] = dimension.index(need, offer)?;
    }
    let weights = &need.terms.weights;
    let mut counted = indices;
    for dimension in Dimension::ALL {
        counted[*dimension as usize] *= weights.get(*dimension).factor();
    }
    let weighted = |dimension: &Dimension| counted[*dimension as usize];
    let along = |axis: Axis| {
        let on = Dimension::ALL.iter().filter(|dimension| dimension.axis() == axis);
        length(on.map(weighted))
    };
    let adds = Dimension::ALL.iter().copied().filter(|dimension| weighted(dimension) > 0.0);
    Ok(Bid {
        farthest: adds.max_by(|a, b| weighted(a).total_cmp(&weighted(b))),
        x: along(Axis::Resources),
        y: along(Axis::Data),
        distance: length(Dimension::ALL.iter().map(weighted)),
        amounts: need.amounts.given(offer),
        indices,
    })
}

/// How far a point is from the origin, in as many dimensions as it has.
pub(super) fn length(point: impl Iterator<Item = f64>) -> f64 {
    point.map(|part| part * part).sum::<f64>().sqrt()
}

impl Bid {
    /// The index of one dimension.
    pub fn index(&self, dimension: Dimension) -> f64 {
        self.indices[dimension as usize]
    }
}
