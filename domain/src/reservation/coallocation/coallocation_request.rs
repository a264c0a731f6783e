//! The request of a co-allocation.

use std::cmp::Reverse;

use thiserror::Error;

use crate::ids::{ComponentIndex, SiteName};
use crate::reservation::agreement::StartWindow;
use crate::reservation::candidates::SiteRanking;
use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

/// A part of a job, which gets one reservation: a "job" of the paper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoallocationPart {
    /// The component that it is.
    pub component: ComponentIndex,
    pub resources: Resources,
    pub length: DurationMs,
    /// The sites that can run it, the best first.
    pub sites: Vec<SiteName>,
    /// Time from the common start to its own start (the paper's future work); zero for all is the
    /// published algorithm.
    pub offset: DurationMs,
}

/// A job that is to be co-allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coallocation {
    /// The parts, in the order in which they are served: see [`sort_largest_first`].
    pub parts: Vec<CoallocationPart>,
    /// [Te, Tl]: the starts that the user accepts.
    pub window: StartWindow,
    /// The largest distance between two starts: eps.
    pub tolerance: DurationMs,
    /// The least step by which the search moves on; at least 1 ms.
    pub unit: DurationMs,
    /// The most windows that are tried.
    pub windows_max: u32,
    /// The ranking of the sites, by part. None: the order has no known reason. With a single part
    /// all sites are asked, or the best, and what they grant decides.
    pub rankings: Vec<SiteRanking>,
}

/// The reason why a job cannot be co-allocated, whatever the sites answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CoallocationError {
    /// There is nothing to reserve.
    #[error("there is no component to reserve for")]
    NoParts,
    /// Te > Tl.
    #[error("the latest start is before the earliest; give a later one")]
    LatestBeforeEarliest,
    /// Tl has passed.
    #[error("the latest start has passed; give a later one")]
    InThePast,
    /// Tl - Te < eps.
    #[error("starts may be {tolerance} apart, but the window is only {window} long; widen it")]
    ShorterThanTolerance {
        /// eps.
        tolerance: DurationMs,
        /// Tl - Te.
        window: DurationMs,
    },
}

impl Coallocation {
    /// Checks a request before any site is asked.
    ///
    /// # Errors
    /// There are no parts, or no start can be granted.
    pub fn check_request(&self, now: Timestamp) -> Result<(), CoallocationError> {
        let StartWindow { earliest, latest } = self.window;
        let tolerance = self.tolerance;
        let window = latest.since(earliest);
        match () {
            () if self.parts.is_empty() => Err(CoallocationError::NoParts),
            () if earliest > latest => Err(CoallocationError::LatestBeforeEarliest),
            () if latest < now => Err(CoallocationError::InThePast),
            () if window < tolerance => {
                Err(CoallocationError::ShorterThanTolerance { tolerance, window })
            }
            () => Ok(()),
        }
    }
}

/// Sorts parts into the order in which they are best served: most processors, most memory, longest
/// (section 3.3.4); equal ones stay as they were. `memory`: the name under which memory is counted.
pub fn sort_largest_first(parts: &mut [CoallocationPart], memory: &str) {
    parts.sort_by_key(|part| {
        let resources = &part.resources;
        Reverse((resources.processors, resources.other(memory), part.length))
    });
}
