//! Groups of sites that are combined for one job, and the search for the best connected one.

use super::grid::GridSnapshot;
use super::network::MessageTime;

/// The number of links that one search looks at. Enough for all sets of two among 245 sites, of
/// three among 45, of four among 22; with more sites it returns the best found so far.
const LINKS: usize = 30_000;

/// A group of sites in order of joining, with the time of a message over its slowest link.
#[derive(Debug, Clone)]
pub(super) struct SiteGroup {
    pub(super) sites: Vec<usize>,
    slowest: MessageTime,
}

impl SiteGroup {
    pub(super) fn of_one_site(site: usize) -> Self {
        Self {
            sites: vec![site],
            slowest: MessageTime::NONE,
        }
    }

    /// Returns the slowest link if this site joined.
    fn slowest_with(&self, site: usize, grid: &GridSnapshot) -> MessageTime {
        self.sites
            .iter()
            .map(|&other: &usize| {
                grid.message_time_between(site, other)
                    .max(grid.message_time_between(other, site))
            })
            .fold(self.slowest, MessageTime::max)
    }

    pub(super) fn join(&mut self, site: usize, grid: &GridSnapshot) {
        self.slowest = self.slowest_with(site, grid);
        self.sites.push(site);
    }

    /// Adds the best connected of these sites, of equal ones the first; returns true if any joined.
    pub(super) fn join_best(
        &mut self,
        sites: impl Iterator<Item = usize>,
        grid: &GridSnapshot,
    ) -> bool {
        let members = self.sites.clone();
        let others = sites.filter(|site| !members.contains(site));
        let links = others.map(|site| (self.slowest_with(site, grid), site));
        let best = links.reduce(|best, next| if next.0 < best.0 { next } else { best });
        let Some((slowest, site)) = best else {
            return false;
        };
        self.slowest = slowest;
        self.sites.push(site);
        true
    }

    /// Ranks groups: fewer sites first, then the faster slowest link.
    pub(super) fn rank(&self) -> (usize, MessageTime) {
        (self.sites.len(), self.slowest)
    }
}

/// A search for a better group than the known one, among all sets of sites. Sets that cannot offer
/// enough, or are not connected better, are cut off as early as possible.
pub(super) struct SiteGroupSearch<'a> {
    grid: &'a GridSnapshot,
    /// Sites with the processors that each offers, the largest first.
    offers: &'a [(usize, u32)],
    needed: u64,
    /// The number of links for which a trial of a whole set counts.
    trial: usize,
    best: SiteGroup,
    links: usize,
}

impl<'a> SiteGroupSearch<'a> {
    /// Searches among sites for sets that offer `needed` together, starting from a known group.
    pub(super) fn new(
        grid: &'a GridSnapshot,
        offers: &'a [(usize, u32)],
        needed: u64,
        known: SiteGroup,
    ) -> Self {
        Self {
            grid,
            offers,
            needed,
            trial: 0,
            best: known,
            links: LINKS,
        }
    }

    /// Sets the number of links for which a trial of a whole set counts.
    pub(super) fn with_trial(self, trial: usize) -> Self {
        Self { trial, ..self }
    }

    /// Returns the best group found so far.
    pub(super) fn best(self) -> SiteGroup {
        self.best
    }

    /// Searches the sets of `size` sites; `takes` says whether a set takes the job.
    pub(super) fn search_sets(&mut self, size: usize, takes: &mut dyn FnMut(&[usize]) -> bool) {
        let mut none = SiteGroup {
            sites: Vec::new(),
            slowest: MessageTime::NONE,
        };
        self.extend_group(&mut none, 0, 0, size, takes);
    }

    /// Tries every set that extends this group with sites from `from` on. Returns false if sets
    /// with smaller sites need not be tried: they offer no more, or no effort is left.
    fn extend_group(
        &mut self,
        group: &mut SiteGroup,
        from: usize,
        sum: u64,
        size: usize,
        takes: &mut dyn FnMut(&[usize]) -> bool,
    ) -> bool {
        let more = size - group.sites.len();
        if more == 0 {
            return sum >= self.needed && self.try_group(group, takes);
        }
        let largest = self.offers[from..]
            .iter()
            .take(more)
            .map(|offer| u64::from(offer.1));
        if from + more > self.offers.len() || sum + largest.sum::<u64>() < self.needed {
            return false;
        }
        for (at, &(site, offered)) in self.offers.iter().enumerate().skip(from) {
            self.links = self.links.saturating_sub(group.sites.len());
            let before = group.slowest;
            let slowest = group.slowest_with(site, self.grid);
            if (size, slowest) >= self.best.rank() {
                continue;
            }
            group.sites.push(site);
            group.slowest = slowest;
            let goes_on = self.extend_group(group, at + 1, sum + u64::from(offered), size, takes);
            group.sites.pop();
            group.slowest = before;
            if !goes_on {
                break;
            }
        }
        self.links > 0
    }

    /// Tries a whole set; returns true if there is effort left.
    fn try_group(&mut self, group: &SiteGroup, takes: &mut dyn FnMut(&[usize]) -> bool) -> bool {
        self.links = self.links.saturating_sub(self.trial);
        if group.rank() < self.best.rank() && takes(&group.sites) {
            self.best = group.clone();
        }
        self.links > 0
    }
}
