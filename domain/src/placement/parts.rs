//! Which sites may promise a part of a flexible job, and how its parts are placed once a plan says
//! which site gives how much.

use super::grid::{GridSite, GridSnapshot};
use super::policy::DefaultPolicies;
use super::request::PlacementRequest;
use super::reserving::planned;
use crate::ids::SiteName;
use crate::job::spec::Request;
use crate::job::state::Job;
use crate::placed::Placement;

/// The sites that grant reservations and could hold the smallest part of a flexible job, by name:
/// each with where that would go.
pub fn could_take_part<'a>(
    job: &Job,
    grid: &'a GridSnapshot,
    defaults: &DefaultPolicies,
) -> Vec<(&'a GridSite, Placement)> {
    let Request::Flexible(bounds) = &job.spec.request else { return Vec::new() };
    let requests = PlacementRequest::of_parts(job, &[bounds.least()], defaults);
    let Some(smallest) = requests.first() else { return Vec::new() };
    let granting = grid.sites().iter().filter(|site| site.grants_reservations() == Some(true));
    let held = granting.filter_map(|site| Some((site, place_at(smallest, grid, site)?)));
    let held: Vec<(&GridSite, Placement)> = held.collect();
    let has_failed = |site: &GridSite| job.components.iter().any(|c| c.avoid.contains(&site.name));
    // Where it failed it goes only if it can go nowhere else.
    let (failed, others): (Vec<_>, Vec<_>) = held.into_iter().partition(|(s, _)| has_failed(s));
    if others.is_empty() { failed } else { others }
}

/// Where these parts of a flexible job go, each at its site: what they read, and from where.
/// `None`: one of them could not be held there.
pub fn place_parts(
    job: &Job,
    parts: &[(SiteName, u32)],
    grid: &GridSnapshot,
    defaults: &DefaultPolicies,
) -> Option<Vec<Placement>> {
    let sizes: Vec<u32> = parts.iter().map(|(_, count)| *count).collect();
    let requests = PlacementRequest::of_parts(job, &sizes, defaults);
    let placed = parts.iter().zip(&requests).map(|((name, count), request)| {
        let placement = place_at(request, grid, grid.site(name)?)?;
        Some(Placement { share: Some(*count), ..placement })
    });
    placed.collect()
}

/// Where a request of one component would go at a site, if that was empty and the only one that
/// takes jobs.
fn place_at(request: &PlacementRequest, grid: &GridSnapshot, site: &GridSite) -> Option<Placement> {
    let only = |other: &GridSite| {
        let empty = if other.name == site.name { other.as_empty() } else { None };
        // The others have files, and nothing idle.
        empty.unwrap_or_else(|| GridSite { idle: None, shape: None, ..other.clone() })
    };
    let sites = grid.sites().iter().map(only).collect();
    let placed = planned(request, &grid.with_sites(sites))?.placements.pop();
    placed.filter(|placement| placement.site == site.name)
}
