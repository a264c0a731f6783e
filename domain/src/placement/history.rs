//! The history table of Close-to-Files (KOALA, section 4.3).

use std::collections::BTreeSet;

use crate::ids::SiteName;

/// H: the pairs of an execution site and a file site that Close-to-Files considers. It grows with
/// each placement and is volatile: after a restart it is the seed again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SitePairHistory {
    /// Every pair, also of sites that join later.
    #[default]
    All,
    /// These pairs (execution site, file site).
    Pairs(BTreeSet<(SiteName, SiteName)>),
}

impl SitePairHistory {
    /// Returns true if it has the pair.
    pub fn contains_pair(&self, execution: &SiteName, file: &SiteName) -> bool {
        match self {
            SitePairHistory::All => true,
            SitePairHistory::Pairs(pairs) => pairs.contains(&(execution.clone(), file.clone())),
        }
    }

    /// Adds a pair; returns true if it is new.
    pub fn insert_pair(&mut self, execution: SiteName, file: SiteName) -> bool {
        match self {
            SitePairHistory::All => false,
            SitePairHistory::Pairs(pairs) => pairs.insert((execution, file)),
        }
    }
}
