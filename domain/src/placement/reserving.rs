//! Which sites may be asked for a reservation, and in which order: that in which the job's policy
//! would take them if nothing else ran there.

use std::sync::Arc;

use super::grid::{Belief, GridSite, GridSnapshot};
use super::history::History;
use super::policy::{PlacementContext, by_policy};
use super::reason::Silent;
use super::remaining::Remaining;
use super::request::PlacementRequest;
use crate::ids::SiteName;
use crate::placed::Placement;
use crate::resources::Resources;

/// Where a request of one component would go at each site that grants reservations and could hold
/// it, the best first.
pub fn rank_to_reserve(request: &PlacementRequest, grid: &GridSnapshot) -> Vec<Placement> {
    let mut sites: Vec<GridSite> = grid.sites().iter().filter_map(GridSite::as_empty).collect();
    let mut ranked = Vec::new();
    while let Some(placement) = best(request, &grid.with_sites(sites.clone())) {
        let is_other = |name: &SiteName| *name != placement.site;
        let before = sites.len();
        sites.retain(|site| is_other(&site.name));
        ranked.push(placement);
        if sites.len() == before {
            break;
        }
    }
    ranked
}

fn best(request: &PlacementRequest, grid: &GridSnapshot) -> Option<Placement> {
    let mut context = PlacementContext {
        grid,
        remaining: &mut Remaining::of(grid),
        history: &mut History::default(),
        observer: &mut Silent,
    };
    by_policy(request, &mut context).ok()?.placements.pop()
}

impl GridSite {
    /// Whether it promises processors for later; `None` until it has been heard from.
    pub fn grants_reservations(&self) -> Option<bool> {
        self.shape.as_ref().map(|shape| shape.reservations)
    }

    /// A site that grants reservations, with all that it has.
    fn as_empty(&self) -> Option<Self> {
        let shape = self.shape.as_ref().filter(|shape| shape.reservations)?;
        let asked_at = self.idle.as_ref().map(|belief| belief.asked_at).unwrap_or_default();
        let idle = Some(Belief { idle: shape.total.clone(), asked_at });
        let nothing = Resources::default();
        let ebbs = Arc::default();
        let (pending, ours) = (nothing.clone(), nothing);
        Some(Self { idle, ebbs, pending, ours, waits: None, ..self.clone() })
    }
}
