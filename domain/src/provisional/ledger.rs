//! What is deducted from one site.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;

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
        Self {
            placing: resources,
            claiming: Resources::default(),
        }
    }

    /// What was placed there is claimed.
    pub fn claimed(resources: Resources) -> Self {
        Self {
            placing: Resources::default(),
            claiming: resources,
        }
    }

    /// What was placed elsewhere is claimed there.
    pub fn moved(resources: Resources) -> Self {
        Self {
            placing: resources.clone(),
            claiming: resources,
        }
    }

    /// Adds `more`.
    pub fn add(&mut self, more: &Self) {
        self.placing.add(&more.placing);
        self.claiming.add(&more.claiming);
    }

    fn clear(&mut self) {
        self.placing.clear();
        self.claiming.clear();
    }

    fn subtract(&mut self, less: &Self) {
        self.placing.subtract(&less.placing);
        self.claiming.subtract(&less.claiming);
    }
}

/// What is deducted for one plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeductionEntry {
    pub(super) deducted: Deducted,
    /// The site has acknowledged that the plan goes there.
    pub(super) is_held: bool,
}

/// The ledger of one site.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SiteDeductions {
    entries: BTreeMap<DeductionKey, DeductionEntry>,
    /// Of all entries, kept: it is read for every plan.
    sum: Deducted,
}

impl SiteDeductions {
    /// All that is deducted.
    pub fn sum(&self) -> &Deducted {
        &self.sum
    }

    /// What is deducted for a plan.
    pub fn get(&self, key: &DeductionKey) -> Option<&Deducted> {
        self.entries.get(key).map(|entry| &entry.deducted)
    }

    /// Whether the site has acknowledged that the plan goes there.
    pub(super) fn is_held(&self, key: &DeductionKey) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.is_held)
    }

    /// Each deduction.
    pub fn entries(&self) -> impl Iterator<Item = (&DeductionKey, &Deducted)> {
        self.entries
            .iter()
            .map(|(key, entry)| (key, &entry.deducted))
    }

    /// All that is deducted for others than this plan is taken from what is `free`.
    pub fn take_from(&self, free: &mut Resources, key: &DeductionKey) {
        let Some(own) = self.get(key) else {
            return free.subtract(&self.sum.placing);
        };
        let mut others = self.sum.placing.clone();
        others.subtract(&own.placing);
        free.subtract(&others);
    }

    /// From now on this is deducted for the plan, and nothing that was before; whether nothing
    /// was.
    pub(super) fn set(&mut self, key: DeductionKey, entry: DeductionEntry) -> bool {
        let place = self.entries.entry(key);
        if let Place::Occupied(before) = &place {
            self.sum.subtract(&before.get().deducted);
        }
        self.sum.add(&entry.deducted);
        match place {
            Place::Occupied(mut before) => drop(before.insert(entry)),
            Place::Vacant(place) => {
                place.insert(entry);
                return true;
            }
        }
        false
    }

    /// Nothing is deducted for the plan; whether something was.
    pub(super) fn remove(&mut self, key: &DeductionKey) -> bool {
        let Some(removed) = self.entries.remove(key) else {
            return false;
        };
        if self.entries.is_empty() {
            self.sum.clear();
        } else {
            self.sum.subtract(&removed.deducted);
        }
        true
    }
}
