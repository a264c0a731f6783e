//! Draws what few jobs ask for, and commands of operators, from streams of their own, so that the
//! rest of a seed stays as it is.

use std::sync::Arc;

use cospan_domain::acquisition::{MoldingOptions, ReservationTerms};
use cospan_domain::ids::{ReservationName, SiteName};
use cospan_domain::job::spec::Priority;
use cospan_domain::labels::{LabelConstraint, LabelRule};
use cospan_domain::queue::{QueueParameters, StarvationGuardParameters};
use cospan_domain::site::site_command::OperatorCommand;
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::draw_faults::Planned;
use super::seed_scenario::{BEGINS, DrawnFile, DrawnJob, HOUR, MINUTE, SeedScenario, UserAction};
use cospan_simulator::world::site_faults::SiteFault;

/// Numbers of the random streams.
const JOBS: u64 = 0x6a6f_6273;
const CONSTRAINTS: u64 = 0x6c61_6265_6c73;
const MESSAGES: u64 = 0x6d65_7373;
const MOVES: u64 = 0x006d_6f76_6573;
const QUEUES: u64 = 0x7175_6575_6573;
const STARVATION_GUARDS: u64 = 0x686f_6172_6473;
const RIVALS: u64 = 0x7269_7661_6c73;
const ORDERS: u64 = 0x6f72_6465_7273;
const APART: u64 = 0x6170_6172_7400;
/// Owners of the jobs: errors of one user alone close no site.
const PEOPLE: u64 = 0x7065_6f70_6c65;
const ABANDONS: u64 = 0x6162_616e_646f;
/// Most replicas that come and go in one run.
const MANY_MOVES: usize = 6;
/// Most commands about sites in one run.
const MANY_ORDERS: usize = 8;

/// Longest run time of rivals; one that was given up at a site that does not answer must be over
/// before it runs again.
const RIVAL_MS_MAX: u64 = 20 * MINUTE;

/// Processors that even the smallest site has, beside those that others use all the time.
pub(super) const ALWAYS_IDLE: u32 = 4;

/// Users who own jobs.
pub const USERS: [&str; 3] = ["alice", "bob", "dora"];

/// Targets that may be notified of the end of jobs.
pub const TARGETS: [&str; 2] = ["pager", "team"];

/// Options that few jobs have; the default is what all others do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RareOptions {
    /// Each component runs at its own site only: by number, one after the other from this
    /// one on.
    pub fixed_from: Option<usize>,
    /// Constraint on the labels of its sites, if it is not fixed.
    pub constraint: Option<LabelConstraint>,
    /// Priority at submission.
    pub priority: Priority,
    /// A component may run a second time.
    pub rerunnable: bool,
    /// It waits for a site that does not answer, however long.
    pub waits: bool,
    /// Retries after errors of its own.
    pub max_retries: u32,
    /// A component that fails is restarted alone.
    pub apart: bool,
    /// Counted placement tries.
    pub max_placement_tries: Option<u32>,
    /// Refused claims.
    pub max_claim_tries: Option<u32>,
    /// All of [`TARGETS`] are notified of its end.
    pub notifies: bool,
    /// Terms of its reservation.
    pub promised: Option<ReservationTerms>,
    /// Time from the start to that of its last component.
    pub last_after: DurationMs,
    /// Other ways in which it may run, if it is flexible.
    pub molding: MoldingOptions,
    /// The reservation that it shares with others.
    pub within: Option<ReservationName>,
    /// The owner.
    pub user: &'static str,
}

impl Default for RareOptions {
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
            notifies: false,
            promised: None,
            last_after: DurationMs::ZERO,
            molding: MoldingOptions::default(),
            within: None,
            user: USERS[0],
        }
    }
}

/// Gives some jobs rare options, if these exist at all in this run.
pub(super) fn draw_rarities(seed: u64, jobs: Vec<DrawnJob>, names: &[SiteName]) -> Vec<DrawnJob> {
    let sites = names.len();
    let mut choice = StdRng::seed_from_u64(seed ^ CONSTRAINTS);
    let choosy = choice.random_bool(0.5);
    let mut parting = StdRng::seed_from_u64(seed ^ APART);
    let parts = parting.random_bool(0.5);
    let mut teller = StdRng::seed_from_u64(seed ^ MESSAGES);
    let mut people = StdRng::seed_from_u64(seed ^ PEOPLE);
    let users = people.random_range(1..=USERS.len());
    let mut chance = StdRng::seed_from_u64(seed ^ JOBS);
    let exist: [bool; 7] = std::array::from_fn(|_| chance.random_bool(0.5));
    jobs.into_iter()
        .map(|job: DrawnJob| {
            let [fixed, classes, once, patient, retries, placements, claims] =
                exist.map(|exists| exists && chance.random_bool(0.15));
            let fits = job.components.len() <= sites;
            let most =
                |exists: bool, chance: &mut StdRng| exists.then(|| chance.random_range(1..=20));
            let small = job
                .components
                .iter()
                .all(|processors| *processors <= ALWAYS_IDLE);
            let fixed_from = (fixed && fits).then(|| chance.random_range(0..sites));
            let rare_options = RareOptions {
                fixed_from: fixed_from.filter(|_| small),
                constraint: None,
                priority: if classes {
                    Priority::ALL[chance.random_range(0..Priority::ALL.len())]
                } else {
                    Priority::Low
                },
                rerunnable: !once,
                waits: patient,
                max_retries: if retries {
                    chance.random_range(1..=3)
                } else {
                    0
                },
                apart: parts && parting.random_bool(0.5) && !once,
                max_placement_tries: most(placements, &mut chance),
                max_claim_tries: most(claims, &mut chance),
                notifies: teller.random_bool(0.2),
                promised: None,
                last_after: DurationMs::ZERO,
                molding: MoldingOptions::default(),
                within: None,
                user: USERS[people.random_range(0..users)],
            };
            let small = job.components.iter().sum::<u32>() <= ALWAYS_IDLE;
            let constraint = (choosy && small && choice.random_bool(0.3))
                .then(|| draw_constraint(&mut choice, names))
                .filter(|_| rare_options.fixed_from.is_none());
            let rare_options = RareOptions {
                constraint,
                ..rare_options
            };
            // Without errors of its own a job has nothing to retry.
            let code = if retries { 1 } else { job.code };
            DrawnJob {
                code,
                rare_options,
                ..job
            }
        })
        .collect()
}

/// Turns some runs into a grid of rivals: every job has a priority of its own, all come within a
/// short time and run for long, and most wait for input, while claims are made bit by bit. There
/// components move and jobs give way.
pub(super) fn draw_rivals(scenario: &mut SeedScenario) {
    let mut chance = StdRng::seed_from_u64(scenario.seed ^ RIVALS);
    if chance.random_bool(0.6) {
        return;
    }
    let files = scenario.files.len();
    scenario.claim.threshold = PerMillion([0, 500_000][chance.random_range(0..2)]);
    scenario.claim.l = PerMillion(750_000);
    for job in &mut scenario.jobs {
        job.rare_options.priority = Priority::ALL[chance.random_range(0..Priority::ALL.len())];
        let longer = DurationMs(chance.random_range(0..=RIVAL_MS_MAX)).max(job.run_time);
        job.wall_time = DurationMs(job.wall_time.0 + longer.0 - job.run_time.0);
        job.run_time = longer;
        if chance.random_bool(0.7) {
            job.input.get_or_insert(chance.random_range(0..files));
        }
    }
    hasten(scenario, chance.random_range(2..=6));
}

/// Lets users come so many times as fast, and be done sooner.
pub(super) fn hasten(scenario: &mut SeedScenario, hurry: u64) {
    for (at, action) in &mut scenario.actions {
        if !matches!(
            action,
            UserAction::Site(..) | UserAction::File(..) | UserAction::Promise(..)
        ) {
            *at = BEGINS + DurationMs(at.since(BEGINS).0 / hurry);
        }
    }
    scenario.actions.sort_by_key(|(at, _)| *at);
}

/// Draws a constraint that some sites satisfy: another than this, one of these, a half of the
/// country.
fn draw_constraint(chance: &mut StdRng, names: &[SiteName]) -> LabelConstraint {
    let one: Arc<str> = names[chance.random_range(0..names.len())].as_str().into();
    let other: Arc<str> = names[chance.random_range(0..names.len())].as_str().into();
    match chance.random_range(0..3) {
        0 if names.len() > 1 => LabelConstraint {
            key: "place".into(),
            rule: LabelRule::IsNot(one),
        },
        1 if names.len() > 2 => {
            let half = if one.as_ref() < "e" { "north" } else { "south" };
            LabelConstraint {
                key: "half".into(),
                rule: LabelRule::Is(half.into()),
            }
        }
        _ => LabelConstraint {
            key: "place".into(),
            rule: LabelRule::OneOf([one, other].into()),
        },
    }
}

/// Draws the settings of the queues: the defaults of a server, or others.
pub(super) fn draw_queue(seed: u64) -> QueueParameters {
    let mut chance = StdRng::seed_from_u64(seed ^ QUEUES);
    if chance.random_bool(0.5) {
        return QueueParameters::default();
    }
    let [n1, n2, n3, n4] = std::array::from_fn(|_| chance.random_range(1..=3));
    let n_l = chance.random_range(1..=3);
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
        max_placement_tries: None,
        starvation_guard: draw_starvation_guard(seed),
    }
}

/// Draws for which jobs processors are withheld, and how much for how long.
fn draw_starvation_guard(seed: u64) -> StarvationGuardParameters {
    let mut chance = StdRng::seed_from_u64(seed ^ STARVATION_GUARDS);
    let after = DurationMs(chance.random_range(MINUTE..=10 * MINUTE));
    let time = DurationMs(chance.random_range(2 * MINUTE..=20 * MINUTE));
    StarvationGuardParameters {
        after: chance.random_bool(0.8).then_some(after),
        share: PerMillion([250_000, 500_000, 1_000_000][chance.random_range(0..3)]),
        time,
    }
}

/// Draws commands of operators, each with one that takes it back: none of it lasts.
pub(super) fn draw_orders(
    seed: u64,
    sites: usize,
    calm_at: Timestamp,
) -> Vec<(Timestamp, UserAction)> {
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
        orders.push((from, UserAction::Site(site, ordered)));
        orders.extend(taken_back.map(|order| (until, UserAction::Site(site, order))));
    }
    orders
}

fn draw_order(
    chance: &mut StdRng,
    from: Timestamp,
    until: Timestamp,
) -> (OperatorCommand, Option<OperatorCommand>) {
    let begins = from + DurationMs(chance.random_range(0..=HOUR));
    let window = OperatorCommand::SetWindow {
        from: begins,
        until: begins.max(until),
        reason: "drawn".into(),
    };
    match chance.random_range(0..6) {
        0 => (OperatorCommand::Drain, Some(OperatorCommand::Undrain)),
        1 => (OperatorCommand::Freeze, Some(OperatorCommand::Thaw)),
        2 => (window, Some(OperatorCommand::RemoveWindow { from: begins })),
        3 => (
            OperatorCommand::Force {
                usable: true,
                until,
            },
            Some(OperatorCommand::Unforce),
        ),
        4 => (
            OperatorCommand::Force {
                usable: false,
                until,
            },
            Some(OperatorCommand::Unforce),
        ),
        _ => (OperatorCommand::ResetErrors, None),
    }
}

/// Draws replicas that users remove from the catalogue, and enter again before the calm.
pub(super) fn draw_moves(
    seed: u64,
    files: &[DrawnFile],
    calm_at: Timestamp,
) -> Vec<(Timestamp, UserAction)> {
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
        moves.push((from, UserAction::File(number, site.clone(), false)));
        moves.push((until.min(calm_at), UserAction::File(number, site, true)));
    }
    moves
}

/// Draws users who do not wait for a site that does not answer: some of those whose jobs came
/// before it fell silent, and so may run there.
pub(super) fn draw_abandons(
    seed: u64,
    actions: &[(Timestamp, UserAction)],
    troubles: &[Planned],
) -> Vec<(Timestamp, UserAction)> {
    let mut chance = StdRng::seed_from_u64(seed ^ ABANDONS);
    if chance.random_bool(0.5) {
        return Vec::new();
    }
    let hides =
        |trouble: &SiteFault| trouble.hides_site() || matches!(trouble, SiteFault::CutOff(true));
    let mut abandons = Vec::new();
    for (at, ..) in troubles.iter().filter(|(.., trouble)| hides(trouble)) {
        let from = *at - DurationMs(HOUR);
        let submitted = actions.iter().filter_map(|(then, action)| match action {
            UserAction::Submit(number, _) if from < *then && *then <= *at => Some(*number),
            _ => None,
        });
        for number in submitted {
            if chance.random_bool(0.15) {
                let later = DurationMs(chance.random_range(0..30 * MINUTE));
                abandons.push((*at + later, UserAction::Abandon(number)));
            }
        }
    }
    abandons
}
