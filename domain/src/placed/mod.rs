//! The part of a placement that is kept with the job: the sites of its components, the rule that
//! chose them, and the main reason against the other sites.
//!
//! [`crate::placement`] computes it, [`crate::job`] keeps it; this module uses neither.

mod policy_rule;
mod reason_code;

pub use policy_rule::PlacementRule;
pub use reason_code::ReasonCode;

use crate::acquisition::Acquisition;
use crate::content::{Content, FileChunk};
use crate::ids::{PolicyName, SiteName};
use crate::units::DurationMs;

/// The placement of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub site: SiteName,
    /// The content that it needs there, each with the site it comes from.
    pub sources: Vec<ContentSource>,
    /// Estimated time until all of it is at the site.
    pub transfer_time: DurationMs,
    /// Processors of a flexible request's total that it gets here; `None` where the request gives
    /// the processors of each component.
    pub share: Option<u32>,
    /// The way in which it gets its processors there.
    pub acquisition: Acquisition,
}

/// Content that a placed component needs at its site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentSource {
    pub content: Content,
    pub from: SiteName,
    /// If it is a chunk of a file: of which, and which one.
    pub chunk: Option<FileChunk>,
}

/// The policy and rule that placed a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementOrigin {
    pub policy: PolicyName,
    /// The rule that counts for the whole job.
    pub rule: PlacementRule,
    /// The main reason for refused sites; `None` if none was refused, or in records older than this
    /// field.
    pub refused: Option<DominantRefusal>,
}

/// The reason that most of the refused sites had when a job was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DominantRefusal {
    /// The code; each site counts with its worst reason.
    pub code: ReasonCode,
    /// The number of sites with it.
    pub sites: u32,
}
