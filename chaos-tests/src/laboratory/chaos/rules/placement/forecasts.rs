//! When a job that waits is placed at the latest: the sites at each instant are worked out from
//! everything that has ended by then, and from what was placed first meanwhile.

use std::sync::Arc;

use cospan_domain::placement::estimate::{Forecast, Release, Waiter, forecast};
use cospan_domain::placement::{
    Board, GridSite, GridSnapshot, History, PlacementRequest, Plan, Quota, QuotaBasis, Refusal,
    Remaining, Silent, place,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::ground::Ground;
use super::ground_draws::site_name;
use super::settings::{reading, remote};

const NOW: u64 = 5_000;

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    if chance.random_bool(0.5) {
        // A look ahead takes long.
        return Vec::new();
    }
    let (mut ground, asked) = remote(chance);
    let releases = busy(chance, &mut ground);
    let (grid, history) = (ground.snapshot(), History::All);
    let ahead: Vec<Waiter> = (0..chance.random_range(0..=3))
        .filter_map(|_| {
            let request = reading(chance).request()?;
            Some(waiter(chance, request))
        })
        .collect();
    let Some(request) = asked.request() else { return Vec::new() };
    let job = waiter(chance, request);
    let told = forecast(&grid, &history, releases.clone(), &ahead, &job, Timestamp(NOW));
    let mut future = Future::new(&grid, &releases, &ahead);
    let ought = future.ahead_to(&job);
    let text =
        || format!("{job:?} behind {ahead:?}, {releases:?} on {ground:?}: {told:?}, not {ought:?}");
    (told != ought).then(text).into_iter().collect()
}

/// A moment; some of them are equal, and some have passed.
fn moment(chance: &mut StdRng) -> Timestamp {
    Timestamp(1_000 * chance.random_range(3..14))
}

fn waiter(chance: &mut StdRng, request: PlacementRequest) -> Waiter {
    let not_before = if chance.random_bool(0.3) { moment(chance) } else { Timestamp(0) };
    let longest = DurationMs(1_000 * chance.random_range(0..8));
    Waiter { request: request.into(), not_before, longest }
}

/// Gives a part of each site to something of ours that ends: what the site shows, and what it
/// does not show yet.
fn busy(chance: &mut StdRng, ground: &mut Ground) -> Vec<Release> {
    let mut releases = Vec::new();
    for site in Arc::make_mut(&mut ground.sites) {
        for _ in 0..chance.random_range(0..=3) {
            let idle = site.idle.as_ref().map_or(0, |belief| belief.idle.processors);
            let free = idle.saturating_sub(site.pending.processors);
            if free == 0 {
                break;
            }
            let resources = Resources::processors(chance.random_range(1..=free));
            let visible = chance.random_bool(0.7);
            match (&mut site.idle, visible) {
                (Some(belief), true) => belief.idle.subtract(&resources),
                _ => site.pending.add(&resources),
            }
            site.ours.add(&resources);
            releases.push(Release {
                at: moment(chance),
                site: site.name.clone(),
                resources,
                visible,
            });
        }
        if chance.random_bool(0.2) {
            let share = PerMillion([500_000, 900_000][chance.random_range(0..2)]);
            site.quota = Quota { share, basis: QuotaBasis::Share };
        }
        if chance.random_bool(0.05) {
            site.idle = None;
        }
    }
    if let Some(site) = site_name(9).filter(|_| chance.random_bool(0.1)) {
        // It is at a site that is gone.
        let resources = Resources::processors(1);
        releases.push(Release { at: moment(chance), site, resources, visible: true });
    }
    releases
}

/// Something that ends.
struct End {
    release: Release,
    /// It was placed meanwhile.
    is_new: bool,
    is_over: bool,
}

struct Future<'a> {
    grid: &'a GridSnapshot,
    now: u64,
    ends: Vec<End>,
    waiting: Vec<&'a Waiter>,
}

impl<'a> Future<'a> {
    fn new(grid: &'a GridSnapshot, releases: &[Release], ahead: &'a [Waiter]) -> Self {
        let late = |release: &Release| Release {
            // What is overdue ends at once, but not before.
            at: Timestamp(release.at.0.max(NOW + 1)),
            ..release.clone()
        };
        let ends = releases.iter().map(|release| End {
            release: late(release),
            is_new: false,
            is_over: false,
        });
        Self { grid, now: NOW, ends: ends.collect(), waiting: ahead.iter().collect() }
    }

    fn ahead_to(&mut self, job: &Waiter) -> Result<Forecast, Option<Refusal>> {
        loop {
            let outcome = self.look(job);
            let ended = self.ends.iter().filter(|end| end.is_over).count();
            let refusal = match outcome {
                Ok(plan) if job.not_before.0 <= self.now => {
                    return Ok(Forecast { at: Timestamp(self.now), plan, ended });
                }
                outcome => outcome.err(),
            };
            let wakes = self.waiting.iter().chain([&job]).map(|waiter| waiter.not_before.0);
            let wakes = wakes.filter(|at| *at > self.now);
            let ends = self.ends.iter().filter(|end| !end.is_over).map(|end| end.release.at.0);
            let Some(next) = wakes.chain(ends).min() else { return Err(refusal) };
            self.now = next;
            self.ends.iter_mut().for_each(|end| end.is_over |= end.release.at.0 <= next);
        }
    }

    /// What waits before it takes its place first.
    fn look(&mut self, job: &Waiter) -> Result<Plan, Refusal> {
        let grid = self.grid.with_sites(self.sites());
        let mut remaining = Remaining::of(&grid);
        let mut placed = |waiter: &Waiter| {
            let (history, observer) = (&mut History::All, &mut Silent);
            let remaining = &mut remaining;
            place(&waiter.request, &mut Board { grid: &grid, remaining, history, observer })
        };
        let mut waiting = Vec::new();
        for waiter in std::mem::take(&mut self.waiting) {
            let due = waiter.not_before.0 <= self.now;
            let Some(plan) = due.then(|| placed(waiter).ok()).flatten() else {
                waiting.push(waiter);
                continue;
            };
            let at = Timestamp(self.now + plan.transfer_time.0 + waiter.longest.0);
            let given = plan.placements.iter().zip(waiter.request.components());
            self.ends.extend(given.map(|(placement, part)| End {
                release: Release {
                    at,
                    site: placement.site.clone(),
                    resources: part.resources.clone(),
                    visible: false,
                },
                is_new: true,
                is_over: false,
            }));
        }
        self.waiting = waiting;
        placed(job)
    }

    /// The sites as they are now.
    fn sites(&self) -> Vec<GridSite> {
        let mut sites = self.grid.sites().to_vec();
        for site in &mut sites {
            let name = site.name.clone();
            let here = self.ends.iter().filter(|end| end.release.site == name);
            for End { release, is_new, is_over } in here {
                match (is_new, is_over) {
                    (true, false) => {
                        site.ours.add(&release.resources);
                        site.pending.add(&release.resources);
                    }
                    (false, true) => give_back(site, release),
                    (true, true) | (false, false) => {}
                }
            }
        }
        sites
    }
}

fn give_back(site: &mut GridSite, release: &Release) {
    site.ours.subtract(&release.resources);
    match (&mut site.idle, release.visible) {
        (Some(belief), true) => belief.idle.add(&release.resources),
        (None, true) => {}
        (_, false) => site.pending.subtract(&release.resources),
    }
}
