//! What few jobs ask for, and what operators order. Drawn from streams of their own, so
//! that the rest of a seed stays what it is.

use std::sync::Arc;

use cospan_domain::ids::SiteName;
use cospan_domain::job::spec::Priority;
use cospan_domain::labels::{Constraint, Rule};
use cospan_domain::queue::QueueParameters;
use cospan_domain::site::command::Operation;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::scenario::{BEGINS, Deal, DrawnFile, DrawnJob, HOUR, MINUTE};

/// Tell the streams apart.
const JOBS: u64 = 0x6a6f_6273;
const CONSTRAINTS: u64 = 0x6c61_6265_6c73;
const MOVES: u64 = 0x006d_6f76_6573;
const QUEUES: u64 = 0x7175_6575_6573;
const ORDERS: u64 = 0x6f72_6465_7273;
const APART: u64 = 0x6170_6172_7400;
/// Replicas that come and go in one run, at most.
const MANY_MOVES: usize = 6;
/// Orders about sites in one run, at most.
const MANY_ORDERS: usize = 8;

/// Processors that even the smallest site has, beside those that others hold all the time.
pub(super) const ALWAYS_IDLE: u32 = 4;

/// What few jobs ask for; the default is what all others do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rarity {
    /// Each component runs at its own site only: by number, one after the other from this
    /// one on.
    pub fixed_from: Option<usize>,
    /// What the labels of its sites must be, if it is not fixed.
    pub constraint: Option<Constraint>,
    /// Class at submission.
    pub priority: Priority,
    /// A component may run a second time.
    pub rerunnable: bool,
    /// It waits for a site that does not answer, however long.
    pub waits: bool,
    /// Restarts after errors of its own.
    pub max_retries: u32,
    /// A component that fails is restarted alone.
    pub apart: bool,
    /// Counted placement tries.
    pub max_placement_tries: Option<u32>,
    /// Refused claims.
    pub max_claim_tries: Option<u32>,
}

impl Default for Rarity {
    fn default() -> Self {
        Self {
            fixed_from: None,
            constraint: None,
            priority: Priority::Low,
            rerunnable: true,
            waits: false,
            max_retries: 0,
            apart: false,
            max_placement_tries: None,
            max_claim_tries: None,
        }
    }
}

/// Lets some jobs ask for what is rare, if it exists at all in this run.
pub(super) fn draw_rarities(seed: u64, jobs: Vec<DrawnJob>, names: &[SiteName]) -> Vec<DrawnJob> {
    let sites = names.len();
    let mut choice = StdRng::seed_from_u64(seed ^ CONSTRAINTS);
    let choosy = choice.random_bool(0.5);
    let mut parting = StdRng::seed_from_u64(seed ^ APART);
    let parts = parting.random_bool(0.5);
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
            constraint: None,
            priority: match classes {
                true => Priority::ALL[chance.random_range(0..Priority::ALL.len())],
                false => Priority::Low,
            },
            rerunnable: !once,
            waits: patient,
            max_retries: if retries { chance.random_range(1..=3) } else { 0 },
            apart: parts && parting.random_bool(0.5) && !once,
            max_placement_tries: most(placements, &mut chance),
            max_claim_tries: most(claims, &mut chance),
        };
        let small = job.components.iter().sum::<u32>() <= ALWAYS_IDLE;
        let constraint = (choosy && small && choice.random_bool(0.3))
            .then(|| draw_constraint(&mut choice, names))
            .filter(|_| rarity.fixed_from.is_none());
        let rarity = Rarity { constraint, ..rarity };
        // Without errors of its own a job has nothing to retry.
        let code = if retries { 1 } else { job.code };
        DrawnJob { code, rarity, ..job }
    };
    jobs.into_iter().map(draw).collect()
}

/// What some sites satisfy: another than this, one of these, a half of the country.
fn draw_constraint(chance: &mut StdRng, names: &[SiteName]) -> Constraint {
    let mut name = || -> Arc<str> { names[chance.random_range(0..names.len())].as_str().into() };
    let (one, other) = (name(), name());
    let place = |rule| Constraint { key: "place".into(), rule };
    match chance.random_range(0..3) {
        0 if names.len() > 1 => place(Rule::IsNot(one)),
        1 if names.len() > 2 => {
            let half = if one.as_ref() < "e" { "north" } else { "south" };
            Constraint { key: "half".into(), rule: Rule::Is(half.into()) }
        }
        _ => place(Rule::OneOf([one, other].into())),
    }
}

/// How the queues are served: as a server does that is told nothing, or otherwise.
pub(super) fn draw_queue(seed: u64) -> QueueParameters {
    let mut chance = StdRng::seed_from_u64(seed ^ QUEUES);
    if chance.random_bool(0.5) {
        return QueueParameters::default();
    }
    let mut weight = || chance.random_range(1..=3);
    let [n1, n2, n3, n4] = std::array::from_fn(|_| weight());
    let n_l = weight();
    QueueParameters {
        n_h: n_l + chance.random_range(0..=1),
        n_l,
        n1,
        n2,
        n3,
        n4,
        scan_interval: DurationMs(chance.random_range(5_000..=MINUTE)),
        promote_after: chance.random_bool(0.7).then(|| chance.random_range(1..=5)),
        events: chance.random_bool(0.7),
        turn_processors: [1, 16, 64][chance.random_range(0..3)],
        ..QueueParameters::default()
    }
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

/// Replicas that users take out of the catalogue, and enter again before the calm.
pub(super) fn draw_moves(
    seed: u64,
    files: &[DrawnFile],
    calm_at: Timestamp,
) -> Vec<(Timestamp, Deal)> {
    let mut chance = StdRng::seed_from_u64(seed ^ MOVES);
    let mut moves = Vec::new();
    if chance.random_bool(0.5) {
        return moves;
    }
    for _ in 0..chance.random_range(1..=MANY_MOVES) {
        let number = chance.random_range(0..files.len());
        let sites = &files[number].2;
        let site = sites[chance.random_range(0..sites.len())].clone();
        let from = BEGINS + DurationMs(chance.random_range(0..calm_at.since(BEGINS).0));
        let until = from + DurationMs(chance.random_range(MINUTE..=2 * HOUR));
        moves.push((from, Deal::File(number, site.clone(), false)));
        moves.push((until.min(calm_at), Deal::File(number, site, true)));
    }
    moves
}
