//! What is kept of a placement with the job: where its components went, by which rule, and
//! what kept them from other sites.
//!
//! [`crate::placement`] works it out, [`crate::job`] keeps it; this module uses neither.

mod code;
mod rule;

pub use code::ReasonCode;
pub use rule::PlacementRule;

use crate::acquire::Acquisition;
use crate::content::{Chunk, Content};
use crate::ids::{PolicyName, SiteName};
use crate::units::DurationMs;

/// Where a component goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The execution site.
    pub site: SiteName,
    /// Each content it needs there, and the site it comes from.
    pub sources: Vec<ContentSource>,
    /// Estimated time until all of it is there.
    pub transfer_time: DurationMs,
    /// Processors of a flexible request's total that it gets here; `None` where the
    /// request names the processors of each component.
    pub share: Option<u32>,
    /// How it gets its processors there.
    pub acquisition: Acquisition,
}

/// Content that a placed component needs at its site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentSource {
    /// What.
    pub content: Content,
    /// The file site.
    pub from: SiteName,
    /// If it is a chunk of a file: of which, and which.
    pub chunk: Option<Chunk>,
}

/// What placed a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedBy {
    /// The policy.
    pub policy: PolicyName,
    /// The rule of it that counts for the whole job.
    pub rule: PlacementRule,
    /// What kept most of the sites that were refused; `None` if none was, or in records of
    /// before that was kept.
    pub refused: Option<DominantRefusal>,
}

/// What kept most of the refused sites from a job when it was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DominantRefusal {
    /// The worst reason of each of those sites.
    pub code: ReasonCode,
    /// How many sites that is true of.
    pub sites: u32,
}
