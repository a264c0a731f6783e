//! When a job that waits can be placed at the latest, if nothing changes but what is
//! bound to end, and what is before it in the queue is placed first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::grid::{GridSite, GridSnapshot};
use super::history::PairHistory;
use super::plan::PlacementPlan;
use super::policy::{PlacementContext, place};
use super::reason::{PlacementRefusal, Silent};
use super::remaining::Remaining;
use super::request::PlacementRequest;
use crate::ids::SiteName;
use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

/// Most instants that are looked at.
const MOST_STEPS: usize = 500;
/// Most components that are tried at sites meanwhile: a second's work or so.
const MOST_TRIES: usize = 4_000_000;

/// Something of ours that has ended by then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// When it has ended at the latest.
    pub at: Timestamp,
    /// Where it is.
    pub site: SiteName,
    /// What it holds or will claim.
    pub resources: Resources,
    /// The site's own count includes it.
    pub visible: bool,
}

/// A job that waits for its placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// What it asks for.
    pub request: Arc<PlacementRequest>,
    /// Not placed before.
    pub not_before: Timestamp,
    /// How long it keeps what it is given, at most, from when its input is there.
    pub longest: DurationMs,
}

/// When a job can be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// When at the latest.
    pub at: Timestamp,
    /// How it is placed then.
    pub plan: PlacementPlan,
    /// How many components have ended before.
    pub ended: usize,
}

/// How long a job waits behind so many others if the queue moves as it did lately, when
/// `placed` of its jobs were placed within `window`: at the least and at the most, half and
/// twice as long. `None` if none was placed.
pub fn by_pace(
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

/// Looks ahead until `job` is placed: whatever is before it first.
///
/// # Errors
/// What keeps it from a place when everything that is bound to end has ended; `None` if so
/// much happens before, or so much is to be placed, that nothing can be said.
pub fn forecast(
    grid: &GridSnapshot,
    history: &PairHistory,
    releases: Vec<Release>,
    ahead: &[Waiter],
    job: &Waiter,
    now: Timestamp,
) -> Result<Forecast, Option<PlacementRefusal>> {
    let mut future = FutureGrid::new(grid, history, releases, now);
    let mut before: Vec<&Waiter> = ahead.iter().collect();
    for _ in 0..MOST_STEPS {
        let refusal = match future.look(&mut before, job) {
            Ok(plan) if job.not_before <= future.now => {
                return Ok(Forecast {
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
        if !future.go_on(wakes.first().copied()) {
            return Err(refusal);
        }
        if future.tries > MOST_TRIES {
            break;
        }
    }
    Err(None)
}

/// The grid at some instant to come.
struct FutureGrid<'a> {
    grid: &'a GridSnapshot,
    history: PairHistory,
    sites: Vec<GridSite>,
    ends: BTreeMap<Timestamp, Vec<Release>>,
    now: Timestamp,
    ended: usize,
    /// Components that were tried at a site each.
    tries: usize,
}

impl<'a> FutureGrid<'a> {
    fn new(
        grid: &'a GridSnapshot,
        history: &PairHistory,
        releases: Vec<Release>,
        now: Timestamp,
    ) -> Self {
        let mut ends: BTreeMap<Timestamp, Vec<Release>> = BTreeMap::new();
        for release in releases {
            // What should have ended already may do so at any time, but not in the past.
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

    /// Places what is before the job as far as it fits, then the job.
    fn look(
        &mut self,
        before: &mut Vec<&Waiter>,
        job: &Waiter,
    ) -> Result<PlacementPlan, PlacementRefusal> {
        let grid = self.grid.with_sites(self.sites.clone());
        let mut remaining = Remaining::of(&grid);
        let tries = &mut self.tries;
        let sites = self.sites.len();
        let mut place = |waiter: &Waiter| {
            *tries += waiter.request.components().len().max(1) * sites;
            let history = &mut self.history;
            let observer = &mut Silent;
            let mut context = PlacementContext {
                grid: &grid,
                remaining: &mut remaining,
                history,
                observer,
            };
            place(&waiter.request, &mut context)
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
            .for_each(|(waiter, plan)| self.take(waiter, &plan));
        outcome
    }

    /// A job that is placed first keeps what it is given until it has ended.
    fn take(&mut self, waiter: &Waiter, plan: &PlacementPlan) {
        let end = self.now + plan.transfer_time + waiter.longest;
        for (name, resources) in waiter.request.uses(plan) {
            if let Some(site) = self.sites.iter_mut().find(|site| site.name == name) {
                site.pending.add(&resources);
                site.ours.add(&resources);
            }
            let release = Release {
                at: end,
                site: name,
                resources,
                visible: false,
            };
            self.ends.entry(end).or_default().push(release);
        }
    }

    /// Goes to the next instant at which something changes, if there is one.
    fn go_on(&mut self, wake: Option<Timestamp>) -> bool {
        let end = self.ends.keys().next().copied();
        let Some(next) = end.into_iter().chain(wake).min() else {
            return false;
        };
        self.now = next.max(self.now);
        while let Some(entry) = self.ends.first_entry().filter(|entry| *entry.key() <= next) {
            for release in entry.remove() {
                self.end(&release);
            }
        }
        true
    }

    fn end(&mut self, release: &Release) {
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
