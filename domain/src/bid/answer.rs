//! One site's answer to a job.

use thiserror::Error;

use super::dimensions::{Axis, Dimension};
use super::need::{BidAmounts, BidNeed, SiteMeans};
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
    pub amounts: BidAmounts,
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
    /// What would bring it nearer; `None` if it declines, or is at the origin.
    pub nearer: Option<String>,
    /// Nobody said what its processors do: it takes part in what does not ask for that.
    pub lacks_gflops: bool,
}

/// A site's answer to a job. Every index, and so the distance, is a number of 0 or more.
///
/// # Errors
/// It cannot take part.
pub fn bid(need: &BidNeed, offer: &SiteMeans) -> Result<Bid, Decline> {
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
    let adds = Dimension::ALL
        .iter()
        .copied()
        .filter(|dimension| weighted(dimension) > 0.0);
    let on_axes = Dimension::ALL
        .iter()
        .map(|dimension| (dimension.axis(), weighted(dimension)));
    let (x, y, distance) = place(on_axes);
    Ok(Bid {
        farthest: adds.max_by(|a, b| weighted(a).total_cmp(&weighted(b))),
        x,
        y,
        distance,
        amounts: need.amounts.given(offer),
        indices,
    })
}

/// The place of what counts so much on each axis: x, y, and the distance from the origin.
pub(super) fn place(on_axes: impl Iterator<Item = (Axis, f64)> + Clone) -> (f64, f64, f64) {
    let along = |axis: Axis| {
        let on = on_axes.clone().filter(|(of, _)| *of == axis);
        length(on.map(|(_, part)| part))
    };
    let all = on_axes.clone().map(|(_, part)| part);
    (along(Axis::Resources), along(Axis::Data), length(all))
}

/// How far a point is from the origin, in as many dimensions as it has.
fn length(point: impl Iterator<Item = f64>) -> f64 {
    point.map(|part| part * part).sum::<f64>().sqrt()
}

impl Bid {
    /// The index of one dimension.
    pub fn index(&self, dimension: Dimension) -> f64 {
        self.indices[dimension as usize]
    }
}
