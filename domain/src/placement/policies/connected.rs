//! Cluster Minimization that knows the network: of the smallest sets of sites the one
//! whose slowest link is the fastest, by what a message takes over it: latency and bandwidth,
//! as measured or configured. The authors of CM and FCM name it as future work
//! (communication-aware placement, section 6).

use super::cluster_minimization::{by_usable, in_order};
use super::flexible::{Bounds, Candidate, place_flexible};
use super::worst_fit::spread;
use crate::job::spec::Request;
use crate::placement::grid::GridSnapshot;
use crate::placement::network::Exchange;
use crate::placement::plan::Plan;
use crate::placement::policy::{Board, Policy};
use crate::placement::reason::{Refusal, Silent};
use crate::placement::request::PlacementRequest;
use crate::placement::rule::Rule;
use crate::placement::search::Search;
use crate::placement::split::split;

/// Cluster Minimization over well connected sites: never more sites than without.
#[derive(Debug, Clone, Copy)]
pub struct ConnectedClusterMinimization;

/// Flexible Cluster Minimization over well connected sites: as many sites as without,
/// and a placement exactly when there is one without.
#[derive(Debug, Clone, Copy)]
pub struct ConnectedFlexibleClusterMinimization;

impl ConnectedClusterMinimization {
    /// Its name.
    pub const NAME: &'static str = "connected-cluster-minimization";
}

impl ConnectedFlexibleClusterMinimization {
    /// Its name.
    pub const NAME: &'static str = "connected-flexible-cluster-minimization";
}

/// Sites in the order in which they joined, and what a message takes over their slowest link.
#[derive(Debug, Clone)]
struct Group {
    sites: Vec<usize>,
    slowest: Exchange,
}

impl Group {
    fn of(site: usize) -> Self {
        Self { sites: vec![site], slowest: Exchange::NONE }
    }

    /// The slowest link if this site joined.
    fn with(&self, site: usize, grid: &GridSnapshot) -> Exchange {
        let link = |&other: &usize| grid.exchange(site, other).max(grid.exchange(other, site));
        self.sites.iter().map(link).fold(self.slowest, Exchange::max)
    }

    /// Of these sites the best connected one joins, of equal ones the first; whether any did.
    fn grow(&mut self, sites: impl Iterator<Item = usize>, grid: &GridSnapshot) -> bool {
        let members = self.sites.clone();
        let others = sites.filter(|site| !members.contains(site));
        let links = others.map(|site| (self.with(site, grid), site));
        let best = links.reduce(|best, next| if next.0 < best.0 { next } else { best });
        let Some((slowest, site)) = best else { return false };
        self.slowest = slowest;
        self.sites.push(site);
        true
    }

    /// Fewer sites first, then the faster slowest link.
    fn rank(&self) -> (usize, Exchange) {
        (self.sites.len(), self.slowest)
    }
}

impl Policy for ConnectedClusterMinimization {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn serves(&self, request: &Request) -> bool {
        matches!(request, Request::Fixed | Request::NonFixed)
    }

    fn place(&self, request: &PlacementRequest, board: &mut Board<'_>) -> Result<Plan, Refusal> {
        if let [_] = request.components() {
            return spread(request, board);
        }
        let order = by_usable(board.remaining);
        let grid = board.grid;
        let search = Search::new(request, grid);
        let known = unconnected(request, board, &order);
        let most = known.as_ref().map_or(usize::MAX, |group| group.sites.len());
        let seeds = order.iter().filter(|_| most > 1);
        let groups = seeds.filter_map(|&seed| gather(&search, board, &order, seed, most));
        let found: Vec<Group> = groups.collect();
        match known.into_iter().chain(found).min_by_key(Group::rank) {
            Some(group) => in_order(request, board, &group.sites, Rule::BestConnected),
            None => in_order(request, board, &order, Rule::BestConnected),
        }
    }
}

/// The sites that Cluster Minimization itself would combine.
fn unconnected(request: &PlacementRequest, board: &Board<'_>, order: &[usize]) -> Option<Group> {
    let mut trial = Board {
        grid: board.grid,
        remaining: &mut board.remaining.clone(),
        history: &mut board.history.clone(),
        observer: &mut Silent,
    };
    let plan = in_order(request, &mut trial, order, Rule::FirstInOrder).ok()?;
    let combined = |site: &&usize| {
        let name = &board.grid.sites()[**site].name;
        plan.placements.iter().any(|placement| placement.site == *name)
    };
    let mut sites = order.iter().filter(combined).copied();
    let mut group = Group::of(sites.next()?);
    for site in sites {
        group.slowest = group.with(site, board.grid);
        group.sites.push(site);
    }
    Some(group)
}

/// The components, the largest first, on the sites of a group that begins with `seed`;
/// where none of them takes one, the best connected site that does joins.
fn gather(
    search: &Search<'_>,
    board: &mut Board<'_>,
    order: &[usize],
    seed: usize,
    most: usize,
) -> Option<Group> {
    let mut group = Group::of(seed);
    let mut taken = Vec::new();
    let mut is_whole = true;
    for &component in search.request.by_size() {
        let index = component as usize;
        let remaining = &mut *board.remaining;
        let fits = |site: &usize| search.fits(index, *site, remaining);
        let mut site = group.sites.iter().copied().find(|site| fits(site));
        // The seed takes the largest component, else another seed is the better one.
        if site.is_none() && !taken.is_empty() && group.sites.len() < most {
            let joined = group.grow(order.iter().copied().filter(|site| fits(site)), board.grid);
            site = group.sites.last().copied().filter(|_| joined);
        }
        let Some(site) = site else {
            is_whole = false;
            break;
        };
        search.take(index, site, remaining);
        taken.push((index, site));
    }
    taken.iter().for_each(|&(index, site)| search.give_back(index, site, board.remaining));
    is_whole.then_some(group)
}

impl Policy for ConnectedFlexibleClusterMinimization {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn serves(&self, request: &Request) -> bool {
        matches!(request, Request::Flexible(_))
    }

    fn place(&self, request: &PlacementRequest, board: &mut Board<'_>) -> Result<Plan, Refusal> {
        let grid = board.grid;
        let rule = Rule::BestConnected;
        place_flexible(request, board, rule, |candidates, bounds| connect(candidates, bounds, grid))
    }
}

/// The best connected of the smallest groups of candidates that take the total.
fn connect(candidates: &[Candidate], bounds: Bounds, grid: &GridSnapshot) -> Vec<(usize, u32)> {
    let usable = |of: &[Candidate]| of.iter().map(|c| c.usable).collect::<Vec<u32>>();
    let count = split(bounds.total, bounds.min, bounds.most, &usable(candidates)).len();
    let seeds = candidates.iter().filter(|_| count > 0);
    let groups = seeds.filter_map(|seed| enough(candidates, seed, bounds.total, count, grid));
    let Some(group) = groups.min_by_key(Group::rank) else { return Vec::new() };
    let joined: Vec<Candidate> =
        candidates.iter().filter(|c| group.sites.contains(&c.site)).copied().collect();
    let sizes = split(bounds.total, bounds.min, count, &usable(&joined));
    joined.iter().zip(sizes).map(|(candidate, size)| (candidate.site, size)).collect()
}

/// A group of so many candidates, beginning with `seed`, that together take the total.
fn enough(
    candidates: &[Candidate],
    seed: &Candidate,
    total: u32,
    count: usize,
    grid: &GridSnapshot,
) -> Option<Group> {
    let mut group = Group::of(seed.site);
    let mut sum = u64::from(seed.usable);
    while group.sites.len() < count {
        let members = group.sites.clone();
        let others = || candidates.iter().filter(|c| !members.contains(&c.site));
        let more = count - members.len() - 1;
        // What the largest of the others add beside one that joins now.
        let beside = |joining: &Candidate| {
            let rest = others().filter(|c| c.site != joining.site).take(more);
            rest.map(|c| u64::from(c.usable)).sum::<u64>()
        };
        let suffices = |c: &&Candidate| sum + u64::from(c.usable) + beside(c) >= total.into();
        let joined = group.grow(others().filter(suffices).map(|c| c.site), grid);
        let last = group.sites.last().filter(|_| joined)?;
        sum += others().find(|c| c.site == *last).map_or(0, |c| u64::from(c.usable));
    }
    (sum >= total.into()).then_some(group)
}
