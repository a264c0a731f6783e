//! Cluster Minimization that knows the network: of the smallest sets of sites it takes the one
//! whose slowest link is the fastest, by the time of a message over it, from latency and bandwidth,
//! measured or configured. The authors of CM and FCM name it as future work (communication-aware
//! placement, section 6).
//!
//! A group is grown from each site first. That may miss the best one, since the fastest link of a
//! site can lead away from it; so all sets are searched for a better one, within bounds.

use super::cluster_minimization::{order_by_usable, place_in_order};
use super::flexible::{FlexibleCandidate, FlexibleSplitBounds, place_flexible};
use super::worst_fit::place_worst_fit;
use crate::job::spec::RequestType;
use crate::placed::PlacementRule;
use crate::placement::bounded_split::split_largest_first;
use crate::placement::grid::GridSnapshot;
use crate::placement::placement_plan::PlacementPlan;
use crate::placement::placement_request::PlacementRequest;
use crate::placement::policy::{PlacementContext, Policy};
use crate::placement::reason::{PlacementRefusal, SilentObserver};
use crate::placement::remaining::RemainingResources;
use crate::placement::site_group::{SiteGroup, SiteGroupSearch};
use crate::placement::site_search::PlacementSearch;

/// Cluster Minimization over well connected sites: never more sites than without.
#[derive(Debug, Clone, Copy)]
pub struct ConnectedClusterMinimization;

/// Flexible Cluster Minimization over well connected sites: as many sites as without, and a
/// placement exactly when there is one without.
#[derive(Debug, Clone, Copy)]
pub struct ConnectedFlexibleClusterMinimization;

impl ConnectedClusterMinimization {
    pub const NAME: &'static str = "connected-cluster-minimization";
}

impl ConnectedFlexibleClusterMinimization {
    pub const NAME: &'static str = "connected-flexible-cluster-minimization";
}

/// The cost of a search through sets of sites, in plain decisions.
const SEARCH: u32 = 30;

impl Policy for ConnectedClusterMinimization {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn effort(&self, request: &PlacementRequest) -> u32 {
        if request.components().len() > 1 {
            SEARCH
        } else {
            1
        }
    }

    fn serves(&self, request: &RequestType) -> bool {
        matches!(request, RequestType::Fixed | RequestType::NonFixed)
    }

    fn place(
        &self,
        request: &PlacementRequest,
        context: &mut PlacementContext<'_>,
    ) -> Result<PlacementPlan, PlacementRefusal> {
        if let [_] = request.components() {
            return place_worst_fit(request, context);
        }
        let order = order_by_usable(context.remaining);
        let grid = context.grid;
        let search = PlacementSearch::new(request, grid);
        let known = plain_group(&search, context, &order);
        let most = known.as_ref().map_or(usize::MAX, |group| group.sites.len());
        let seeds = order.iter().filter(|_| most > 1);
        let groups = seeds.filter_map(|&seed| grow_group(&search, context, &order, seed, most));
        let found: Vec<SiteGroup> = groups.collect();
        let grown = known.into_iter().chain(found).min_by_key(SiteGroup::rank);
        match grown.map(|group| find_best_group(&search, context, &order, group)) {
            Some(group) => {
                place_in_order(&search, context, &group.sites, PlacementRule::BestConnected)
            }
            None => place_in_order(&search, context, &order, PlacementRule::BestConnected),
        }
    }
}

/// Returns the sites that Cluster Minimization itself would combine.
fn plain_group(
    search: &PlacementSearch<'_>,
    context: &PlacementContext<'_>,
    order: &[usize],
) -> Option<SiteGroup> {
    let mut trial = PlacementContext {
        grid: context.grid,
        remaining: &mut context.remaining.clone(),
        history: &mut context.history.clone(),
        observer: &mut SilentObserver,
    };
    let plan = place_in_order(search, &mut trial, order, PlacementRule::FirstInOrder).ok()?;
    let mut sites = order
        .iter()
        .filter(|site: &&usize| {
            let name = &context.grid.sites()[**site].name;
            plan.placements
                .iter()
                .any(|placement| placement.site == *name)
        })
        .copied();
    let mut group = SiteGroup::of_one_site(sites.next()?);
    for site in sites {
        group.join(site, context.grid);
    }
    Some(group)
}

/// Returns the best of all sets with at most as many sites as are known to suffice. A set takes the
/// job if Cluster Minimization on its sites alone does.
fn find_best_group(
    search: &PlacementSearch<'_>,
    context: &mut PlacementContext<'_>,
    order: &[usize],
    known: SiteGroup,
) -> SiteGroup {
    let grid = context.grid;
    let remaining = &mut *context.remaining;
    let parts = search.request.components_by_size();
    let offers = order.iter().copied().filter(|site: &usize| {
        parts
            .iter()
            .any(|&c| search.can_place_at(c as usize, *site, remaining))
    });
    let offers: Vec<(usize, u32)> = offers
        .map(|site| (site, remaining.processors()[site]))
        .collect();
    let most = known.sites.len();
    let needed = search.request.processors();
    let mut groups = SiteGroupSearch::new(grid, &offers, needed, known).with_trial(parts.len());
    for size in (1..=most).rev() {
        groups.search_sets(size, &mut |sites| {
            can_place_all_on(search, remaining, sites)
        });
    }
    groups.best()
}

/// Returns true if each component, the largest first, finds a place on these sites.
fn can_place_all_on(
    search: &PlacementSearch<'_>,
    remaining: &mut RemainingResources,
    sites: &[usize],
) -> bool {
    let mut taken = Vec::new();
    for &component in search.request.components_by_size() {
        let index = component as usize;
        let site = sites
            .iter()
            .find(|site| search.can_place_at(index, **site, remaining));
        let Some(&site) = site else { break };
        search.take_component(index, site, remaining);
        taken.push((index, site));
    }
    taken
        .iter()
        .for_each(|&(index, site)| search.give_back_component(index, site, remaining));
    taken.len() == search.request.components_by_size().len()
}

/// Grows a group from `seed` by placing the components, the largest first; where no member takes
/// one, the best connected site that does joins.
fn grow_group(
    search: &PlacementSearch<'_>,
    context: &mut PlacementContext<'_>,
    order: &[usize],
    seed: usize,
    most: usize,
) -> Option<SiteGroup> {
    let mut group = SiteGroup::of_one_site(seed);
    let mut taken = Vec::new();
    let mut is_whole = true;
    for &component in search.request.components_by_size() {
        let index = component as usize;
        let remaining = &mut *context.remaining;
        let mut site = group
            .sites
            .iter()
            .copied()
            .find(|site| search.can_place_at(index, *site, remaining));
        // The seed must take the largest component, or else another seed is better.
        if site.is_none() && !taken.is_empty() && group.sites.len() < most {
            let fitting = order
                .iter()
                .copied()
                .filter(|site| search.can_place_at(index, *site, remaining));
            let joined = group.join_best(fitting, context.grid);
            site = group.sites.last().copied().filter(|_| joined);
        }
        let Some(site) = site else {
            is_whole = false;
            break;
        };
        search.take_component(index, site, remaining);
        taken.push((index, site));
    }
    taken
        .iter()
        .for_each(|&(index, site)| search.give_back_component(index, site, context.remaining));
    is_whole.then_some(group)
}

impl Policy for ConnectedFlexibleClusterMinimization {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn effort(&self, _: &PlacementRequest) -> u32 {
        SEARCH
    }

    fn serves(&self, request: &RequestType) -> bool {
        matches!(request, RequestType::Flexible(_))
    }

    fn place(
        &self,
        request: &PlacementRequest,
        context: &mut PlacementContext<'_>,
    ) -> Result<PlacementPlan, PlacementRefusal> {
        let grid = context.grid;
        let rule = PlacementRule::BestConnected;
        place_flexible(request, context, rule, |candidates, bounds| {
            split_connected(candidates, bounds, grid)
        })
    }
}

/// Returns the best connected of the smallest groups of candidates that take the total.
fn split_connected(
    candidates: &[FlexibleCandidate],
    bounds: FlexibleSplitBounds,
    grid: &GridSnapshot,
) -> Vec<(usize, u32)> {
    let count = split_largest_first(
        bounds.total,
        bounds.min,
        bounds.most,
        &usable_counts(candidates),
    )
    .len();
    let seeds = candidates.iter().filter(|_| count > 0);
    let groups =
        seeds.filter_map(|seed| grow_to_total(candidates, seed, bounds.total, count, grid));
    let Some(grown) = groups.min_by_key(SiteGroup::rank) else {
        return Vec::new();
    };
    let offers: Vec<(usize, u32)> = candidates.iter().map(|c| (c.site, c.usable)).collect();
    let mut groups = SiteGroupSearch::new(grid, &offers, bounds.total.into(), grown);
    groups.search_sets(count, &mut |_| true);
    let group = groups.best();
    let joined: Vec<FlexibleCandidate> = candidates
        .iter()
        .filter(|c| group.sites.contains(&c.site))
        .copied()
        .collect();
    let sizes = split_largest_first(bounds.total, bounds.min, count, &usable_counts(&joined));
    joined
        .iter()
        .zip(sizes)
        .map(|(candidate, size)| (candidate.site, size))
        .collect()
}

fn usable_counts(candidates: &[FlexibleCandidate]) -> Vec<u32> {
    candidates.iter().map(|c| c.usable).collect()
}

/// Grows a group of `count` candidates from `seed` that takes the total together.
fn grow_to_total(
    candidates: &[FlexibleCandidate],
    seed: &FlexibleCandidate,
    total: u32,
    count: usize,
    grid: &GridSnapshot,
) -> Option<SiteGroup> {
    let mut group = SiteGroup::of_one_site(seed.site);
    let mut sum = u64::from(seed.usable);
    while group.sites.len() < count {
        let members = group.sites.clone();
        let others = || candidates.iter().filter(|c| !members.contains(&c.site));
        let more = count - members.len() - 1;
        let joining = others().filter(|joining: &&FlexibleCandidate| {
            // The most that the others add beside one that joins now.
            let rest = others().filter(|c| c.site != joining.site).take(more);
            let beside = rest.map(|c| u64::from(c.usable)).sum::<u64>();
            sum + u64::from(joining.usable) + beside >= total.into()
        });
        let joined = group.join_best(joining.map(|c| c.site), grid);
        let last = group.sites.last().filter(|_| joined)?;
        sum += others()
            .find(|c| c.site == *last)
            .map_or(0, |c| u64::from(c.usable));
    }
    (sum >= total.into()).then_some(group)
}
