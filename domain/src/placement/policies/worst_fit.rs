//! Worst-Fit: spreads the load (KOALA, section 4.3).

use crate::job::spec::RequestType;
use crate::placed::PlacementRule;
use crate::placement::placement_plan::PlacementPlan;
use crate::placement::placement_request::PlacementRequest;
use crate::placement::policy::{PlacementContext, Policy};
use crate::placement::reason::PlacementRefusal;
use crate::placement::remaining::RemainingResources;
use crate::placement::site_search::{PlacementSearch, SiteChoice};

/// The Worst-Fit policy. It places each component, the largest first, on the site with the most
/// processors left, of equal ones the first by name. Files come from where they arrive first.
#[derive(Debug, Clone, Copy)]
pub struct WorstFit;

impl WorstFit {
    pub const NAME: &'static str = "worst-fit";
}

impl Policy for WorstFit {
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
        place_worst_fit(request, context)
    }
}

/// Places each component, the largest first, on the site with the most left.
///
/// # Errors
/// A component has no site; the context is as it was.
pub(super) fn place_worst_fit(
    request: &PlacementRequest,
    context: &mut PlacementContext<'_>,
) -> Result<PlacementPlan, PlacementRefusal> {
    context.place_each(request, |search, component, remaining| {
        open_site_with_most_left(search, component, remaining)
            .map(|site| SiteChoice::at_site(site, PlacementRule::MostLeft))
    })
}

/// Returns the site with the most left that takes the component. Usually the one with the most left
/// does, and the decision costs one comparison for each of the others. Otherwise every site that
/// beats the best so far is looked at.
pub(super) fn open_site_with_most_left(
    search: &PlacementSearch<'_>,
    component: usize,
    remaining: &RemainingResources,
) -> Option<usize> {
    let left = search.processors_left(component, remaining);
    let most = left.iter().copied().max()?;
    let first = left.iter().position(|&count| count == most)?;
    if search.can_place_at(component, first, remaining) {
        return Some(first);
    }
    let mut at_least = search.component(component).resources.processors;
    let mut best = None;
    for (site, &left) in left.iter().enumerate() {
        if left >= at_least && search.can_place_at(component, site, remaining) {
            best = Some(site);
            let Some(more) = left.checked_add(1) else {
                break;
            };
            at_least = more;
        }
    }
    best
}
