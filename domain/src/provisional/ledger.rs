//! What is deducted from one site.

use std::collections::BTreeMap;

use super::DeductionKey;
use crate::resources::Resources;

/// How much a deduction takes, by who must not promise it again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Deducted {
    /// Of what policies may promise. What a job's record shows as placed there already is
    /// none of it.
    pub placing: Resources,
    /// Of what claims find idle. A plan that is only offered takes none of it: between
    /// placement and claim processors are left to those that claim theirs.
    pub claiming: Resources,
}

impl Deducted {
    /// A plan is offered.
    pub fn offered(resources: Resources) -> Self {
        Self { placing: resources, claiming: Resources::default() }
    }

    /// What was placed there is claimed.
    pub fn claimed(resources: Resources) -> Self {
        Self { placing: Resources::default(), claiming: resources }
    }

    /// What was placed elsewhere is claimed there.
    pub fn moved(resources: Resources) -> Self {
        Self { placing: resources.clone(), claiming: resources }
    }

    /// Adds `more`.
    pub fn add(&mut self, more: &Self) {
        self.placing.add(&more.placing);
        self.claiming.add(&more.claiming);
    }

    fn subtract(&mut self, less: &Self) {
        self.placing.subtract(&less.placing);
        self.claiming.subtract(&less.claiming);
    }
}

/// The ledger of one site.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    entries: BTreeMap<DeductionKey, Deducted>,
    /// Of all entries, kept: it is read for every plan.
    sum: Deducted,
}

impl Ledger {
    /// All that is deducted.
    pub fn sum(&self) -> &Deducted {
        &self.sum
    }

    /// What is deducted for a plan.
    pub fn get(&self, key: &DeductionKey) -> Option<&Deducted> {
        self.entries.get(key)
    }

    /// Each deduction.
    pub fn entries(&self) -> impl Iterator<Item = (&DeductionKey, &Deducted)> {
        self.entries.iter()
    }

    /// From now on this is deducted for the plan, and nothing that was before.
    pub(super) fn set(&mut self, key: DeductionKey, deducted: Deducted) {
        self.remove(&key);
        self.sum.add(&deducted);
        self.entries.insert(key, deducted);
    }

    pub(super) fn remove(&mut self, key: &DeductionKey) -> Option<Deducted> {
        let removed = self.entries.remove(key)?;
        match self.entries.is_empty() {
            true => self.sum = Deducted::default(),
            false => self.sum.subtract(&removed),
        }
        Some(removed)
    }
}
