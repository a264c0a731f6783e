//! Bandwidth between sites, dense so that a policy can look at every pair.

use std::collections::BTreeMap;

use crate::ids::SiteName;
use crate::transfer::links::Links;
use crate::units::BitsPerSecond;

/// Measured or configured bandwidth of ordered pairs of sites. A pair that is
/// not known carries nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Network {
    /// Sites with at least one link, by name.
    names: Vec<SiteName>,
    /// Row: from; column: to.
    bandwidth: Vec<BitsPerSecond>,
}

impl Network {
    /// From links (from, to, bandwidth); the last one of a pair counts.
    pub fn from_links(
        links: impl IntoIterator<Item = (SiteName, SiteName, BitsPerSecond)>,
    ) -> Self {
        let links: Vec<_> = links.into_iter().collect();
        let mut index: BTreeMap<SiteName, usize> =
            links.iter().flat_map(|(from, to, _)| [(from.clone(), 0), (to.clone(), 0)]).collect();
        index.values_mut().enumerate().for_each(|(position, slot)| *slot = position);
        let size = index.len();
        let mut bandwidth = vec![BitsPerSecond(0); size * size];
        for (from, to, rate) in &links {
            if let (Some(from), Some(to)) = (index.get(from), index.get(to)) {
                bandwidth[from * size + to] = *rate;
            }
        }
        Self { names: index.into_keys().collect(), bandwidth }
    }

    /// From what was measured or configured.
    pub fn of(links: &Links) -> Self {
        Self::from_links(links.iter().map(|(from, to, rate)| (from.clone(), to.clone(), rate)))
    }

    /// Bandwidth from one site to another; 0 if it is not known.
    pub fn bandwidth(&self, from: &SiteName, to: &SiteName) -> BitsPerSecond {
        match (self.position(from), self.position(to)) {
            (Some(from), Some(to)) => self.between(from, to),
            _ => BitsPerSecond(0),
        }
    }

    /// Where a site stands in the table, if it has any link.
    pub(super) fn position(&self, site: &SiteName) -> Option<usize> {
        self.names.binary_search(site).ok()
    }

    /// Bandwidth by positions.
    pub(super) fn between(&self, from: usize, to: usize) -> BitsPerSecond {
        self.bandwidth[from * self.names.len() + to]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> SiteName {
        SiteName::new(text).unwrap()
    }

    #[test]
    fn a_link_has_a_direction_and_an_unknown_one_carries_nothing() {
        let network = Network::from_links([
            (name("b"), name("a"), BitsPerSecond(5)),
            (name("a"), name("c"), BitsPerSecond(7)),
        ]);
        assert_eq!(network.bandwidth(&name("b"), &name("a")), BitsPerSecond(5));
        assert_eq!(network.bandwidth(&name("a"), &name("b")), BitsPerSecond(0));
        assert_eq!(network.bandwidth(&name("a"), &name("z")), BitsPerSecond(0));
    }
}
