//! The time at which a waiting job can be placed, if nothing changes but what is bound or expected
//! to end, and if what is ahead in the queue is placed first.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::grid::{GridSite, GridSnapshot};
use super::history::SitePairHistory;
use super::placement_plan::PlacementPlan;
use super::placement_request::PlacementRequest;
use super::policy::{PlacementContext, try_to_place};
use super::reason::{PlacementRefusal, SilentObserver};
use super::remaining::RemainingResources;
use crate::ids::{Digest, SiteName};
use crate::placed::Placement;
use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

/// The most instants that are looked at.
const MOST_STEPS: usize = 2_000;
/// The most components that are tried at sites meanwhile: about a second's work.
const MOST_TRIES: usize = 4_000_000;

/// Work of ours that ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedRelease {
    /// The latest or the expected time of its end.
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
    /// The longest or the expected time for which it keeps its resources, from when its input is
    /// there.
    pub holds_for: DurationMs,
}

/// The jobs that wait beside the one that is looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct WaitingJobs<'a> {
    /// Those that are placed first wherever both fit, in order.
    pub ahead: &'a [PlacementWaiter],
    /// Those that are placed where it does not fit, in order.
    pub behind: &'a [PlacementWaiter],
}

/// The arrival of copies at sites. Implemented by what knows them.
pub trait CopyArrivals: fmt::Debug {
    /// Returns the time at which a copy of this content is at this site, or is expected there;
    /// `None` if none is there or on its way.
    fn arrival_of(&self, digest: &Digest, site: &SiteName) -> Option<Timestamp>;
}

impl CopyArrivals for BTreeMap<(Digest, SiteName), Timestamp> {
    fn arrival_of(&self, digest: &Digest, site: &SiteName) -> Option<Timestamp> {
        self.get(&(*digest, site.clone())).copied()
    }
}

/// The changes that are expected meanwhile.
#[derive(Debug, Clone)]
pub struct ExpectedChanges<'a> {
    /// Work that ends.
    pub releases: Vec<ExpectedRelease>,
    /// Input that is there, or comes.
    pub copies: &'a dyn CopyArrivals,
}

/// The forecast of a placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementForecast {
    /// The time of the placement.
    pub at: Timestamp,
    pub plan: PlacementPlan,
    /// The time from the placement until all input is there. Copies that are there already, or are
    /// brought for jobs ahead, are not brought again.
    pub transfer_time: DurationMs,
    /// The number of components that end before.
    pub ended: usize,
}

/// Looks ahead until `job` is placed, after everything that is ahead of it.
///
/// # Errors
/// The refusal that remains when everything that ends has ended; `None` if so much happens before,
/// or so much is to be placed, that nothing can be said.
pub fn forecast_placement(
    grid: &GridSnapshot,
    history: &SitePairHistory,
    changes: ExpectedChanges<'_>,
    others: WaitingJobs<'_>,
    job: &PlacementWaiter,
    now: Timestamp,
) -> Result<PlacementForecast, Option<PlacementRefusal>> {
    let mut future = FutureGrid::new(grid, history, changes, now);
    let mut before: Vec<&PlacementWaiter> = others.ahead.iter().collect();
    let mut after: Vec<&PlacementWaiter> = others.behind.iter().collect();
    for _ in 0..MOST_STEPS {
        let refusal = match future.try_placements(&mut before, job, &mut after) {
            Ok(plan) if job.not_before <= future.now => {
                return Ok(PlacementForecast {
                    at: future.now,
                    transfer_time: future.bring_input(&plan),
                    plan,
                    ended: future.ended,
                });
            }
            outcome => outcome.err(),
        };
        let wakes = before
            .iter()
            .chain(&after)
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
    copies: &'a dyn CopyArrivals,
    /// The arrivals of copies that are brought for jobs placed meanwhile.
    brought: BTreeMap<(Digest, SiteName), Timestamp>,
    now: Timestamp,
    ended: usize,
    /// Pairs of component and site that were tried.
    tries: usize,
}

/// The placements at one instant, one after the other.
struct PlacementsAtInstant<'a, 'w> {
    grid: &'a GridSnapshot,
    remaining: RemainingResources,
    history: &'a mut SitePairHistory,
    now: Timestamp,
    tries: &'a mut usize,
    /// Requests that did not fit: equal ones do not fit either, as less and less is left.
    refused: BTreeSet<&'w PlacementRequest>,
    placed: Vec<(&'w PlacementWaiter, PlacementPlan)>,
}

impl<'w> PlacementsAtInstant<'_, 'w> {
    fn place(&mut self, waiter: &'w PlacementWaiter) -> Result<PlacementPlan, PlacementRefusal> {
        *self.tries += waiter.request.components().len().max(1) * self.grid.sites().len();
        let mut context = PlacementContext {
            grid: self.grid,
            remaining: &mut self.remaining,
            history: self.history,
            observer: &mut SilentObserver,
        };
        try_to_place(&waiter.request, &mut context)
    }

    /// Places those that fit and whose time has come; they leave the list.
    fn place_all(&mut self, waiters: &mut Vec<&'w PlacementWaiter>) {
        waiters.retain(|waiter| {
            if waiter.not_before > self.now || self.refused.contains(&*waiter.request) {
                return true;
            }
            match self.place(waiter) {
                Ok(plan) => self.placed.push((*waiter, plan)),
                Err(_) => {
                    self.refused.insert(&waiter.request);
                    return true;
                }
            }
            false
        });
    }
}

impl<'a> FutureGrid<'a> {
    fn new(
        grid: &'a GridSnapshot,
        history: &SitePairHistory,
        changes: ExpectedChanges<'a>,
        now: Timestamp,
    ) -> Self {
        let mut ends: BTreeMap<Timestamp, Vec<ExpectedRelease>> = BTreeMap::new();
        for release in changes.releases {
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
            copies: changes.copies,
            brought: BTreeMap::new(),
            now,
            ended: 0,
            tries: 0,
        }
    }

    /// Places what is ahead of the job as far as it fits, then the job, or else what is behind it.
    fn try_placements<'w>(
        &mut self,
        before: &mut Vec<&'w PlacementWaiter>,
        job: &'w PlacementWaiter,
        after: &mut Vec<&'w PlacementWaiter>,
    ) -> Result<PlacementPlan, PlacementRefusal> {
        let grid = self.grid.with_sites(self.sites.clone());
        let mut instant = PlacementsAtInstant {
            remaining: RemainingResources::of_grid(&grid),
            grid: &grid,
            history: &mut self.history,
            now: self.now,
            tries: &mut self.tries,
            refused: BTreeSet::new(),
            placed: Vec::new(),
        };
        instant.place_all(before);
        let outcome = instant.place(job);
        if outcome.is_err() || job.not_before > self.now {
            instant.place_all(after);
        }
        for (waiter, plan) in instant.placed {
            self.occupy_until_end(waiter, &plan);
        }
        outcome
    }

    /// Takes the resources of a job that is placed first until it ends.
    fn occupy_until_end(&mut self, waiter: &PlacementWaiter, plan: &PlacementPlan) {
        let end = self.now + self.bring_input(plan) + waiter.holds_for;
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

    /// Brings the input of a plan, and returns the time until all of it is there.
    fn bring_input(&mut self, plan: &PlacementPlan) -> DurationMs {
        let now = self.now;
        let times = plan
            .placements
            .iter()
            .map(|placement| self.bring_component_input(placement));
        times.max().unwrap_or_default().since(now)
    }

    /// Brings the input of a component, one content after the other, and returns the time at which
    /// all of it is there. What is on its way already arrives meanwhile.
    fn bring_component_input(&mut self, placement: &Placement) -> Timestamp {
        let mut last = self.now;
        let mut sent_until = self.now;
        for source in &placement.sources {
            if source.from == placement.site {
                continue;
            }
            let digest = source.content.digest;
            let known = self.copies.arrival_of(&digest, &placement.site);
            match self.brought.entry((digest, placement.site.clone())) {
                Entry::Occupied(brought) => last = last.max(*brought.get()),
                Entry::Vacant(_) if known.is_some() => last = last.max(known.unwrap_or_default()),
                Entry::Vacant(entry) => {
                    let ends = self
                        .grid
                        .index_of(&source.from)
                        .zip(self.grid.index_of(&placement.site));
                    let rate = ends.map(|(from, to)| self.grid.bandwidth(from, to));
                    let time = rate.and_then(|rate| source.content.size.transfer_time(rate));
                    sent_until = sent_until + time.unwrap_or_default();
                    entry.insert(sent_until);
                }
            }
        }
        last.max(sent_until)
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
