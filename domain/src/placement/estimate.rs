//! The latest time at which a waiting job can be placed, if nothing changes but what is bound to
//! end, and if what is ahead in the queue is placed first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::grid::{GridSite, GridSnapshot};
use super::history::SitePairHistory;
use super::placement_plan::PlacementPlan;
use super::placement_request::PlacementRequest;
use super::policy::{PlacementContext, try_to_place};
use super::reason::{PlacementRefusal, SilentObserver};
use super::remaining::RemainingResources;
use crate::ids::SiteName;
use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

/// The most instants that are looked at.
const MOST_STEPS: usize = 500;
/// The most components that are tried at sites meanwhile: about a second's work.
const MOST_TRIES: usize = 4_000_000;

/// Work of ours that is bound to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedRelease {
    /// The latest time of its end.
    pub at: Timestamp,
    pub site: SiteName,
    /// The resources that it holds or will claim.
    pub resources: Resources,
    /// True if the site's own count includes it.
    pub visible: bool,
}

/// A job that waits for its placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementWaiter {
    pub request: Arc<PlacementRequest>,
    /// The earliest time at which it may be placed.
    pub not_before: Timestamp,
    /// The longest time for which it keeps its resources, from when its input is there.
    pub longest: DurationMs,
}

/// The forecast of a placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementForecast {
    /// The latest time of the placement.
    pub at: Timestamp,
    pub plan: PlacementPlan,
    /// The number of components that end before.
    pub ended: usize,
}

/// Estimates how long a job waits behind `ahead` others at the recent pace, when `placed` jobs were
/// placed within `window`. The bounds are half and twice the wait. `None` if none was placed.
pub fn estimate_wait(
    ahead: usize,
    placed: usize,
    window: DurationMs,
) -> Option<(DurationMs, DurationMs)> {
    let ahead = ahead as u64;
    let placed = placed as u64;
    let whole = window.0.checked_div(placed)?;
    let rest = window.0 % placed;
    let wait = whole
        .saturating_mul(ahead)
        .saturating_add(rest.saturating_mul(ahead) / placed);
    Some((DurationMs(wait / 2), DurationMs(wait.saturating_mul(2))))
}

/// Looks ahead until `job` is placed, after everything that is ahead of it.
///
/// # Errors
/// The refusal that remains when everything that is bound to end has ended; `None` if so much
/// happens before, or so much is to be placed, that nothing can be said.
pub fn forecast_placement(
    grid: &GridSnapshot,
    history: &SitePairHistory,
    releases: Vec<ExpectedRelease>,
    ahead: &[PlacementWaiter],
    job: &PlacementWaiter,
    now: Timestamp,
) -> Result<PlacementForecast, Option<PlacementRefusal>> {
    let mut future = FutureGrid::new(grid, history, releases, now);
    let mut before: Vec<&PlacementWaiter> = ahead.iter().collect();
    for _ in 0..MOST_STEPS {
        let refusal = match future.try_placements(&mut before, job) {
            Ok(plan) if job.not_before <= future.now => {
                return Ok(PlacementForecast {
                    at: future.now,
                    plan,
                    ended: future.ended,
                });
            }
            outcome => outcome.err(),
        };
        let wakes = before
            .iter()
            .copied()
            .chain([job])
            .map(|waiter| waiter.not_before);
        let wakes: BTreeSet<Timestamp> = wakes.filter(|at| *at > future.now).collect();
        if !future.advance_time(wakes.first().copied()) {
            return Err(refusal);
        }
        if future.tries > MOST_TRIES {
            break;
        }
    }
    Err(None)
}

/// The grid at a future instant.
struct FutureGrid<'a> {
    grid: &'a GridSnapshot,
    history: SitePairHistory,
    sites: Vec<GridSite>,
    ends: BTreeMap<Timestamp, Vec<ExpectedRelease>>,
    now: Timestamp,
    ended: usize,
    /// Pairs of component and site that were tried.
    tries: usize,
}

impl<'a> FutureGrid<'a> {
    fn new(
        grid: &'a GridSnapshot,
        history: &SitePairHistory,
        releases: Vec<ExpectedRelease>,
        now: Timestamp,
    ) -> Self {
        let mut ends: BTreeMap<Timestamp, Vec<ExpectedRelease>> = BTreeMap::new();
        for release in releases {
            // Work that should have ended already may end at any time, but not in the past.
            ends.entry(release.at.max(now + DurationMs(1)))
                .or_default()
                .push(release);
        }
        let history = history.clone();
        let sites = grid.sites().to_vec();
        Self {
            grid,
            history,
            sites,
            ends,
            now,
            ended: 0,
            tries: 0,
        }
    }

    /// Places what is ahead of the job as far as it fits, then the job.
    fn try_placements(
        &mut self,
        before: &mut Vec<&PlacementWaiter>,
        job: &PlacementWaiter,
    ) -> Result<PlacementPlan, PlacementRefusal> {
        let grid = self.grid.with_sites(self.sites.clone());
        let mut remaining = RemainingResources::of_grid(&grid);
        let tries = &mut self.tries;
        let sites = self.sites.len();
        let mut place = |waiter: &PlacementWaiter| {
            *tries += waiter.request.components().len().max(1) * sites;
            let history = &mut self.history;
            let observer = &mut SilentObserver;
            let mut context = PlacementContext {
                grid: &grid,
                remaining: &mut remaining,
                history,
                observer,
            };
            try_to_place(&waiter.request, &mut context)
        };
        let now = self.now;
        let mut placed = Vec::new();
        before.retain(|waiter| {
            let plan = (waiter.not_before <= now)
                .then(|| place(waiter).ok())
                .flatten();
            let found = plan.is_some();
            placed.extend(plan.map(|plan| (*waiter, plan)));
            !found
        });
        let outcome = place(job);
        placed
            .into_iter()
            .for_each(|(waiter, plan)| self.occupy_until_end(waiter, &plan));
        outcome
    }

    /// Takes the resources of a job that is placed first until it ends.
    fn occupy_until_end(&mut self, waiter: &PlacementWaiter, plan: &PlacementPlan) {
        let end = self.now + plan.transfer_time + waiter.longest;
        for (name, resources) in waiter.request.resources_of_plan(plan) {
            if let Some(site) = self.sites.iter_mut().find(|site| site.name == name) {
                site.pending.add(&resources);
                site.ours.add(&resources);
            }
            let release = ExpectedRelease {
                at: end,
                site: name,
                resources,
                visible: false,
            };
            self.ends.entry(end).or_default().push(release);
        }
    }

    /// Advances to the next instant at which something changes; returns false if there is none.
    fn advance_time(&mut self, wake: Option<Timestamp>) -> bool {
        let end = self.ends.keys().next().copied();
        let Some(next) = end.into_iter().chain(wake).min() else {
            return false;
        };
        self.now = next.max(self.now);
        while let Some(entry) = self.ends.first_entry().filter(|entry| *entry.key() <= next) {
            for release in entry.remove() {
                self.apply_release(&release);
            }
        }
        true
    }

    fn apply_release(&mut self, release: &ExpectedRelease) {
        self.ended += 1;
        let site = self.sites.iter_mut().find(|site| site.name == release.site);
        let Some(site) = site else { return };
        site.ours.subtract(&release.resources);
        match (&mut site.idle, release.visible) {
            (Some(belief), true) => belief.idle.add(&release.resources),
            (_, true) => {}
            (_, false) => site.pending.subtract(&release.resources),
        }
    }
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
