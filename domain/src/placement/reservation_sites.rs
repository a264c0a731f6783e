//! The sites that may be asked for a reservation, in the order in which the job's policy would take
//! them if nothing else ran there.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::grid::{GridSite, GridSnapshot, LoadReport, PlacementAcceptance, PlacementHindrance};
use super::history::SitePairHistory;
use super::placement_plan::PlacementPlan;
use super::placement_request::PlacementRequest;
use super::policy::{PlacementContext, place_by_policy};
use super::reason::SilentObserver;
use super::remaining::RemainingResources;
use crate::acquisition::{AcquisitionMode, AcquisitionOptions};
use crate::ids::SiteName;
use crate::placed::Placement;
use crate::resources::Resources;

/// Ranks the placements of a request of one component at the sites that grant reservations and
/// could hold it, the best first.
pub fn rank_reservable_sites(request: &PlacementRequest, grid: &GridSnapshot) -> Vec<Placement> {
    rank_empty_sites(request, grid, true)
}

/// Ranks the placements at sites without reservations, where it would be claimed at the job's
/// start.
pub fn rank_unreserved_sites(request: &PlacementRequest, grid: &GridSnapshot) -> Vec<Placement> {
    rank_empty_sites(request, grid, false)
}

/// Returns true if a site with reservations could hold a request of one component, though it may
/// take nothing now, or nothing of its owner.
pub fn could_be_reserved(request: &PlacementRequest, grid: &GridSnapshot) -> bool {
    let acceptance = PlacementAcceptance::Open;
    let bans = Arc::default();
    let sites = grid
        .sites()
        .iter()
        .map(|site: &GridSite| GridSite {
            acceptance,
            bans: Arc::clone(&bans),
            ..site.clone()
        })
        .collect();
    !rank_reservable_sites(request, &grid.with_sites(sites)).is_empty()
}

fn rank_empty_sites(
    request: &PlacementRequest,
    grid: &GridSnapshot,
    grants: bool,
) -> Vec<Placement> {
    let may_be_ranked = |site: &GridSite| {
        // A site reserves only what its own partition has.
        let is_whole = request
            .components()
            .iter()
            .all(|component| site.pool_of(component).is_none());
        site.grants_reservations() == Some(grants) && (!grants || is_whole)
    };
    let sites = grid.sites().iter().map(|site| {
        let empty = site.as_empty().filter(|_| may_be_ranked(site));
        empty.unwrap_or_else(|| site.as_file_source())
    });
    let mut sites: Vec<GridSite> = sites.collect();
    let mut ranked = Vec::new();
    while let Some(placement) = best_placement(request, &grid.with_sites(sites.clone())) {
        let Some(best) = sites.iter_mut().find(|site| site.name == placement.site) else {
            break;
        };
        *best = best.as_file_source();
        ranked.push(placement);
    }
    ranked
}

fn best_placement(request: &PlacementRequest, grid: &GridSnapshot) -> Option<Placement> {
    plan_request(request, grid)?.placements.pop()
}

pub(super) fn plan_request(
    request: &PlacementRequest,
    grid: &GridSnapshot,
) -> Option<PlacementPlan> {
    let mut context = PlacementContext {
        grid,
        remaining: &mut RemainingResources::of_grid(grid),
        history: &mut SitePairHistory::default(),
        observer: &mut SilentObserver,
    };
    place_by_policy(request, &mut context).ok()
}

/// Places the components of a request on exactly these resources of these sites: what is left of a
/// reservation there. `None`: they do not fit, or no such site takes jobs now.
pub fn place_on_resources(
    request: &PlacementRequest,
    grid: &GridSnapshot,
    left: &BTreeMap<SiteName, Resources>,
) -> Option<Vec<Placement>> {
    let sites = grid.sites().iter().map(|known| {
        let whole = left.get(&known.name).zip(known.as_empty());
        whole.map_or_else(
            || known.as_file_source(),
            |(left, whole)| {
                let idle = whole.idle.map(|belief| LoadReport {
                    idle: left.clone(),
                    ..belief
                });
                GridSite { idle, ..whole }
            },
        )
    });
    let mode = AcquisitionMode::Immediate;
    let options = AcquisitionOptions {
        mode,
        ..request.acquisition()
    };
    let request = request.clone().with_acquisition(options);
    let grid = grid.with_sites(sites.collect());
    plan_request(&request, &grid).map(|plan| plan.placements)
}

impl GridSite {
    /// Returns true if the site grants advance reservations; `None` until it has answered.
    pub fn grants_reservations(&self) -> Option<bool> {
        self.shape.as_ref().map(|shape| shape.reservations)
    }

    /// Returns its acceptance of jobs with a reservation there, which wait in no queue.
    pub fn acceptance_of_reserved(&self) -> PlacementAcceptance {
        match self.acceptance {
            PlacementAcceptance::Closed(PlacementHindrance::QueueOnly)
                if self.grants_reservations() == Some(true) =>
            {
                PlacementAcceptance::Open
            }
            other => other,
        }
    }

    /// Returns the site as one that has files, and nothing that could be taken.
    pub(super) fn as_file_source(&self) -> Self {
        Self {
            idle: None,
            shape: None,
            ..self.clone()
        }
    }

    /// Returns the site with everything idle.
    pub(super) fn as_empty(&self) -> Option<Self> {
        let shape = self.shape.as_ref()?;
        let asked_at = self
            .idle
            .as_ref()
            .map(|belief| belief.asked_at)
            .unwrap_or_default();
        let idle = Some(LoadReport {
            idle: shape.total.clone(),
            asked_at,
        });
        let nothing = Resources::default();
        let ebbs = Arc::default();
        let pending = nothing.clone();
        let ours = nothing;
        let acceptance = self.acceptance_of_reserved();
        Some(Self {
            acceptance,
            idle,
            ebbs,
            pending,
            ours,
            waits: None,
            ..self.clone()
        })
    }
}
