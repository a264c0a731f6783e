//! Resources that a component needs or a site has: counts by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Name under which a component asks for computing power, which its processors must have together.
/// It is a demand on them, and is not taken beside them.
pub const GFLOPS: &str = "gflops";

/// Name under which memory is counted, in MB.
pub const MEMORY: &str = "memory_mb";

/// A vector of counted resources: processors, and any other count by name
/// (`memory_mb`, `disk_mb`, `gpus`, ...). A name that is missing counts as zero.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Resources {
    /// Processors; policies order sites and components by them.
    pub processors: u32,
    /// The other counts, without zeros.
    pub others: BTreeMap<Arc<str>, u64>,
}

impl Resources {
    /// Returns so many processors, and nothing else.
    pub fn processors(processors: u32) -> Self {
        Self {
            processors,
            others: BTreeMap::new(),
        }
    }

    /// Returns the count of a resource other than processors.
    pub fn other(&self, name: &str) -> u64 {
        self.others.get(name).copied().unwrap_or(0)
    }

    /// Returns the resources that are taken of a site: all but computing power, which comes with
    /// the processors.
    pub fn without_computing_power(&self) -> Self {
        let mut counts = self.clone();
        counts.others.remove(GFLOPS);
        counts
    }

    /// Returns the first resource of which `need` wants more than there is here.
    pub fn first_shortage(&self, need: &Resources) -> Option<ResourceShortage> {
        shortage_of("processors", need.processors.into(), self.processors.into()).or_else(|| {
            need.others
                .iter()
                .find_map(|(name, &needed)| shortage_of(name, needed, self.other(name)))
        })
    }

    /// Returns true if all of `need` is here.
    pub fn covers(&self, need: &Resources) -> bool {
        self.first_shortage(need).is_none()
    }

    /// Returns the part that belongs to so many of its processors: other counts in proportion,
    /// rounded up.
    pub fn portion_for(&self, processors: u32) -> Self {
        Self {
            processors,
            others: self
                .others
                .iter()
                .map(|(name, count): (&Arc<str>, &u64)| {
                    (name.clone(), self.proportional_count(*count, processors))
                })
                .collect(),
        }
    }

    /// Returns the part of a count that belongs to so many of its processors, rounded up.
    pub fn proportional_count(&self, count: u64, processors: u32) -> u64 {
        let whole = u128::from(self.processors.max(1));
        let part = (u128::from(count) * u128::from(processors)).div_ceil(whole);
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// Returns the most processors whose [`Resources::portion_for`] fits, where `processors` are left,
    /// and of another resource as much as `other` says.
    pub fn max_processors_for(&self, processors: u32, mut other: impl FnMut(&str) -> u64) -> u32 {
        let whole = u128::from(self.processors);
        let bounds = self
            .others
            .iter()
            .filter_map(|(name, &count): (&Arc<str>, &u64)| {
                (u128::from(other(name)) * whole).checked_div(u128::from(count))
            });
        let most = bounds.fold(u128::from(processors), u128::min);
        u32::try_from(most).unwrap_or(u32::MAX)
    }

    /// Sets all counts to zero.
    pub fn clear(&mut self) {
        self.processors = 0;
        if !self.others.is_empty() {
            self.others.clear();
        }
    }

    /// Subtracts `used`; never below zero.
    pub fn subtract(&mut self, used: &Resources) {
        self.processors = self.processors.saturating_sub(used.processors);
        for (name, count) in &used.others {
            if let Some(mine) = self.others.get_mut(name) {
                *mine = mine.saturating_sub(*count);
            }
        }
    }

    /// Lowers each count to that of `most`.
    pub fn limit_to(&mut self, most: &Resources) {
        self.processors = self.processors.min(most.processors);
        for (name, mine) in &mut self.others {
            *mine = (*mine).min(most.other(name));
        }
    }

    /// Raises each count to that of `least`.
    pub fn raise_to(&mut self, least: &Resources) {
        self.processors = self.processors.max(least.processors);
        for (name, count) in &least.others {
            let mine = self.others.entry(name.clone()).or_default();
            *mine = (*mine).max(*count);
        }
    }

    /// Adds `more`.
    pub fn add(&mut self, more: &Resources) {
        self.processors = self.processors.saturating_add(more.processors);
        for (name, count) in &more.others {
            let mine = self.others.entry(name.clone()).or_default();
            *mine = mine.saturating_add(*count);
        }
    }
}

fn shortage_of(name: &str, needed: u64, available: u64) -> Option<ResourceShortage> {
    (needed > available).then(|| ResourceShortage {
        resource: name.into(),
        needed,
        available,
    })
}

/// A shortage: a resource of which there is not enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceShortage {
    pub resource: Arc<str>,
    /// The count that is needed.
    pub needed: u64,
    /// The count that is available.
    pub available: u64,
}

impl fmt::Display for ResourceShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "needs {} {}, has {}",
            self.needed, self.resource, self.available
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(processors: u32, gpus: u64) -> Resources {
        Resources {
            processors,
            others: [("gpus".into(), gpus)].into(),
        }
    }

    #[test]
    fn a_shortage_names_the_resource_and_both_numbers() {
        let shortage = vector(8, 1).first_shortage(&vector(4, 2)).unwrap();
        assert_eq!(shortage.to_string(), "needs 2 gpus, has 1");
    }

    #[test]
    fn a_site_that_never_mentions_a_resource_has_none_of_it() {
        assert!(!Resources::processors(8).covers(&vector(1, 1)));
        assert!(Resources::processors(8).covers(&vector(8, 0)));
    }

    #[test]
    fn a_portion_of_the_most_processors_is_there_and_of_one_more_is_not() {
        let asked = vector(10, 4);
        assert_eq!(asked.portion_for(3), vector(3, 2));
        for gpus in 0..6 {
            let most = asked.max_processors_for(8, |_| gpus);
            assert!(
                vector(8, gpus).covers(&asked.portion_for(most)),
                "{gpus} gpus: {most}"
            );
            assert!(
                most == 8 || !vector(8, gpus).covers(&asked.portion_for(most + 1)),
                "{gpus}"
            );
        }
    }

    #[test]
    fn what_is_taken_and_given_back_leaves_the_site_as_it_was() {
        let mut site = vector(8, 4);
        site.subtract(&vector(3, 2));
        assert_eq!(site, vector(5, 2));
        site.add(&vector(3, 2));
        assert_eq!(site, vector(8, 4));
    }
}
