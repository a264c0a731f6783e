//! A grid as the rules of placement see it, with everything that was placed on it meanwhile:
//! what is left of a site, and when something arrives there, is worked out from all of that
//! each time anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, Seq, SiteName};
use cospan_domain::placement::{
    GridSite, GridSnapshot, Link, Network, QuotaBasis, Remaining, Staged,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationUs};

use super::super::quantities::{OTHERS, counts};

/// All kinds of resources, in the order in which they are told.
pub(super) const KINDS: [&str; 3] = ["processors", OTHERS[0], OTHERS[1]];

#[derive(Debug, Clone)]
pub(super) struct Ground {
    pub(super) seq: Seq,
    /// In order of name.
    pub(super) sites: Arc<Vec<GridSite>>,
    /// The sites that have a content.
    pub(super) replicas: Arc<BTreeMap<Digest, BTreeSet<usize>>>,
    /// Bits per second and microseconds, from one to another.
    pub(super) links: Arc<BTreeMap<(usize, usize), (u64, u64)>>,
    /// Bytes that components exchange.
    pub(super) message: u64,
    /// What was staged before.
    pub(super) staged: Arc<BTreeSet<(usize, Content)>>,
    pub(super) taken: Vec<Taken>,
    /// What is idle only as is supposed.
    pub(super) made_up: BTreeMap<usize, [u64; 3]>,
}

/// What a component was given.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    pub(super) at: usize,
    pub(super) job: u32,
    pub(super) used: [u64; 3],
    pub(super) copies: BTreeSet<Content>,
}

impl Ground {
    pub(super) fn position(&self, name: &SiteName) -> Option<usize> {
        self.sites.iter().position(|site| site.name == *name)
    }

    /// The most that we may hold.
    pub(super) fn quota(site: &GridSite) -> [u64; 3] {
        let total = site.shape.as_ref().map_or([0; 3], |shape| counts(&shape.total));
        total.map(|count| count * u64::from(site.quota.share.0.min(1_000_000)) / 1_000_000)
    }

    /// Whether there is any quota.
    pub(super) fn binds(site: &GridSite) -> bool {
        site.quota.share.0 < 1_000_000 || site.quota.basis == QuotaBasis::Share
    }

    /// What we may take of it before anything is placed.
    pub(super) fn usable(&self, at: usize) -> [u64; 3] {
        let site = &self.sites[at];
        let (Some(shape), Some(belief)) = (&site.shape, &site.idle) else { return [0; 3] };
        let (total, idle) = (counts(&shape.total), counts(&belief.idle));
        let (ours, pending, quota) = (counts(&site.ours), counts(&site.pending), Self::quota(site));
        std::array::from_fn(|kind| {
            let held = match site.quota.basis {
                QuotaBasis::Level if !Self::binds(site) => 0,
                QuotaBasis::Level => total[kind].saturating_sub(idle[kind]),
                QuotaBasis::Share => ours[kind],
            };
            let most = if Self::binds(site) { quota[kind] } else { idle[kind] };
            idle[kind].min(most.saturating_sub(held)).saturating_sub(pending[kind])
        })
    }

    /// What was placed there meanwhile.
    pub(super) fn promised(&self, at: usize) -> [u64; 3] {
        let here = self.taken.iter().filter(|taken| taken.at == at);
        here.fold([0; 3], |sum, taken| std::array::from_fn(|kind| sum[kind] + taken.used[kind]))
    }

    pub(super) fn left(&self, at: usize) -> [u64; 3] {
        let (usable, promised) = (self.usable(at), self.promised(at));
        std::array::from_fn(|kind| usable[kind].saturating_sub(promised[kind]))
    }

    /// Whether it takes a component of this job: components of one job are one submission.
    pub(super) fn has_room(&self, at: usize, job: u32) -> bool {
        let here = self.taken.iter().filter(|taken| taken.at == at);
        let jobs: BTreeSet<u32> = here.map(|taken| taken.job).collect();
        jobs.contains(&job) || self.sites[at].room.is_none_or(|room| jobs.len() < room as usize)
    }

    /// What copies of these would take there, and what is left for copies; `None`: that is not
    /// bounded. One copy serves all.
    pub(super) fn staging(&self, at: usize, needs: &[Content]) -> Option<(u64, u64)> {
        let left = self.sites[at].staging_left?;
        let here = self.taken.iter().filter(|taken| taken.at == at);
        let copies: BTreeSet<Content> = here.flat_map(|taken| taken.copies.clone()).collect();
        let is_new = |content: &&Content| !self.staged.contains(&(at, **content));
        let taken: u64 = copies.iter().filter(is_new).map(|content| content.size.0).sum();
        let needs: BTreeSet<&Content> = needs.iter().filter(|c| !copies.contains(c)).collect();
        let needed = needs.into_iter().filter(is_new).map(|content| content.size.0).sum();
        Some((needed, left.0.saturating_sub(taken)))
    }

    pub(super) fn take(&mut self, at: usize, job: u32, used: &Resources, copies: &[Content]) {
        let bounded = self.sites[at].staging_left.is_some();
        let copies = copies.iter().filter(|_| bounded).copied().collect();
        self.taken.push(Taken { at, job, used: counts(used), copies });
    }

    pub(super) fn rate(&self, from: usize, to: usize) -> u64 {
        self.links.get(&(from, to)).map_or(0, |(bits, _)| *bits)
    }

    /// Milliseconds, and from which of these sites: the soonest, then the first by name.
    pub(super) fn arrival(
        &self,
        size: Bytes,
        from: impl Iterator<Item = usize>,
        to: usize,
    ) -> Option<(u64, usize)> {
        let carries = from.filter(|from| self.rate(*from, to) > 0);
        carries.map(|from| ((size.0 * 8_000).div_ceil(self.rate(from, to)), from)).min()
    }

    pub(super) fn holders(&self, file: &Content) -> Vec<usize> {
        self.replicas.get(&file.digest).into_iter().flatten().copied().collect()
    }

    /// Nanoseconds that a message takes, there and back whichever is longer.
    fn exchange(&self, one: usize, other: usize) -> u128 {
        let way = |from: usize, to: usize| match self.links.get(&(from, to)) {
            Some((bits, latency)) if *bits > 0 => {
                let sent = u128::from(self.message) * 8_000_000_000 / u128::from(*bits);
                sent + u128::from(*latency) * 1_000
            }
            _ => u128::MAX,
        };
        way(one, other).max(way(other, one))
    }

    /// What a message takes between those of a group that are connected worst.
    pub(super) fn connections(&self) -> impl Fn(&[usize]) -> u128 {
        let count = self.sites.len();
        let all = (0..count * count).map(|pair| self.exchange(pair / count, pair % count));
        let all: Vec<u128> = all.collect();
        move |group| {
            let pairs = group.iter().enumerate().flat_map(|(index, one)| {
                group[..index].iter().map(move |other| one * count + other)
            });
            pairs.map(|pair| all[pair]).max().unwrap_or(0)
        }
    }

    /// The same, told to the domain.
    pub(super) fn snapshot(&self) -> GridSnapshot {
        let name = |at: usize| self.sites[at].name.clone();
        let links = self.links.iter().map(|((from, to), (bits, latency))| Link {
            from: name(*from),
            to: name(*to),
            bandwidth: BitsPerSecond(*bits),
            latency: DurationUs(*latency),
        });
        let network = Network::new(links, Bytes(self.message));
        let replicas: BTreeMap<Digest, BTreeSet<SiteName>> = (self.replicas.iter())
            .map(|(digest, at)| (*digest, at.iter().map(|at| name(*at)).collect()))
            .collect();
        let sites = self.sites.iter().rev().cloned();
        let grid = GridSnapshot::new(self.seq, sites, Arc::new(network), Arc::new(replicas));
        grid.with_staged(Arc::new(self.staged_at()))
    }

    fn staged_at(&self) -> BTreeMap<SiteName, BTreeSet<Content>> {
        let mut staged: BTreeMap<SiteName, BTreeSet<Content>> = BTreeMap::new();
        for (at, content) in &*self.staged {
            staged.entry(self.sites[*at].name.clone()).or_default().insert(*content);
        }
        staged
    }

    /// What of it is not as is left of the domain's.
    pub(super) fn differs(&self, remaining: &Remaining, contents: &[Content]) -> Option<String> {
        let staged = self.staged_at();
        (0..self.sites.len()).find_map(|at| {
            let left: [u64; 3] = std::array::from_fn(|kind| match kind {
                0 => remaining.processors()[at].into(),
                _ => remaining.other(at, KINDS[kind]),
            });
            let name = &self.sites[at].name;
            let is_there = |content: &Content| staged.has(name, content);
            let (needed, taken) = remaining.staging(at, contents.iter().copied(), is_there);
            let copies = self.staging(at, contents).is_none_or(|(more, room)| {
                let all = self.sites[at].staging_left.unwrap_or_default().0;
                needed.0 == more && all.saturating_sub(taken.0) == room
            });
            let wrong = left != self.left(at) || !copies;
            wrong.then(|| format!("{left:?}, {needed}, {taken} are left at {name} of {self:?}"))
        })
    }
}
