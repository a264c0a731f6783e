//! Augmenting paths (the broker's paper, section 3.2.3): the parts that could go elsewhere so that
//! a part without a reservation gets one.

use std::collections::{BTreeSet, VecDeque};

use super::coallocation_request::CoallocationPart;
use crate::ids::SiteName;

/// An augmenting path {J1, R1, ..., Jn, Rn}, n >= 2 (Algorithm 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AugmentingPath {
    /// {J1, ..., Jn-1}: each could use the site at which the next one has its reservation.
    pub takers: Vec<usize>,
    /// Jn, which could use a site where it has no reservation.
    pub last: usize,
    /// Rn, that site.
    pub end: SiteName,
}

/// The known parts and sites during a search for paths.
pub(super) struct PartMatching<'a> {
    pub(super) parts: &'a [CoallocationPart],
    /// The site at which each part has a reservation within the window.
    pub(super) held: Vec<Option<&'a SiteName>>,
    /// The sites with any reservation of this request, also outside the window.
    pub(super) ours: BTreeSet<&'a SiteName>,
}

impl PartMatching<'_> {
    /// Returns true if some other part has a reservation at a site that this one can use (Step 13).
    pub(super) fn may_be_augmented(&self, part: usize) -> bool {
        let mut others = self
            .held
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != part);
        others.any(|(_, held)| {
            held.is_some_and(|site: &SiteName| self.parts[part].sites.contains(site))
        })
    }

    /// Finds a shortest path from a part, with sites in rank order and holders in job order. A site
    /// with a reservation of this request is an end only if no path ends at a site without one.
    pub(super) fn shortest_path(&self, part: usize) -> Option<AugmentingPath> {
        self.search_from(part, |site| !self.ours.contains(site))
            .or_else(|| self.search_from(part, |_| true))
    }

    fn search_from(
        &self,
        from: usize,
        is_end: impl Fn(&SiteName) -> bool,
    ) -> Option<AugmentingPath> {
        // By part: the part before it on the path.
        let mut before: Vec<Option<usize>> = vec![None; self.held.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(part) = queue.pop_front() {
            for site in &self.parts[part].sites {
                // The sites that the first part can use refused it, and a holder gains nothing at
                // its own.
                if part != from && self.held[part] != Some(site) && is_end(site) {
                    return Some(trace_path(&before, part, site));
                }
                for (holder, held) in self.held.iter().enumerate() {
                    if holder != from && *held == Some(site) && before[holder].is_none() {
                        before[holder] = Some(part);
                        queue.push_back(holder);
                    }
                }
            }
        }
        None
    }
}

fn trace_path(before: &[Option<usize>], last: usize, end: &SiteName) -> AugmentingPath {
    let mut takers: Vec<usize> =
        std::iter::successors(before[last], |part| before[*part]).collect();
    takers.reverse();
    AugmentingPath {
        takers,
        last,
        end: end.clone(),
    }
}
