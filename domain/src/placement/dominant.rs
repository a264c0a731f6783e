//! The main reason against the sites that a job did not go to, in one word: kept with the choice.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::ControlFlow::Continue;

use super::placement_plan::PlacementPlan;
use super::placement_request::PlacementRequest;
use super::policy::{PlacementContext, find_policy};
use super::remaining::RemainingResources;
use super::site_search::PlacementSearch;
use crate::content::Content;
use crate::placed::{DominantRefusal, Placement, ReasonCode};
use crate::resources::Resources;

/// The most distinct components of a job that are looked at: the largest say most, and a job of
/// many must not delay its scan.
const KINDS: usize = 4;

/// Returns the reason that most sites had against a job just placed by `plan`, judged as they were
/// before it took anything; of equally frequent reasons the one nearest to a placement. Sites that
/// a component went to do not count as refused, whatever they are to others.
pub fn dominant_refusal(
    request: &PlacementRequest,
    plan: &PlacementPlan,
    context: &mut PlacementContext<'_>,
) -> Option<DominantRefusal> {
    let grid = context.grid;
    let remaining = &mut *context.remaining;
    let placed = request.resources_of_plan(plan).zip(&plan.placements);
    let placed = placed
        .enumerate()
        .filter_map(|(part, ((site, used), placement))| {
            let site = grid.index_of(&site)?;
            let component = request
                .components()
                .get(part)
                .or(request.components().first());
            // Nothing is given back in other partitions: those sites are not looked at again below.
            let is_own =
                component.is_none_or(|component| grid.sites()[site].pool_of(component).is_none());
            Some((site, is_own.then_some(used), placement))
        });
    let uses: Vec<(usize, Option<Resources>, &Placement)> = placed.collect();
    for (site, used, placement) in &uses {
        used.iter()
            .for_each(|used| remaining.give_back_component(*site, used));
        if grid.sites()[*site].staging_left.is_some() {
            remaining.remove_staged(*site, source_contents(placement).into_iter());
        }
    }
    let mut search = PlacementSearch::new(request, grid);
    if find_policy(request.policy()).is_ok_and(|policy| policy.keeps_to_history()) {
        search = search.with_history(context.history);
    }
    let kinds = distinct_components(request);
    let mut counts: BTreeMap<ReasonCode, u32> = BTreeMap::new();
    for site in 0..grid.sites().len() {
        if uses.iter().any(|(used, ..)| *used == site) {
            continue;
        }
        let code = kinds
            .iter()
            .find_map(|&kind| worst_reason_code(&search, kind, site, remaining));
        if let Some(code) = code {
            *counts.entry(code).or_default() += 1;
        }
    }
    for (site, used, placement) in &uses {
        used.iter()
            .for_each(|used| remaining.take_component(*site, used));
        if grid.sites()[*site].staging_left.is_some() {
            remaining.add_staged(*site, source_contents(placement).into_iter());
        }
    }
    let most = counts
        .into_iter()
        .max_by_key(|(code, sites)| (*sites, Reverse(*code)));
    most.map(|(code, sites)| DominantRefusal { code, sites })
}

fn source_contents(placement: &Placement) -> Vec<Content> {
    placement
        .sources
        .iter()
        .map(|source| source.content)
        .collect()
}

/// Lists components that differ, the largest first.
fn distinct_components(request: &PlacementRequest) -> Vec<usize> {
    let components = request.components();
    let mut kinds: Vec<usize> = Vec::new();
    for index in request
        .components_by_size()
        .iter()
        .map(|index| *index as usize)
    {
        if kinds.len() == KINDS {
            break;
        }
        if !kinds
            .iter()
            .any(|kind| components[*kind] == components[index])
        {
            kinds.push(index);
        }
    }
    kinds
}

fn worst_reason_code(
    search: &PlacementSearch<'_>,
    component: usize,
    site: usize,
    remaining: &RemainingResources,
) -> Option<ReasonCode> {
    let mut worst = None;
    let _ = search.report_obstacles(component, site, remaining, &mut |code, _, _| {
        worst = worst.max(Some(code));
        Continue(())
    });
    worst
}
