//! Cluster Minimization: few sites, so that components communicate within one (CM,
//! communication-aware placement).

use std::cmp::Reverse;

use super::worst_fit::place_worst_fit;
use crate::job::spec::RequestType;
use crate::placed::PlacementRule;
use crate::placement::placement_plan::PlacementPlan;
use crate::placement::placement_request::PlacementRequest;
use crate::placement::policy::{PlacementContext, Policy};
use crate::placement::reason::PlacementRefusal;
use crate::placement::remaining::RemainingResources;
use crate::placement::site_search::{PlacementSearch, SiteChoice};

/// The Cluster Minimization policy. It orders sites by decreasing usable processors, once, and
/// places each component, the largest first, on the first of them that still takes it.
#[derive(Debug, Clone, Copy)]
pub struct ClusterMinimization;

impl ClusterMinimization {
    pub const NAME: &'static str = "cluster-minimization";
}

impl Policy for ClusterMinimization {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn serves(&self, request: &RequestType) -> bool {
        matches!(request, RequestType::Fixed | RequestType::NonFixed)
    }

    fn place(
        &self,
        request: &PlacementRequest,
        context: &mut PlacementContext<'_>,
    ) -> Result<PlacementPlan, PlacementRefusal> {
        // A single component takes the site with the most left, as in that order.
        if let [_] = request.components() {
            return place_worst_fit(request, context);
        }
        let order = order_by_usable(context.remaining);
        place_in_order(
            &PlacementSearch::new(request, context.grid),
            context,
            &order,
            PlacementRule::FirstInOrder,
        )
    }
}

/// Orders site indexes by decreasing usable processors, equal ones by name.
pub(super) fn order_by_usable(remaining: &RemainingResources) -> Vec<usize> {
    let left = remaining.processors();
    let mut order: Vec<usize> = (0..left.len()).collect();
    order.sort_by_key(|&site| (Reverse(left[site]), site));
    order
}

/// Places each component, the largest first, on the first site in this order that takes it.
///
/// # Errors
/// A component has no site; the context is as it was.
pub(super) fn place_in_order(
    search: &PlacementSearch<'_>,
    context: &mut PlacementContext<'_>,
    order: &[usize],
    rule: PlacementRule,
) -> Result<PlacementPlan, PlacementRefusal> {
    context.place_with(search, |search, component, remaining| {
        let site = order
            .iter()
            .find(|&&site| search.can_place_at(component, site, remaining));
        site.copied().map(|site| SiteChoice::at_site(site, rule))
    })
}
