//! Draws shared reservations: operators who have them made, extend them and cancel them, and users
//! who name them, also such as may not.

use std::collections::BTreeSet;

use anyhow::Result;
use cospan_domain::ids::{KeyName, ReservationName};
use cospan_domain::reservation::StartWindow;
use cospan_domain::resources::Resources;
use cospan_domain::site::shared_reservation::SharedReservationTerms;
use cospan_domain::site::shared_reservation_access::ReservationAccessChange;
use cospan_domain::site::site_command::OperatorCommand;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::draw_reservations::{draw_lost_reservations, first_submissions, let_sites_grant};
use super::rare_options::USERS;
use super::seed_scenario::{BEGINS, HOUR, MINUTE, SeedScenario, UserAction};
use super::sweeps::DrawnSweep;

/// Number of the random stream.
const SHARED: u64 = 0x7368_6172_6564;
/// The same for operators who change their minds at once.
const HASTE: u64 = 0x6861_7374_6521;
/// Share of the runs with such reservations.
const SHARE: f64 = 0.3;
/// Most in one run.
const MANY: usize = 6;

/// The times at which jobs may name a reservation, and expect something of it.
struct Course {
    name: ReservationName,
    from: Timestamp,
    to: Timestamp,
}

/// Lets some runs have shared reservations; the adapter of Slurm makes none.
pub(super) fn draw_shared(scenario: &mut SeedScenario) -> Result<()> {
    let mut chance = StdRng::seed_from_u64(scenario.seed ^ SHARED);
    if !scenario.by_slurm && chance.random_bool(SHARE) {
        add_shared_reservations(scenario, &mut chance)?;
    }
    Ok(())
}

/// Lets operators have processors reserved, and users share them.
///
/// # Errors
/// Never: all names are valid.
pub(super) fn add_shared_reservations(
    scenario: &mut SeedScenario,
    chance: &mut StdRng,
) -> Result<()> {
    // Sites that grant reservations are there already, if there are any.
    if scenario.sites.iter().all(|site| !site.reserves) {
        let_sites_grant(scenario, chance);
        draw_lost_reservations(scenario, chance);
    }
    let count = chance.random_range(1..=MANY);
    let courses: Vec<Course> = (0..count)
        .map(|number| draw_course(scenario, chance, number))
        .collect::<Result<_>>()?;
    take_back_at_once(scenario);
    for (number, at) in first_submissions(scenario) {
        let swept = scenario
            .sweeps
            .iter()
            .flat_map(DrawnSweep::numbers)
            .any(|n| n == number);
        let has_budgets = !scenario.staging.is_empty();
        let job = &mut scenario.jobs[number];
        if swept || job.rare_options.promised.is_some() || job.rare_options.apart {
            continue;
        }
        let now: Vec<&Course> = courses
            .iter()
            .filter(|c| (c.from..c.to).contains(&at))
            .collect();
        let named = if chance.random_bool(0.9) {
            now
        } else {
            courses.iter().collect()
        };
        if let Some(course) = named.choose(chance).filter(|_| chance.random_bool(0.8)) {
            // Room for input is looked at when sites are asked, not when the job is placed.
            job.input = job.input.filter(|_| !has_budgets);
            job.rare_options.within = Some(course.name.clone());
            job.rare_options.user = USERS[chance.random_range(0..USERS.len())];
        }
    }
    scenario.actions.sort_by_key(|(at, _)| *at);
    Ok(())
}

/// Lets some operators cancel what they have just requested, while sites are still asked for it.
fn take_back_at_once(scenario: &mut SeedScenario) {
    let mut chance = StdRng::seed_from_u64(scenario.seed ^ HASTE);
    let most = 4 * scenario.fault_rates.way_max.0;
    let mut back = Vec::new();
    for (at, action) in &scenario.actions {
        if let UserAction::Reserve(sites, wish) = action
            && chance.random_bool(0.3)
        {
            let at = *at + DurationMs(chance.random_range(0..=most));
            let cancel = OperatorCommand::CancelReservation {
                name: wish.name.clone(),
            };
            back.extend(
                sites
                    .first()
                    .map(|site| (at, UserAction::Site(*site, cancel))),
            );
        }
    }
    scenario.actions.extend(back);
}

/// Draws one reservation, from its making to its end, and perhaps another of its name.
fn draw_course(scenario: &mut SeedScenario, chance: &mut StdRng, number: usize) -> Result<Course> {
    let name = ReservationName::new(&format!("course-{number}"))?;
    let length = scenario.calm_at.since(BEGINS).0;
    let from = BEGINS + DurationMs(chance.random_range(0..length * 3 / 4));
    let mut site = chance.random_range(0..scenario.sites.len());
    let mut wish = draw_shared_terms(scenario, chance, (name.clone(), site, from))?;
    if chance.random_bool(0.4) {
        site = spread_over_sites(scenario, chance, &mut wish);
    }
    let to = wish.window.latest + wish.length;
    let mut sites = vec![site];
    if wish.parts.is_empty() && chance.random_bool(0.3) {
        sites.push(chance.random_range(0..scenario.sites.len()));
    }
    let mut actions = vec![(
        from,
        UserAction::Reserve(sites.clone(), Box::new(wish.clone())),
    )];
    if chance.random_bool(0.5) {
        // A user without an answer asks once more.
        let again = from + DurationMs(chance.random_range(0..10 * MINUTE));
        actions.push((again, UserAction::Reserve(sites, Box::new(wish.clone()))));
    }
    for _ in 0..chance.random_range(0..=2) {
        let until = to + DurationMs(chance.random_range(MINUTE..2 * HOUR));
        let extend = OperatorCommand::ExtendReservation {
            name: name.clone(),
            until,
        };
        actions.push((
            draw_moment(chance, from, to),
            UserAction::Site(site, extend),
        ));
    }
    if chance.random_bool(0.3) {
        let change = draw_permission_change(chance, &name)?;
        actions.push((
            draw_moment(chance, from, to),
            UserAction::Site(site, change),
        ));
    }
    if chance.random_bool(0.4) {
        let at = draw_moment(chance, from, to);
        let cancel = OperatorCommand::CancelReservation { name: name.clone() };
        actions.push((at, UserAction::Site(site, cancel)));
        let later = at + DurationMs(chance.random_range(0..2 * MINUTE));
        let other = draw_shared_terms(scenario, chance, (name.clone(), site, later))?;
        actions.push((later, UserAction::Reserve(vec![site], Box::new(other))));
    }
    scenario.actions.extend(actions);
    Ok(Course { name, from, to })
}

fn draw_moment(chance: &mut StdRng, from: Timestamp, to: Timestamp) -> Timestamp {
    from + DurationMs(chance.random_range(0..to.since(from).0))
}

/// Has two sites or more reserve for the same time, and returns the first of them, which decides.
fn spread_over_sites(
    scenario: &SeedScenario,
    chance: &mut StdRng,
    wish: &mut SharedReservationTerms,
) -> usize {
    let count = scenario.sites.len();
    let mut named: Vec<usize> = (0..count).filter(|_| chance.random_bool(0.6)).collect();
    if named.len() < 2 {
        named = (0..count.min(2)).collect();
    }
    let parts = named
        .iter()
        .map(|site: &usize| {
            let site = &scenario.sites[*site];
            let most = (site.nodes * site.processors_per_node).min(8);
            (
                site.name.clone(),
                Resources::processors(most.min(wish.resources.processors)),
            )
        })
        .collect();
    wish.tolerance = DurationMs(chance.random_range(0..=10 * MINUTE));
    wish.parts = parts;
    let first = wish.parts.keys().next();
    named
        .into_iter()
        .find(|site: &usize| Some(&scenario.sites[*site].name) == first)
        .unwrap_or_default()
}

/// Changes who may use one, while it may be used.
fn draw_permission_change(chance: &mut StdRng, name: &ReservationName) -> Result<OperatorCommand> {
    let one = KeyName::new(USERS[chance.random_range(0..USERS.len())])?;
    let other = KeyName::new(USERS[chance.random_range(0..USERS.len())])?;
    let access = match chance.random_range(0..3) {
        0 => ReservationAccessChange::Everybody,
        1 => ReservationAccessChange::Only([one].into()),
        _ => ReservationAccessChange::Change {
            add: [one].into(),
            remove: [other].into(),
        },
    };
    Ok(OperatorCommand::AllowReservation {
        name: name.clone(),
        access,
    })
}

/// Draws the terms from some time on, and the users. Lead and margin are not an operator's to say.
fn draw_shared_terms(
    scenario: &SeedScenario,
    chance: &mut StdRng,
    (name, site, from): (ReservationName, usize, Timestamp),
) -> Result<SharedReservationTerms> {
    let site = &scenario.sites[site];
    let most = (site.nodes * site.processors_per_node).min(24);
    let mut allowed = BTreeSet::new();
    if chance.random_bool(0.5) {
        allowed.insert(KeyName::new(USERS[chance.random_range(0..USERS.len())])?);
    }
    let earliest = from + DurationMs(chance.random_range(0..HOUR));
    let within = DurationMs(chance.random_range(0..=HOUR));
    Ok(SharedReservationTerms {
        name,
        allowed,
        resources: Resources::processors(chance.random_range(2..=most)),
        window: StartWindow::new(earliest, earliest + within),
        lead: DurationMs::ZERO,
        length: DurationMs(chance.random_range(HOUR / 2..5 * HOUR)),
        margin: DurationMs::ZERO,
        parts: [].into(),
        tolerance: DurationMs::ZERO,
    })
}
