//! The answer of a policy: a placement for every component.

use std::collections::BTreeSet;

use crate::ids::PolicyName;
use crate::placed::{DominantRefusal, Placement, PlacementOrigin, PlacementRule};
use crate::units::{DurationMs, Timestamp};

/// A placement for every component of a job. There is no partial plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementPlan {
    /// The policy that made it.
    pub policy: PolicyName,
    /// The rule by which the sites were chosen.
    pub rule: PlacementRule,
    /// Placements by component index. A source that is the execution site itself means that the
    /// content is there already.
    pub placements: Vec<Placement>,
    /// FTT, the job's file transfer time: the longest of its components (KOALA, section 4).
    pub transfer_time: DurationMs,
}

impl PlacementPlan {
    /// Returns JST, the estimated start of a job placed at `placed_at` (JPT).
    pub fn start_time(&self, placed_at: Timestamp) -> Timestamp {
        placed_at + self.transfer_time
    }

    /// Returns what placed the job, to be kept with it.
    pub fn placed_by(&self, refused: Option<DominantRefusal>) -> PlacementOrigin {
        PlacementOrigin {
            policy: self.policy.clone(),
            rule: self.rule,
            refused,
        }
    }

    /// Returns the number of different sites.
    pub fn count_sites(&self) -> usize {
        self.placements
            .iter()
            .map(|placement| &placement.site)
            .collect::<BTreeSet<_>>()
            .len()
    }
}
