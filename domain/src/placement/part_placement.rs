//! The sites that may reserve processors for a part of a flexible job, and the placement of its
//! parts once a plan says how much each site gives.

use super::grid::{GridSite, GridSnapshot};
use super::placement_request::PlacementRequest;
use super::policy::PlacementDefaults;
use super::reservation_sites::plan_request;
use crate::ids::SiteName;
use crate::job::job_state::Job;
use crate::job::spec::RequestType;
use crate::placed::Placement;

/// Lists the sites with reservations that could hold the smallest part of a flexible job, by name,
/// each with the placement of that part.
pub fn sites_for_parts<'a>(
    job: &Job,
    grid: &'a GridSnapshot,
    defaults: &PlacementDefaults,
) -> Vec<(&'a GridSite, Placement)> {
    let RequestType::Flexible(bounds) = &job.spec.request else {
        return Vec::new();
    };
    let requests = PlacementRequest::of_parts(job, &[bounds.least_processors()], defaults);
    let Some(smallest) = requests.first() else {
        return Vec::new();
    };
    let granting = grid
        .sites()
        .iter()
        .filter(|site| site.grants_reservations() == Some(true));
    let held = granting.filter_map(|site| Some((site, place_at_empty_site(smallest, grid, site)?)));
    let held: Vec<(&GridSite, Placement)> = held.collect();
    // It returns to sites where it failed only if it can go nowhere else.
    let (failed, others): (Vec<_>, Vec<_>) = held
        .into_iter()
        .partition(|(site, _)| job.components.iter().any(|c| c.avoid.contains(&site.name)));
    if others.is_empty() { failed } else { others }
}

/// Places these parts of a flexible job, each at its site, with the sources of their files. `None`:
/// one of them does not fit there.
pub fn place_parts(
    job: &Job,
    parts: &[(SiteName, u32)],
    grid: &GridSnapshot,
    defaults: &PlacementDefaults,
) -> Option<Vec<Placement>> {
    let sizes: Vec<u32> = parts.iter().map(|(_, count)| *count).collect();
    let requests = PlacementRequest::of_parts(job, &sizes, defaults);
    let placed = parts.iter().zip(&requests).map(|((name, count), request)| {
        let placement = place_at_empty_site(request, grid, grid.site(name)?)?;
        Some(Placement {
            share: Some(*count),
            ..placement
        })
    });
    placed.collect()
}

/// Places a request of one component at a site as if that was empty and the only one to take jobs.
fn place_at_empty_site(
    request: &PlacementRequest,
    grid: &GridSnapshot,
    site: &GridSite,
) -> Option<Placement> {
    let sites = grid
        .sites()
        .iter()
        .map(|other: &GridSite| {
            let empty = if other.name == site.name {
                other.as_empty()
            } else {
                None
            };
            empty.unwrap_or_else(|| other.as_file_source())
        })
        .collect();
    let placed = plan_request(request, &grid.with_sites(sites))?
        .placements
        .pop();
    placed.filter(|placement| placement.site == site.name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::job::spec::FlexibleBounds;
    use crate::job::tests::job_world::{JobWorld, spec};
    use crate::placement::reservation_sites::could_be_reserved;
    use crate::placement::testing::{grid, open_site, request_of_sizes};
    use crate::placement::{SiteProperties, rank_reservable_sites};
    use crate::site::barred_owners_record::OwnerBan;

    fn site_with_reservations(name: &str) -> GridSite {
        let site = open_site(name, 8);
        let shape = site.shape.as_deref().cloned();
        let shape = shape.map(|shape| {
            Arc::new(SiteProperties {
                reservations: true,
                ..shape
            })
        });
        GridSite { shape, ..site }
    }

    #[test]
    fn a_site_that_takes_none_of_its_owners_jobs_takes_no_part() {
        let mut spec = spec(1);
        spec.request = RequestType::Flexible(FlexibleBounds::default());
        let job = JobWorld::new(spec).job;
        let bans = [(job.owner.clone(), OwnerBan::Probed)].into();
        let grid = grid([
            GridSite {
                bans,
                ..site_with_reservations("delft")
            },
            site_with_reservations("leiden"),
        ]);
        let defaults = PlacementDefaults::default();
        let taking = sites_for_parts(&job, &grid, &defaults);
        let names: Vec<&str> = taking.iter().map(|(site, _)| site.name.as_str()).collect();
        assert_eq!(names, ["leiden"]);
        let placed = |at: &SiteName| place_parts(&job, &[(at.clone(), 1)], &grid, &defaults);
        assert_eq!(placed(&grid.sites()[0].name), None);
        assert!(placed(&grid.sites()[1].name).is_some());
    }

    #[test]
    fn a_site_could_promise_what_it_takes_nothing_of_for_a_while() {
        let owner = JobWorld::new(spec(1)).job.owner;
        let bans = [(owner.clone(), OwnerBan::Probed)].into();
        let grid = grid([GridSite {
            bans,
            ..site_with_reservations("delft")
        }]);
        let request = request_of_sizes(&[4]).with_owner(&owner);
        assert_eq!(rank_reservable_sites(&request, &grid), []);
        assert!(could_be_reserved(&request, &grid));
    }
}
