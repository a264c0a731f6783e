//! Draws reservations: sites that grant them, jobs that want them, users who change their minds,
//! sites that lose what they granted or grant something else.

use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::acquisition::{AlternativeShape, MoldingOptions, ReservationTerms};
use cospan_domain::reservation::StartWindow;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::seed_scenario::{BEGINS, DrawnJob, HOUR, MINUTE, SeedScenario, UserAction};
use cospan_simulator::fault_kinds::FaultKind;
use cospan_simulator::world::site_faults::SiteFault;

/// Most times at which sites lose reservations in one run.
const MANY_LOSSES: usize = 8;

/// Number of the random stream.
const PROMISES: u64 = 0x7072_6f6d_6973;
/// The same for how jobs are moved and molded.
const MOLDS: u64 = 0x6d6f_6c64_7321;
/// The same for components that begin later.
const LATER: u64 = 0x6c61_7465_7221;
/// Share of the runs with reservations.
const SHARE: f64 = 0.3;

/// Lets some runs have reservations; the adapter of Slurm asks for none.
pub(super) fn draw_reservations(scenario: &mut SeedScenario) {
    let mut chance = StdRng::seed_from_u64(scenario.seed ^ PROMISES);
    if !scenario.by_slurm && chance.random_bool(SHARE) {
        add_reservations(scenario, &mut chance);
    }
}

/// Lets sites grant reservations, and users ask for them.
pub(super) fn add_reservations(scenario: &mut SeedScenario, chance: &mut StdRng) {
    // Its adapter asks for none.
    scenario.by_slurm = false;
    let_sites_grant(scenario, chance);
    let has_budgets = !scenario.staging.is_empty();
    let submitted = first_submissions(scenario);
    let in_sweeps: BTreeSet<usize> = scenario
        .sweeps
        .iter()
        .flat_map(super::sweeps::DrawnSweep::numbers)
        .collect();
    let mut changes = Vec::new();
    let mut molds = StdRng::seed_from_u64(scenario.seed ^ MOLDS);
    let mut later = StdRng::seed_from_u64(scenario.seed ^ LATER);
    for (number, at) in submitted {
        if !in_sweeps.contains(&number) && chance.random_bool(0.5) {
            let job = &mut scenario.jobs[number];
            // Only what may be divided at will gets a reservation.
            job.flexible = job
                .flexible
                .take()
                .filter(|bounds| bounds.splits.is_empty());
            // Room for input is looked at when sites are asked, not when the job is placed.
            job.input = job.input.filter(|_| !has_budgets);
            let is_divided = job.flexible.is_some();
            job.rare_options.promised = Some(draw_terms(chance, at, is_divided));
            draw_molding(job, &mut molds);
            delay_last_component(job, &mut later);
            if chance.random_bool(0.4) {
                let when = at + DurationMs(chance.random_range(0..HOUR));
                let wish = chance
                    .random_bool(0.7)
                    .then(|| draw_terms(chance, when, is_divided));
                changes.push((when, UserAction::Promise(number, wish)));
            }
        }
    }
    scenario.actions.extend(changes);
    scenario.actions.sort_by_key(|(at, _)| *at);
    draw_lost_reservations(scenario, chance);
}

/// Lets a job be rescheduled by itself; a flexible one runs longer over several sites, and could
/// run on half as many processors.
fn draw_molding(job: &mut DrawnJob, chance: &mut StdRng) {
    let moves = chance.random_bool(0.5);
    job.rare_options
        .promised
        .iter_mut()
        .for_each(|wish| wish.flexible = moves);
    let total: u32 = job.components.iter().sum();
    let least = job
        .flexible
        .as_ref()
        .map(|bounds| bounds.min_component_size.max(1));
    let Some(least) = least else { return };
    let half = AlternativeShape {
        processors: total / 2,
        run_time: DurationMs(job.wall_time.0 * chance.random_range(2..4)),
    };
    let has_half = half.processors >= least && chance.random_bool(0.7);
    let overhead = chance.random_range(0..=25);
    let shapes = if has_half { vec![half] } else { Vec::new() };
    job.rare_options.molding = MoldingOptions { overhead, shapes };
}

/// Lets the last component of a job begin later than the others, which takes a reservation for all
/// of it that is not rescheduled by itself.
fn delay_last_component(job: &mut DrawnJob, chance: &mut StdRng) {
    let is_spread = chance.random_bool(0.4);
    let after = chance.random_range(1..=HOUR);
    // It may have been drawn before.
    job.rare_options.last_after = DurationMs::ZERO;
    let wish = job
        .rare_options
        .promised
        .filter(|wish| wish.reserve_after.is_none());
    let Some(wish) = wish.filter(|_| job.components.len() > 1 && job.flexible.is_none()) else {
        return;
    };
    if is_spread {
        let flexible = false;
        let unreserved = false;
        job.rare_options.promised = Some(ReservationTerms {
            flexible,
            unreserved,
            ..wish
        });
        job.rare_options.last_after = DurationMs(after);
    }
}

/// Lets most of the sites grant reservations.
pub(super) fn let_sites_grant(scenario: &mut SeedScenario, chance: &mut StdRng) {
    for site in &mut scenario.sites {
        site.reserves = chance.random_bool(0.8);
        site.queues &= !site.reserves;
    }
}

/// Lets sites lose reservations, and grant other ones than asked for.
pub(super) fn draw_lost_reservations(scenario: &mut SeedScenario, chance: &mut StdRng) {
    let length = scenario.calm_at.since(BEGINS).0;
    for _ in 0..chance.random_range(0..=MANY_LOSSES) {
        let at = BEGINS + DurationMs(chance.random_range(0..length));
        let site = chance.random_range(0..scenario.sites.len());
        scenario.troubles.push((at, site, SiteFault::LosesLeases));
    }
    if chance.random_bool(0.5) && !scenario.fault_rates.faults.is_empty() {
        let share = chance.random_range(10_000..=100_000);
        scenario
            .fault_rates
            .faults
            .insert(FaultKind::WrongStart, share);
    }
}

/// Returns the time of each job's first submission.
pub(super) fn first_submissions(scenario: &SeedScenario) -> BTreeMap<usize, Timestamp> {
    let mut first = BTreeMap::new();
    for (at, action) in &scenario.actions {
        if let UserAction::Submit(number, _) = action {
            first.entry(*number).or_insert(*at);
        }
    }
    first
}

fn draw_terms(chance: &mut StdRng, at: Timestamp, is_divided: bool) -> ReservationTerms {
    let earliest = at + DurationMs(chance.random_range(0..40 * MINUTE));
    let most = [0, 10 * MINUTE, 3 * HOUR][chance.random_range(0..3)];
    let within = DurationMs(chance.random_range(0..=most));
    let tolerance = DurationMs(chance.random_range(0..=MINUTE)).min(within);
    let window = StartWindow::new(earliest, earliest + within);
    let after = DurationMs(chance.random_range(0..=30 * MINUTE));
    let reserve_after = chance.random_bool(0.25).then_some(after);
    // Nothing of one that is divided is claimed at the start.
    let unreserved = chance.random_bool(0.25) && !is_divided;
    let wish = ReservationTerms::default();
    ReservationTerms {
        window,
        tolerance,
        reserve_after,
        unreserved,
        ..wish
    }
}
