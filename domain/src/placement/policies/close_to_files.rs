//! Close-to-Files: run where the input is, or where it arrives first (KOALA, section 4.3).

use super::worst_fit::open_site_with_most_left;
use crate::job::spec::RequestType;
use crate::placed::PlacementRule;
use crate::placement::history::SitePairHistory;
use crate::placement::placement_plan::PlacementPlan;
use crate::placement::placement_request::PlacementRequest;
use crate::placement::policy::{PlacementContext, Policy};
use crate::placement::reason::PlacementRefusal;
use crate::placement::remaining::RemainingResources;
use crate::placement::site_search::{PlacementSearch, SiteChoice};

/// The Close-to-Files policy. It places each component, the largest first, on the first site by
/// name that has its files; else on the pair of execution and file site in the history table whose
/// transfer is the shortest. A component without input goes where Worst-Fit would put it (vector
/// CF-7).
#[derive(Debug, Clone, Copy)]
pub struct CloseToFiles;

impl CloseToFiles {
    pub const NAME: &'static str = "close-to-files";
}

impl Policy for CloseToFiles {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn serves(&self, request: &RequestType) -> bool {
        matches!(request, RequestType::Fixed | RequestType::NonFixed)
    }

    fn keeps_to_history(&self) -> bool {
        true
    }

    fn place(
        &self,
        request: &PlacementRequest,
        context: &mut PlacementContext<'_>,
    ) -> Result<PlacementPlan, PlacementRefusal> {
        let known = std::mem::take(context.history);
        let (outcome, brought) = plan_with_history(request, context, &known);
        *context.history = known;
        let plan = outcome?;
        // Only a placement that succeeds as a whole changes the table (vector CF-5).
        let sites = context.grid.sites();
        for (site, file_site) in brought {
            context
                .history
                .insert_pair(sites[site].name.clone(), sites[file_site].name.clone());
        }
        Ok(plan)
    }
}

/// Makes a plan, and lists the pairs that the table gains by it: each site that files are brought
/// to, with every site that holds them.
fn plan_with_history(
    request: &PlacementRequest,
    context: &mut PlacementContext<'_>,
    known: &SitePairHistory,
) -> (Result<PlacementPlan, PlacementRefusal>, Vec<(usize, usize)>) {
    let search = PlacementSearch::new(request, context.grid).with_history(known);
    let mut brought = Vec::new();
    let outcome = context.place_with(&search, |search, component, remaining| {
        let choice = choose_pair(search, component, remaining, &brought)?;
        if choice.file_site.is_some() {
            let file_sites = search.file_sites(component, choice.site);
            brought.extend(file_sites.map(|file_site| (choice.site, file_site)));
        }
        Some(choice)
    });
    (outcome, brought)
}

/// Chooses a site. `learned` holds the pairs that this job adds to the table: later components may
/// use them, as published (vector CF-1), but the table gets them only once all are placed.
fn choose_pair(
    search: &PlacementSearch<'_>,
    component: usize,
    remaining: &RemainingResources,
    learned: &[(usize, usize)],
) -> Option<SiteChoice> {
    if !search.component(component).needs_files() {
        let site = open_site_with_most_left(search, component, remaining);
        return site.map(|site| SiteChoice::at_site(site, PlacementRule::MostLeft));
    }
    search
        .site_with_files(component, remaining)
        .or_else(|| search.nearest_of_pairs(component, remaining, learned))
}
