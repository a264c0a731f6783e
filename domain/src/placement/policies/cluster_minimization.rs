//! Cluster Minimization: few sites, so that components talk within one (CM,
//! communication-aware placement).

use std::cmp::Reverse;

use super::worst_fit::spread;
use crate::job::spec::RequestType;
use crate::placed::PlacementRule;
use crate::placement::plan::PlacementPlan;
use crate::placement::policy::{PlacementContext, Policy};
use crate::placement::reason::PlacementRefusal;
use crate::placement::remaining::Remaining;
use crate::placement::request::PlacementRequest;
use crate::placement::search::{SiteChoice, PlacementSearch};

/// Sites by decreasing usable processors, an order that is kept; each component, the
/// largest first, to the first of them that still takes it.
#[derive(Debug, Clone, Copy)]
pub struct ClusterMinimization;

impl ClusterMinimization {
    /// Its name.
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
        // Of that order one component alone takes the site with the most left.
        if let [_] = request.components() {
            return spread(request, context);
        }
        let order = by_usable(context.remaining);
        in_order(&PlacementSearch::new(request, context.grid), context, &order, PlacementRule::FirstInOrder)
    }
}

/// Site indexes by decreasing usable processors, equal ones by name.
pub(super) fn by_usable(remaining: &Remaining) -> Vec<usize> {
    let left = remaining.processors();
    let mut order: Vec<usize> = (0..left.len()).collect();
    order.sort_by_key(|&site| (Reverse(left[site]), site));
    order
}

/// Each component, the largest first, on the first site in this order that takes it.
///
/// # Errors
/// A component without a site; the context is as it was.
pub(super) fn in_order(
    search: &PlacementSearch<'_>,
    context: &mut PlacementContext<'_>,
    order: &[usize],
    rule: PlacementRule,
) -> Result<PlacementPlan, PlacementRefusal> {
    context.place_with(search, |search, component, remaining| {
        let site = order.iter().find(|&&site| search.fits(component, site, remaining));
        site.copied().map(|site| SiteChoice::site(site, rule))
    })
}
