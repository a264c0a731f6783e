//! The deductions from one site.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;

use super::DeductionKey;
use crate::resources::Resources;

/// The amounts of a deduction, by who must not hand them out again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeductedAmounts {
    /// Resources that policies must not place again. It excludes what a job's record already shows
    /// as placed there.
    pub placing: Resources,
    /// Resources that claims must not find idle. A plan that is only proposed deducts none: between
    /// placement and claim processors are left to those that claim theirs.
    pub claiming: Resources,
}

impl DeductedAmounts {
    /// Makes the deduction for a plan that is proposed.
    pub fn for_proposal(resources: Resources) -> Self {
        Self {
            placing: resources,
            claiming: Resources::default(),
        }
    }

    /// Makes the deduction for a claim where the component was placed.
    pub fn for_claim(resources: Resources) -> Self {
        Self {
            placing: Resources::default(),
            claiming: resources,
        }
    }

    /// Makes the deduction for a claim where the component was not placed.
    pub fn for_moved_claim(resources: Resources) -> Self {
        Self {
            placing: resources.clone(),
            claiming: resources,
        }
    }

    pub fn add_deducted(&mut self, more: &Self) {
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

/// The deduction for one plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeductionEntry {
    pub(super) deducted: DeductedAmounts,
    /// True once the site has acknowledged that the plan goes there.
    pub(super) is_held: bool,
}

/// The deductions from one site.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SiteDeductions {
    entries: BTreeMap<DeductionKey, DeductionEntry>,
    /// The sum of all entries, stored because it is read for every plan.
    sum: DeductedAmounts,
}

impl SiteDeductions {
    /// Returns the sum of all deductions.
    pub fn total_deducted(&self) -> &DeductedAmounts {
        &self.sum
    }

    /// Returns the deduction for a plan.
    pub fn deducted_for(&self, key: &DeductionKey) -> Option<&DeductedAmounts> {
        self.entries.get(key).map(|entry| &entry.deducted)
    }

    /// Returns true if the site has acknowledged that the plan goes there.
    pub(super) fn is_acknowledged_for(&self, key: &DeductionKey) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.is_held)
    }

    /// Lists the deductions by plan.
    pub fn entries(&self) -> impl Iterator<Item = (&DeductionKey, &DeductedAmounts)> {
        self.entries
            .iter()
            .map(|(key, entry)| (key, &entry.deducted))
    }

    /// Subtracts from `free` all that is deducted for plans other than this one.
    pub fn subtract_others(&self, free: &mut Resources, key: &DeductionKey) {
        let Some(own) = self.deducted_for(key) else {
            return free.subtract(&self.sum.placing);
        };
        let mut others = self.sum.placing.clone();
        others.subtract(&own.placing);
        free.subtract(&others);
    }

    /// Replaces the deduction for the plan; returns true if there was none before.
    pub(super) fn set_entry(&mut self, key: DeductionKey, entry: DeductionEntry) -> bool {
        let place = self.entries.entry(key);
        if let Place::Occupied(before) = &place {
            self.sum.subtract(&before.get().deducted);
        }
        self.sum.add_deducted(&entry.deducted);
        match place {
            Place::Occupied(mut before) => drop(before.insert(entry)),
            Place::Vacant(place) => {
                place.insert(entry);
                return true;
            }
        }
        false
    }

    /// Removes the deduction for the plan; returns true if there was one.
    pub(super) fn remove_entry(&mut self, key: &DeductionKey) -> bool {
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
