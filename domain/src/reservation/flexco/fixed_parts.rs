//! Rescheduling of a job whose parts are of given sizes: they may start earlier, all together
//! (Shift), and go to other sites (Remap), but none is divided.

use std::collections::{BTreeMap, BTreeSet};

use super::initial_plan::{OfferingSite, candidate_starts};
use crate::ids::SiteName;
use crate::reservation::agreement::StartWindow;
use crate::reservation::timeline::TimeSpan;
use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsplitPart {
    pub resources: Resources,
    pub length: DurationMs,
    /// The sites that it may go to, the best first, each with the time when its input can be there.
    pub choices: Vec<(SiteName, Timestamp)>,
}

/// The start and the sites of a job's parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartsPlan {
    /// The start of all parts.
    pub start: Timestamp,
    /// The site of each part.
    pub sites: Vec<SiteName>,
}

impl PartsPlan {
    /// Returns true if it is earlier, or as early on fewer sites. Equal plans would take turns for
    /// ever otherwise.
    pub fn is_better_than(&self, other: &Self) -> bool {
        (self.start, self.site_count()) < (other.start, other.site_count())
    }

    fn site_count(&self) -> usize {
        self.sites.iter().collect::<BTreeSet<_>>().len()
    }
}

/// Plans for the first start within the window, and not before `now`, at which every part has a
/// place: all at one site if one has room for all, else each at its first choice. `None`: there is
/// none.
pub fn plan_parts(
    parts: &[UnsplitPart],
    sites: &[OfferingSite<'_>],
    window: StartWindow,
    now: Timestamp,
) -> Option<PartsPlan> {
    let window = StartWindow::new(window.earliest.max(now), window.latest);
    let wanted = parts
        .iter()
        .map(|part| part.resources.processors)
        .fold(0, u32::saturating_add);
    let inputs = parts
        .iter()
        .flat_map(|part| part.choices.iter().map(|(_, from)| *from));
    let mut all: Vec<Timestamp> = inputs.filter(|from| window.contains(*from)).collect();
    all.extend(candidate_starts(sites, window, wanted));
    all.sort_unstable();
    all.dedup();
    let mut all = all.into_iter();
    all.find_map(|start| find_places(parts, sites, start).map(|sites| PartsPlan { start, sites }))
}

/// Finds a better plan than the present one. What the job has reserved at the sites is not free,
/// unless `sites` say so. They must not, if its sites need room for both the old and the new until
/// it has moved.
pub fn reschedule_parts(
    parts: &[UnsplitPart],
    present: &PartsPlan,
    sites: &[OfferingSite<'_>],
    window: StartWindow,
    now: Timestamp,
) -> Option<PartsPlan> {
    let window = StartWindow::new(window.earliest, window.latest.min(present.start));
    let plan = plan_parts(parts, sites, window, now)?;
    plan.is_better_than(present).then_some(plan)
}

fn find_places(
    parts: &[UnsplitPart],
    sites: &[OfferingSite<'_>],
    start: Timestamp,
) -> Option<Vec<SiteName>> {
    let in_one = sites
        .iter()
        .find_map(|only| place_greedily(parts, &[*only], start));
    in_one.or_else(|| place_greedily(parts, sites, start))
}

/// Puts each part at the first of its sites that has room beside those before it.
fn place_greedily(
    parts: &[UnsplitPart],
    sites: &[OfferingSite<'_>],
    start: Timestamp,
) -> Option<Vec<SiteName>> {
    let mut used: BTreeMap<&SiteName, Resources> = BTreeMap::new();
    let mut places = Vec::with_capacity(parts.len());
    for part in parts {
        let span = TimeSpan::new(start, start + part.length);
        let (name, _) = part
            .choices
            .iter()
            .find(|(name, from): &&(SiteName, Timestamp)| {
                let Some(site) = sites.iter().find(|site| site.name == name) else {
                    return false;
                };
                let mut all = used.get(name).cloned().unwrap_or_default();
                all.add(&part.resources);
                *from <= start && site.time.processors_offered(span, &all) >= all.processors
            })?;
        used.entry(name).or_default().add(&part.resources);
        places.push(name.clone());
    }
    Some(places)
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
