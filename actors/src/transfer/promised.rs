//! Input of jobs that were offered sites and have not decided: it counts against the room
//! for copies there until they have, or else two plans made at the same time would share it.
//!
//! A promise belongs to the future that takes a plan to its job. A job's decision is in the
//! view before its answer is here, so nothing is counted by nobody in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cospan_domain::ids::SiteName;
use cospan_domain::job::spec::Content;
use cospan_domain::job::state::Placement;
use cospan_domain::planted::{Bug, bug};
use cospan_domain::units::Bytes;

use super::staging::staged_contents;
use crate::api::View;
use crate::shared::Shared;

/// All promises.
#[derive(Debug, Default)]
pub struct Promised(Mutex<Promises>);

#[derive(Debug, Default)]
struct Promises {
    next: u64,
    open: BTreeMap<u64, Vec<(SiteName, Content)>>,
}

/// One of them; over when it is dropped.
pub(crate) struct Promise {
    shared: Arc<Shared>,
    number: u64,
}

impl Promised {
    fn lock(&self) -> MutexGuard<'_, Promises> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is promised room at a site.
    pub(crate) fn at(&self, site: &SiteName) -> BTreeSet<Content> {
        let promises = self.lock();
        let all = promises.open.values().flatten().filter(|(at, _)| at == site);
        all.map(|(_, content)| *content).collect()
    }
}

impl Promise {
    /// Room for the input of these placements; `None` where no room is bounded.
    pub(crate) fn of<'a>(
        shared: &Arc<Shared>,
        placements: impl Iterator<Item = &'a Placement>,
    ) -> Option<Self> {
        let staged = bounded(shared, placements);
        if staged.is_empty() || bug(Bug::StageTogether) {
            return None;
        }
        let mut promises = shared.promised.lock();
        promises.next += 1;
        let number = promises.next;
        promises.open.insert(number, staged);
        drop(promises);
        Some(Self { shared: shared.clone(), number })
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.shared.promised.lock().open.remove(&self.number);
    }
}

/// Whether the input of these placements still has room, beside all that has been decided or
/// promised since they were planned.
pub(crate) fn has_room(shared: &Shared, view: &View, placements: &[Placement]) -> bool {
    let mut wanted: BTreeMap<SiteName, BTreeSet<Content>> = BTreeMap::new();
    for (site, content) in bounded(shared, placements.iter()) {
        wanted.entry(site).or_default().insert(content);
    }
    let fits = |(site, contents): (&SiteName, &BTreeSet<Content>)| {
        let staged = staged_contents(shared, view, site);
        let sum = |contents: &BTreeSet<Content>| contents.iter().map(|c| c.size.0).sum::<u64>();
        let absent: BTreeSet<Content> = contents.difference(&staged).copied().collect();
        let budget = budget(shared, site).unwrap_or(Bytes(u64::MAX));
        absent.is_empty() || sum(&staged).saturating_add(sum(&absent)) <= budget.0
    };
    bug(Bug::StageTogether) || wanted.iter().all(fits)
}

/// The most that copies for jobs may take of a site, if that is bounded.
pub(crate) fn budget(shared: &Shared, site: &SiteName) -> Option<Bytes> {
    shared.settings.staging.get(site)?.budget
}

/// Input that is staged at sites with so much room only.
fn bounded<'a>(
    shared: &Shared,
    placements: impl Iterator<Item = &'a Placement>,
) -> Vec<(SiteName, Content)> {
    let narrow = placements.filter(|placement| budget(shared, &placement.site).is_some());
    let staged = narrow.flat_map(|placement| {
        placement.sources.iter().map(|source| (placement.site.clone(), source.content))
    });
    staged.collect()
}
