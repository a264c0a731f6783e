//! Rescheduling of a job whose parts are of given sizes: they may start earlier, all together
//! (Shift), and go to other sites (Remap), but none is divided.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{SiteOffer, starts};
use crate::ids::SiteName;
use crate::reserve::agreement::StartWindow;
use crate::reserve::timeline::Span;
use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

/// A part of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholePart {
    /// What it needs.
    pub resources: Resources,
    /// For how long.
    pub length: DurationMs,
    /// Where it may go, the best first, and from when on: its input has to be there.
    pub choices: Vec<(SiteName, Timestamp)>,
}

/// When and where the parts of a job run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartsPlan {
    /// When all of them start.
    pub start: Timestamp,
    /// By part.
    pub sites: Vec<SiteName>,
}

impl PartsPlan {
    /// Earlier, or as early on fewer sites: anything else would have equal plans take turns for
    /// ever.
    pub fn is_better_than(&self, other: &Self) -> bool {
        let sites = |plan: &Self| plan.sites.iter().collect::<BTreeSet<_>>().len();
        (self.start, sites(self)) < (other.start, sites(other))
    }
}

/// The first start within the window, and not before `now`, at which every part has a place: all
/// at one site if one has room for all, else each where it would go first. `None`: there is none.
pub fn plan_parts(
    parts: &[WholePart],
    sites: &[SiteOffer<'_>],
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
    all.extend(starts(sites, window, wanted));
    all.sort_unstable();
    all.dedup();
    let mut all = all.into_iter();
    all.find_map(|start| places(parts, sites, start).map(|sites| PartsPlan { start, sites }))
}

/// A better plan than the present one, if there is one. What the job holds at the sites is not
/// free, unless `sites` say so: where its sites need room for the old and the new until it has
/// moved, they must not.
pub fn bring_forward(
    parts: &[WholePart],
    present: &PartsPlan,
    sites: &[SiteOffer<'_>],
    window: StartWindow,
    now: Timestamp,
) -> Option<PartsPlan> {
    let window = StartWindow::new(window.earliest, window.latest.min(present.start));
    let plan = plan_parts(parts, sites, window, now)?;
    plan.is_better_than(present).then_some(plan)
}

fn places(parts: &[WholePart], sites: &[SiteOffer<'_>], start: Timestamp) -> Option<Vec<SiteName>> {
    let in_one = sites.iter().find_map(|only| greedy(parts, &[*only], start));
    in_one.or_else(|| greedy(parts, sites, start))
}

/// Each part at the first of its sites that has room beside those before it.
fn greedy(parts: &[WholePart], sites: &[SiteOffer<'_>], start: Timestamp) -> Option<Vec<SiteName>> {
    let mut used: BTreeMap<&SiteName, Resources> = BTreeMap::new();
    let mut places = Vec::with_capacity(parts.len());
    for part in parts {
        let span = Span::new(start, start + part.length);
        let (name, _) = part
            .choices
            .iter()
            .find(|(name, from): &&(SiteName, Timestamp)| {
                let Some(site) = sites.iter().find(|site| site.name == name) else {
                    return false;
                };
                let mut all = used.get(name).cloned().unwrap_or_default();
                all.add(&part.resources);
                *from <= start && site.time.offered(span, &all) >= all.processors
            })?;
        used.entry(name).or_default().add(&part.resources);
        places.push(name.clone());
    }
    Some(places)
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
