//! Flexible Cluster Minimization: the scheduler splits the job (FCM, communication-aware
//! placement).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::cluster_minimization::{order_by_usable, place_in_order};
use crate::content::{ComponentFilePart, Content, FileChunk};
use crate::ids::ComponentIndex;
use crate::job::spec::RequestType;
use crate::placed::{Placement, PlacementRule};
use crate::placement::bounded_split::split_largest_first;
use crate::placement::history::SitePairHistory;
use crate::placement::placement_plan::PlacementPlan;
use crate::placement::placement_request::PlacementRequest;
use crate::placement::policy::{PlacementContext, Policy, refusal_of_type};
use crate::placement::reason::{PlacementRefusal, RefusalReason, SilentObserver, SiteSuitability};
use crate::placement::site_search::{PlacementSearch, SiteChoice};
use crate::resources::Resources;
use crate::units::Bytes;

/// The Flexible Cluster Minimization policy. It splits the total over the fewest sites that can
/// take it, the largest first. If the request lists splits, the first that fits is placed by
/// Cluster Minimization.
#[derive(Debug, Clone, Copy)]
pub struct FlexibleClusterMinimization;

impl FlexibleClusterMinimization {
    pub const NAME: &'static str = "flexible-cluster-minimization";
}

impl Policy for FlexibleClusterMinimization {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn serves(&self, request: &RequestType) -> bool {
        matches!(request, RequestType::Flexible(_))
    }

    fn place(
        &self,
        request: &PlacementRequest,
        context: &mut PlacementContext<'_>,
    ) -> Result<PlacementPlan, PlacementRefusal> {
        place_flexible(
            request,
            context,
            PlacementRule::LargestFilled,
            |candidates, bounds| {
                let usable: Vec<u32> = candidates
                    .iter()
                    .map(|candidate| candidate.usable)
                    .collect();
                let sizes = split_largest_first(bounds.total, bounds.min, bounds.most, &usable);
                candidates
                    .iter()
                    .zip(sizes)
                    .map(|(candidate, size)| (candidate.site, size))
                    .collect()
            },
        )
    }
}

/// A site that can take a component of the job, with the most that it can get there.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlexibleCandidate {
    pub(super) site: usize,
    pub(super) usable: u32,
}

/// The bounds of a split.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlexibleSplitBounds {
    pub(super) total: u32,
    pub(super) min: u32,
    pub(super) most: usize,
}

/// Places a flexible request. `choose` gets the candidates, the largest first, and returns sites
/// and sizes, or nothing if there is no split.
///
/// # Errors
/// No split fits now; the context is as it was.
pub(super) fn place_flexible(
    request: &PlacementRequest,
    context: &mut PlacementContext<'_>,
    rule: PlacementRule,
    choose: impl FnOnce(&[FlexibleCandidate], FlexibleSplitBounds) -> Vec<(usize, u32)>,
) -> Result<PlacementPlan, PlacementRefusal> {
    let search = PlacementSearch::new(request, context.grid);
    if !request.splits().is_empty() {
        let order = order_by_usable(context.remaining);
        return place_first_split(&search, context, &order);
    }
    let (total, bounds) = split_bounds(request, context)?;
    if let Some(site) =
        site_for_whole(&search, context, &total).filter(|_| bounds.min <= bounds.total)
    {
        let placed = place_shares(&search, context, &total, &[(site, total.processors)]);
        return Ok(search.plan_from_placements(placed, rule));
    }
    place_split(&search, context, rule, &total, bounds, choose)
}

/// Returns the total of a flexible request, and the bounds of its split.
///
/// # Errors
/// The request is of another type.
pub(super) fn split_bounds(
    request: &PlacementRequest,
    context: &PlacementContext<'_>,
) -> Result<(Resources, FlexibleSplitBounds), PlacementRefusal> {
    let RequestType::Flexible(flexible) = request.request_type() else {
        return Err(refusal_of_type(request));
    };
    let total = request.total_resources().cloned().unwrap_or_default();
    let bounds = FlexibleSplitBounds {
        total: total.processors,
        min: flexible.least_processors(),
        most: flexible
            .most_components()
            .unwrap_or(context.grid.sites().len()),
    };
    Ok((total, bounds))
}

/// Splits a total over the sites that `choose` returns, as for [`place_flexible`].
///
/// # Errors
/// No split fits now; the context is as it was.
pub(super) fn place_split(
    search: &PlacementSearch<'_>,
    context: &mut PlacementContext<'_>,
    rule: PlacementRule,
    total: &Resources,
    bounds: FlexibleSplitBounds,
    choose: impl FnOnce(&[FlexibleCandidate], FlexibleSplitBounds) -> Vec<(usize, u32)>,
) -> Result<PlacementPlan, PlacementRefusal> {
    let candidates = list_candidates(search, context, total);
    let chosen = choose(&candidates, bounds);
    let refusal = chosen
        .is_empty()
        .then(|| no_split_reason(bounds, &candidates));
    if context.observer.is_listening() {
        explain_split(search, context, &chosen, refusal.as_ref());
    }
    if let Some(reason) = refusal {
        return Err(nearest_refusal(search, context, &candidates, reason));
    }
    Ok(search.plan_from_placements(place_shares(search, context, total, &chosen), rule))
}

fn place_shares(
    search: &PlacementSearch<'_>,
    context: &mut PlacementContext<'_>,
    total: &Resources,
    shares: &[(usize, u32)],
) -> Vec<Placement> {
    let mut part = ComponentFilePart {
        before: 0,
        own: 0,
        total: total.processors.into(),
    };
    let placements = shares.iter().map(|&(site, size)| {
        let used = total.portion_for(size);
        match context.grid.sites()[site].pool_of(search.component(0)) {
            Some(pool) => context.remaining.take_of_partition(site, pool.name, &used),
            None => context.remaining.take_component(site, &used),
        }
        part = ComponentFilePart {
            before: part.before + part.own,
            own: size.into(),
            ..part
        };
        let placement = search.build_placement(
            0,
            SiteChoice::at_site(site, PlacementRule::LargestFilled),
            Some(part),
        );
        if context.grid.sites()[site].staging_left.is_some() {
            context
                .remaining
                .add_staged(site, placement.sources.iter().map(|source| source.content));
        }
        Placement {
            share: Some(size),
            ..placement
        }
    });
    placements.collect()
}

/// Returns the largest site if it plainly takes the whole job: then no other is looked at.
fn site_for_whole(
    search: &PlacementSearch<'_>,
    context: &PlacementContext<'_>,
    total: &Resources,
) -> Option<usize> {
    let left = search.processors_left(0, context.remaining);
    let most = left
        .iter()
        .copied()
        .max()
        .filter(|&most| most >= total.processors)?;
    let site = left.iter().position(|&count| count == most)?;
    let whole = !context.observer.is_listening() && usable_at(search, context, site, total) == most;
    (whole && search.can_place_at(0, site, context.remaining)).then_some(site)
}

/// Returns the most of the total that a site takes.
fn usable_at(
    search: &PlacementSearch<'_>,
    context: &PlacementContext<'_>,
    site: usize,
    total: &Resources,
) -> u32 {
    let Some(shape) = &context.grid.sites()[site].shape else {
        return 0;
    };
    let pool = context.grid.sites()[site].pool_of(search.component(0));
    let of_pool = pool.map(|pool| search.left_in_pool(&pool, site, context.remaining));
    let left = of_pool.unwrap_or_else(|| {
        let mut left = context.remaining.left_at(site);
        left.limit_to(&shape.largest_component);
        left
    });
    let processors = left
        .processors
        .min(search.max_processors_without_wait(0, site));
    let most = total.max_processors_for(processors, |name| left.other(name));
    processors_with_input_room(search, context, site, most, total.processors)
}

/// Returns the most processors, up to `most`, for whose chunks the site has room. Their bytes of a
/// file are not known yet, so only a whole file counts as being there.
fn processors_with_input_room(
    search: &PlacementSearch<'_>,
    context: &PlacementContext<'_>,
    site: usize,
    most: u32,
    total: u32,
) -> u32 {
    let whole = search.component(0);
    let place = &context.grid.sites()[site];
    let (Some(left), Some(shape)) = (place.staging_left, &place.shape) else {
        return most;
    };
    if whole.chunks.is_empty() {
        return most;
    }
    let contents: BTreeSet<Content> = search
        .contents_at(0, site, shape)
        .filter(|content| !whole.chunks.contains_key(content))
        .collect();
    largest_fitting(most, |size: u32| {
        let mut contents = contents.clone();
        let mut cut = Bytes(0);
        for chunk in whole.chunks.values() {
            if size < total {
                cut = cut + FileChunk::max_chunk_length(chunk.of, size.into(), total.into());
            } else {
                contents.insert(chunk.of);
            }
        }
        let (needed, taken) =
            context
                .remaining
                .staging_bytes(site, contents.into_iter(), |content: &Content| {
                    context.grid.is_staged(&place.name, content)
                });
        needed + taken + cut <= left
    })
}

/// Returns the largest number up to `most` that fits. If a number fits, so do all smaller ones; but
/// `most` itself may fit alone: the chunk of all processors is the file, which may be there for its
/// own sake.
fn largest_fitting(mut most: u32, fits: impl Fn(u32) -> bool) -> u32 {
    if fits(most) {
        return most;
    }
    let mut least = 0;
    while least < most {
        let middle = least + (most - least).div_ceil(2);
        (least, most) = if fits(middle) {
            (middle, most)
        } else {
            (least, middle - 1)
        };
    }
    most
}

fn list_candidates(
    search: &PlacementSearch<'_>,
    context: &PlacementContext<'_>,
    total: &Resources,
) -> Vec<FlexibleCandidate> {
    let least = search.component(0).resources.processors;
    let left = search.processors_left(0, context.remaining);
    let open = (0..left.len())
        .filter(|&site| left[site] >= least && search.can_place_at(0, site, context.remaining));
    let most = open.map(|site| FlexibleCandidate {
        site,
        usable: usable_at(search, context, site, total),
    });
    let mut candidates: Vec<FlexibleCandidate> =
        most.filter(|candidate| candidate.usable >= least).collect();
    candidates.sort_by_key(|candidate| (Reverse(candidate.usable), candidate.site));
    candidates
}

/// Places the first allowed split that fits, in order of preference, as a non-fixed request on the
/// first sites in this order that take it (vector FCM-17).
///
/// # Errors
/// No split fits now; the context is as it was.
pub(super) fn place_first_split(
    search: &PlacementSearch<'_>,
    context: &mut PlacementContext<'_>,
    order: &[usize],
) -> Result<PlacementPlan, PlacementRefusal> {
    let splits = search.request.splits();
    let preferred = splits
        .iter()
        .find(|split: &&PlacementRequest| {
            let mut trial = PlacementContext {
                grid: context.grid,
                remaining: &mut context.remaining.clone(),
                history: &mut SitePairHistory::All,
                observer: &mut SilentObserver,
            };
            place_in_order(
                &search.search_of_split(split),
                &mut trial,
                order,
                PlacementRule::FirstSplit,
            )
            .is_ok()
        })
        .unwrap_or(&splits[0]);
    let mut plan = place_in_order(
        &search.search_of_split(preferred),
        context,
        order,
        PlacementRule::FirstSplit,
    )?;
    for (placement, part) in plan.placements.iter_mut().zip(preferred.components()) {
        placement.share = Some(part.resources.processors);
    }
    Ok(plan)
}

fn no_split_reason(bounds: FlexibleSplitBounds, candidates: &[FlexibleCandidate]) -> RefusalReason {
    let sites = candidates.len().min(bounds.most);
    let usable = candidates
        .iter()
        .take(sites)
        .map(|candidate| u64::from(candidate.usable))
        .sum();
    RefusalReason::NoSplit {
        total: bounds.total,
        min: bounds.min,
        sites: sites as u32,
        usable,
    }
}

/// Returns the refusal: that no split fits, if any site could take part.
fn nearest_refusal(
    search: &PlacementSearch<'_>,
    context: &PlacementContext<'_>,
    candidates: &[FlexibleCandidate],
    reason: RefusalReason,
) -> PlacementRefusal {
    if candidates.is_empty()
        && !(0..context.grid.sites().len())
            .any(|site| search.can_place_at(0, site, context.remaining))
    {
        return search.nearest_refusal_of(0, context.remaining);
    }
    PlacementRefusal {
        component: ComponentIndex(0),
        site: None,
        reason,
    }
}

fn explain_split(
    search: &PlacementSearch<'_>,
    context: &mut PlacementContext<'_>,
    chosen: &[(usize, u32)],
    refusal: Option<&RefusalReason>,
) {
    for site in 0..context.grid.sites().len() {
        let mut verdict = search.site_verdict(0, site, context.remaining);
        let part = chosen.iter().position(|&(at, _)| at == site);
        match (part, refusal) {
            (Some(part), _) => {
                verdict.component = ComponentIndex(part as u32);
                verdict.outcome = SiteSuitability::Chosen;
            }
            (None, Some(reason)) if verdict.outcome == SiteSuitability::NotPreferred => {
                verdict.outcome = SiteSuitability::Refused(vec![reason.clone()]);
            }
            (None, _) => {}
        }
        context.observer.record_verdict(verdict);
    }
}
