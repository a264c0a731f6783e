//! What few jobs ask for, and what operators order. Drawn from streams of their own, so
//! that the rest of a seed stays what it is.

use cospan_domain::job::spec::Priority;
use cospan_domain::site::command::Operation;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::scenario::{BEGINS, Deal, DrawnJob, HOUR, MINUTE};

/// Tell the streams apart.
const JOBS: u64 = 0x6a6f_6273;
const ORDERS: u64 = 0x6f72_6465_7273;
/// Orders about sites in one run, at most.
const MANY_ORDERS: usize = 8;

/// Processors that even the smallest site has, beside those that others hold all the time.
const ALWAYS_IDLE: u32 = 4;

/// What few jobs ask for; the default is what all others do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rarity {
    /// Each component runs at its own site only: by number, one after the other from this
    /// one on.
    pub fixed_from: Option<usize>,
    /// Class at submission.
    pub priority: Priority,
    /// A component may run a second time.
    pub rerunnable: bool,
    /// It waits for a site that does not answer, however long.
    pub waits: bool,
    /// Restarts after errors of its own.
    pub max_retries: u32,
    /// Counted placement tries.
    pub max_placement_tries: Option<u32>,
    /// Refused claims.
    pub max_claim_tries: Option<u32>,
}

impl Default for Rarity {
    fn default() -> Self {
        Self {
            fixed_from: None,
            priority: Priority::Low,
            rerunnable: true,
            waits: false,
            max_retries: 0,
            max_placement_tries: None,
            max_claim_tries: None,
        }
    }
}

/// Lets some jobs ask for what is rare, if it exists at all in this run.
pub(super) fn draw_rarities(seed: u64, jobs: Vec<DrawnJob>, sites: usize) -> Vec<DrawnJob> {
    let mut chance = StdRng::seed_from_u64(seed ^ JOBS);
    let exist: [bool; 7] = std::array::from_fn(|_| chance.random_bool(0.5));
    let draw = |job: DrawnJob| {
        let [fixed, classes, once, patient, retries, placements, claims] =
            exist.map(|exists| exists && chance.random_bool(0.15));
        let fits = job.components.len() <= sites;
        let most = |exists: bool, chance: &mut StdRng| exists.then(|| chance.random_range(1..=20));
        let small = job.components.iter().all(|processors| *processors <= ALWAYS_IDLE);
        let fixed_from = (fixed && fits).then(|| chance.random_range(0..sites));
        let rarity = Rarity {
            fixed_from: fixed_from.filter(|_| small),
            priority: match classes {
                true => Priority::ALL[chance.random_range(0..Priority::ALL.len())],
                false => Priority::Low,
            },
            rerunnable: !once,
            waits: patient,
            max_retries: if retries { chance.random_range(1..=3) } else { 0 },
            max_placement_tries: most(placements, &mut chance),
            max_claim_tries: most(claims, &mut chance),
        };
        // Without errors of its own a job has nothing to retry.
        let code = if retries { 1 } else { job.code };
        DrawnJob { code, rarity, ..job }
    };
    jobs.into_iter().map(draw).collect()
}

/// What operators order, each with what takes it back: none of it lasts.
pub(super) fn draw_orders(seed: u64, sites: usize, calm_at: Timestamp) -> Vec<(Timestamp, Deal)> {
    let mut chance = StdRng::seed_from_u64(seed ^ ORDERS);
    if chance.random_bool(0.5) {
        return Vec::new();
    }
    let mut orders = Vec::new();
    for _ in 0..chance.random_range(1..=MANY_ORDERS) {
        let site = chance.random_range(0..sites);
        let from = BEGINS + DurationMs(chance.random_range(0..calm_at.since(BEGINS).0));
        let until = from + DurationMs(chance.random_range(MINUTE..=2 * HOUR));
        let (ordered, taken_back) = draw_order(&mut chance, from, until);
        orders.push((from, Deal::Site(site, ordered)));
        orders.extend(taken_back.map(|order| (until, Deal::Site(site, order))));
    }
    orders
}

fn draw_order(
    chance: &mut StdRng,
    from: Timestamp,
    until: Timestamp,
) -> (Operation, Option<Operation>) {
    let begins = from + DurationMs(chance.random_range(0..=HOUR));
    let window =
        Operation::SetWindow { from: begins, until: begins.max(until), reason: "drawn".into() };
    match chance.random_range(0..6) {
        0 => (Operation::Drain, Some(Operation::Undrain)),
        1 => (Operation::Freeze, Some(Operation::Thaw)),
        2 => (window, Some(Operation::RemoveWindow { from: begins })),
        3 => (Operation::Force { usable: true, until }, Some(Operation::Unforce)),
        4 => (Operation::Force { usable: false, until }, Some(Operation::Unforce)),
        _ => (Operation::ResetErrors, None),
    }
}
