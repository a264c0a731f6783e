//! The answer of one site to a job.

use thiserror::Error;

use super::dimensions::{Dimension, MapAxis};
use super::needs_and_means::{BidAmounts, BidNeed, SiteSupply};
use crate::ids::SiteName;

/// A bid: the distance of a site from what a job needs, and what it could give.
#[derive(Debug, Clone, PartialEq)]
pub struct Bid {
    /// The index of each dimension, unweighted, in the order of [`Dimension::ALL`].
    pub indices: [f64; Dimension::COUNT],
    /// The computation index: what the site lacks.
    pub x: f64,
    /// The data index: what bringing the job's input costs.
    pub y: f64,
    /// The dimension that adds most to the distance; `None` if none does.
    pub farthest: Option<Dimension>,
    /// Distance of the point on the map from the origin.
    pub distance: f64,
    /// The amounts that the site gives, of those that the job asks for.
    pub amounts: BidAmounts,
}

/// The reason why a site does not bid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum BidRefusal {
    /// No processor is free.
    #[error("it has no free processor")]
    NothingFree,
    /// The job asks for GFLOPS, and those of the site are unknown.
    #[error("nobody said how many GFLOPS its processors do")]
    NoGflops,
    /// An input cannot be brought there.
    #[error("no known bandwidth from where the job's data is")]
    NoBandwidth,
    /// It did not answer in time, or did not acknowledge the job that it was given.
    #[error("it did not answer in time")]
    Silent,
    /// A run time of 0 cannot be measured against.
    #[error("the job says of no time that it runs")]
    NoRunTime,
}

/// The answer of a site.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteBid {
    pub site: SiteName,
    /// The bid, or the reason for declining.
    pub answer: Result<Bid, BidRefusal>,
    /// The remedy that would bring it nearer; `None` if it declines, or is at the origin.
    pub nearer: Option<String>,
    /// True if the speed of its processors is unknown: it takes part unless a job asks for that.
    pub lacks_gflops: bool,
}

/// Computes a site's answer to a job. Every index, and so the distance, is at least 0.
///
/// # Errors
/// The site cannot take part.
pub fn compute_bid(need: &BidNeed, offer: &SiteSupply) -> Result<Bid, BidRefusal> {
    if offer.free.processors == 0 {
        return Err(BidRefusal::NothingFree);
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
    let adds = Dimension::ALL
        .iter()
        .copied()
        .filter(|dimension| counted[*dimension as usize] > 0.0);
    let on_axes = Dimension::ALL
        .iter()
        .map(|dimension| (dimension.axis(), counted[*dimension as usize]));
    let (x, y, distance) = map_point(on_axes);
    Ok(Bid {
        farthest: adds.max_by(|a, b| counted[*a as usize].total_cmp(&counted[*b as usize])),
        x,
        y,
        distance,
        amounts: need.amounts.limited_to_offer(offer),
        indices,
    })
}

/// Returns the point for weighted indices on each axis: x, y, and the distance from the origin.
pub(super) fn map_point(on_axes: impl Iterator<Item = (MapAxis, f64)> + Clone) -> (f64, f64, f64) {
    let all = on_axes.clone().map(|(_, part)| part);
    (
        length_along(on_axes.clone(), MapAxis::Resources),
        length_along(on_axes, MapAxis::Data),
        euclidean_length(all),
    )
}

/// The distance of a point from the origin in the dimensions of one axis.
fn length_along(on_axes: impl Iterator<Item = (MapAxis, f64)>, axis: MapAxis) -> f64 {
    let on = on_axes.filter(|(of, _)| *of == axis);
    euclidean_length(on.map(|(_, part)| part))
}

/// Returns the distance of a point from the origin, in any number of dimensions.
fn euclidean_length(point: impl Iterator<Item = f64>) -> f64 {
    point.map(|part| part * part).sum::<f64>().sqrt()
}

impl Bid {
    /// The index of one dimension.
    pub fn index(&self, dimension: Dimension) -> f64 {
        self.indices[dimension as usize]
    }
}
