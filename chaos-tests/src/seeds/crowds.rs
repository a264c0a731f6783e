//! Runs that are dense in what others seldom show: jobs that contend for the same processors, that
//! ask for the same, whose components are restarted alone, or whose users change their minds all
//! the time. A run is one of these, or none. Drawn from a stream of its own, so that the rest of a
//! seed stays as it is.

use std::ops::RangeInclusive;

use cospan_actors::supervision::ActorKind;
use cospan_domain::claim::MinClaimInterval;
use cospan_domain::job::spec::Priority;
use cospan_domain::placement::PlacementDefaults;
use cospan_domain::units::{Bytes, DurationMs, PerMillion, Timestamp};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::rare_options::{ALWAYS_IDLE, hasten};
use super::seed_scenario::{BEGINS, DrawnJob, MINUTE, SeedScenario, UserAction};
use cospan_simulator::stalls::{self, StallSettings};
use cospan_simulator::world::site_faults::SiteFault;
use cospan_simulator::world::world_site::LocalJob;

/// Number of the random stream.
const CROWDS: u64 = 0x6372_6f77_6473;
/// Files that many jobs read.
const READ_BY_MANY: usize = 3;
/// Kinds of jobs in a crowd of equal requests.
const KINDS: usize = 3;
/// Most changes of priority in one run.
const MANY_RAISES: usize = 800;

/// The kind of a dense run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CrowdKind {
    /// Jobs of all priorities, and local users, contend for small sites, and some jobs must not run
    /// twice.
    Contention,
    /// Many jobs ask for the same at the same time.
    Identical,
    /// Components run longer than their wall time at sites that blink, and are restarted
    /// alone.
    Restarts,
    /// A contention whose users give their jobs another priority every other minute, which is
    /// written slowly, while the actors of jobs stall all the time.
    PriorityChurn,
}

impl CrowdKind {
    /// Draws the kind of this seed's run, if it has one. The largest jobs do not fit two small
    /// sites.
    pub(super) fn of(seed: u64, sites: usize) -> Option<Self> {
        match StdRng::seed_from_u64(seed ^ CROWDS).random_range(0..20) {
            _ if sites < 3 => None,
            0..=3 => Some(CrowdKind::Contention),
            4..=6 => Some(CrowdKind::Identical),
            7..=9 => Some(CrowdKind::Restarts),
            10..=11 => Some(CrowdKind::PriorityChurn),
            _ => None,
        }
    }

    /// Describes its jobs, for the line about a run.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            CrowdKind::Contention => " in a contest",
            CrowdKind::Identical => ", many alike,",
            CrowdKind::Restarts => " that part",
            CrowdKind::PriorityChurn => " of fickle users",
        }
    }

    /// Turns the run into one of this kind.
    pub(super) fn apply_to(self, scenario: &mut SeedScenario) {
        let mut chance = StdRng::seed_from_u64(!scenario.seed ^ CROWDS);
        match self {
            CrowdKind::Contention => make_contention(scenario, &mut chance),
            CrowdKind::Identical => make_identical(scenario, &mut chance),
            CrowdKind::Restarts => make_restarts(scenario, &mut chance),
            CrowdKind::PriorityChurn => {
                make_contention(scenario, &mut chance);
                change_priorities(scenario, &mut chance);
            }
        }
    }
}

/// Draws a time between these.
fn draw_between(chance: &mut StdRng, least: u64, most: u64) -> DurationMs {
    DurationMs(chance.random_range(least..=most))
}

/// Returns the time of the last user's arrival plus an hour.
fn last_arrival(scenario: &SeedScenario) -> Timestamp {
    let submitted = scenario
        .actions
        .iter()
        .filter(|(_, action)| matches!(action, UserAction::Submit(..)));
    let last = submitted.map(|(at, _)| *at).max().unwrap_or(BEGINS);
    (last + DurationMs(60 * MINUTE)).min(scenario.calm_at)
}

/// Lets local users take what is idle when a job is placed, before its input is there: then
/// components move and jobs give way.
fn make_contention(scenario: &mut SeedScenario, chance: &mut StdRng) {
    hasten(scenario, chance.random_range(5..=8));
    shrink_sites(scenario, 10..=16, chance);
    let until = last_arrival(scenario);
    for site in &mut scenario.sites {
        site.local_jobs = draw_short_local_jobs(chance, until);
    }
    bring_from_afar(scenario, chance);
    make_sites_responsive(scenario, chance);
    if chance.random_bool(0.75) {
        keep_classes(scenario);
    }
    scenario.claim.threshold = PerMillion([0, 0, 0, 500_000][chance.random_range(0..4)]);
    scenario.claim.l = PerMillion(750_000);
    let files = scenario.files.len();
    scenario.claim.min_claim_step = MinClaimInterval::Auto;
    for job in &mut scenario.jobs {
        // Jobs of high priority wait for input, while the others begin at once.
        let high = chance.random_bool(0.5);
        let [above, below] = if high {
            [Priority::SuperHigh, Priority::High]
        } else {
            [Priority::Low, Priority::SuperLow]
        };
        job.rare_options.priority = if chance.random_bool(0.5) {
            above
        } else {
            below
        };
        let reads = chance.random_bool(if high { 0.9 } else { 0.2 });
        job.input = reads.then(|| chance.random_range(0..files));
        job.run_time = draw_between(chance, 5 * MINUTE, 20 * MINUTE);
        job.wall_time = DurationMs(job.run_time.0 + MINUTE);
        job.rare_options.rerunnable = chance.random_bool(0.6);
        job.rare_options.apart &= job.rare_options.rerunnable;
    }
}

/// Puts every file at one site, while jobs go where there is room: much may happen until they can
/// be claimed.
fn bring_from_afar(scenario: &mut SeedScenario, chance: &mut StdRng) {
    scenario.policies.rigid = PlacementDefaults::default().rigid;
    scenario.staging.clear();
    for (path, content, at) in &mut scenario.files {
        content.size = Bytes(chance.random_range(2_000_000_000..5_000_000_000));
        at.truncate(1);
        let kept = scenario
            .sites
            .iter_mut()
            .filter_map(|site| site.files.get_mut(path));
        kept.for_each(|kept| *kept = *content);
    }
    scenario
        .actions
        .retain(|(_, action)| !matches!(action, UserAction::File(..)));
}

/// Switches promotion and changes of priority off: a job that rose by waiting, or fell, preempts
/// nobody.
fn keep_classes(scenario: &mut SeedScenario) {
    scenario.queue.promote_after = None;
    scenario
        .actions
        .retain(|(_, action)| !matches!(action, UserAction::Raise(..)));
}

/// Makes events at the sites known soon, and often lets nothing go wrong there: few rounds are lost
/// for other reasons, after which jobs claim all or nothing.
fn make_sites_responsive(scenario: &mut SeedScenario, chance: &mut StdRng) {
    scenario.hints = true;
    scenario.poll_interval = draw_between(chance, 2_000, 10_000);
    scenario.launch_max = DurationMs(1_000);
    if chance.random_bool(0.6) {
        scenario.fault_rates.faults.clear();
        scenario.troubles.clear();
        scenario.cut_offs.clear();
        scenario.kills.clear();
    }
}

/// Makes sites small: the largest component always finds its site all the same, and no quota keeps
/// it out.
fn shrink_sites(scenario: &mut SeedScenario, nodes: RangeInclusive<u32>, chance: &mut StdRng) {
    for site in &mut scenario.sites {
        site.nodes = chance.random_range(nodes.clone());
        // They were drawn for a larger site, and would fill this one for days.
        site.local_jobs.clear();
    }
    scenario.quotas.clear();
}

/// Draws many small jobs of local users: none of them keeps others from what is idle.
fn draw_short_local_jobs(chance: &mut StdRng, until: Timestamp) -> Vec<LocalJob> {
    let mut jobs = Vec::new();
    let mut at = BEGINS + draw_between(chance, 0, MINUTE);
    while at < until {
        let run_time = draw_between(chance, MINUTE, 10 * MINUTE);
        let estimate = DurationMs(run_time.0 * chance.random_range(1..=3));
        let processors = chance.random_range(1..=2);
        jobs.push(LocalJob {
            at,
            processors,
            run_time,
            estimate,
        });
        at = at + draw_between(chance, 5_000, 2 * MINUTE);
    }
    jobs
}

/// Lets most jobs ask for what one of a few asks for, and more come than the sites can take.
fn make_identical(scenario: &mut SeedScenario, chance: &mut StdRng) {
    hasten(scenario, chance.random_range(8..=20));
    shrink_sites(scenario, 6..=10, chance);
    let kinds: Vec<DrawnJob> = scenario
        .jobs
        .choose_multiple(chance, KINDS)
        .cloned()
        .map(as_repeatable)
        .collect();
    let swept: usize = scenario.sweeps.iter().map(|sweep| sweep.count).sum();
    let alone = scenario.jobs.len() - swept;
    for job in &mut scenario.jobs[..alone] {
        job.run_time = draw_between(chance, 3 * MINUTE, 15 * MINUTE);
        job.wall_time = DurationMs(job.run_time.0 + MINUTE);
        if let Some(kind) = kinds.choose(chance).filter(|_| chance.random_bool(0.9)) {
            job.components.clone_from(&kind.components);
            job.flexible.clone_from(&kind.flexible);
            job.input = kind.input;
            job.output = kind.output;
            job.rare_options.clone_from(&kind.rare_options);
        }
    }
}

/// Makes a kind of job of which there may be many: none has to wait for ever for its only site.
fn as_repeatable(mut kind: DrawnJob) -> DrawnJob {
    kind.rare_options.max_placement_tries = None;
    kind.rare_options.max_claim_tries = None;
    kind
}

/// Lets components end late, fail, and be restarted alone, while now one and now another site is
/// silent for a moment.
fn make_restarts(scenario: &mut SeedScenario, chance: &mut StdRng) {
    hasten(scenario, chance.random_range(2..=4));
    scenario.wall_late = DurationMs(15 * MINUTE);
    scenario.fault_rates.sync_max = draw_between(chance, 1_000, 5_000);
    scenario.poll_interval = draw_between(chance, 2_000, 10_000);
    for job in &mut scenario.jobs {
        let small = chance.random_range(1..=ALWAYS_IDLE);
        if job.components.len() < 2 {
            job.components.push(small);
        }
        job.flexible = None;
        job.rare_options.constraint = None;
        job.rare_options.fixed_from = None;
        job.rare_options.apart = true;
        job.rare_options.rerunnable = true;
        job.rare_options.waits = false;
        job.rare_options.max_retries = chance.random_range(1..=3);
        job.wall_time = draw_between(chance, MINUTE, 5 * MINUTE);
        job.run_time = if chance.random_bool(0.6) {
            job.wall_time + draw_between(chance, 3 * MINUTE, 12 * MINUTE)
        } else {
            draw_between(chance, 1_000, job.wall_time.0)
        };
        job.input = chance
            .random_bool(0.5)
            .then(|| chance.random_range(0..READ_BY_MANY));
    }
    let until = last_arrival(scenario);
    let sites = scenario.sites.len();
    let mut at = BEGINS + draw_between(chance, 0, 5 * MINUTE);
    while at < until {
        let site = chance.random_range(0..sites);
        let over = at + draw_between(chance, MINUTE, 4 * MINUTE);
        scenario.troubles.push((at, site, SiteFault::Silent(true)));
        scenario
            .troubles
            .push((over.min(scenario.calm_at), site, SiteFault::Silent(false)));
        at = over + draw_between(chance, 1_000, MINUTE);
    }
}

/// Changes the priority of each of the first jobs again and again. Meanwhile many other messages
/// reach it at once.
fn change_priorities(scenario: &mut SeedScenario, chance: &mut StdRng) {
    scenario.fault_rates.sync_max = draw_between(chance, 5_000, 12_000);
    scenario.stalls = Some(StallSettings {
        kinds: stalls::KINDS.map(|kind| kind == ActorKind::Job),
        pause_max: draw_between(chance, 2_000, 4_000),
        lasts_max: DurationMs(MINUTE),
        full: 0,
        until: scenario.calm_at,
    });
    scenario.claim.l = PerMillion([0, 250_000][chance.random_range(0..2)]);
    let submitted = scenario
        .actions
        .iter()
        .filter_map(|(at, action)| match action {
            UserAction::Submit(number, _) => Some((*at, *number)),
            _ => None,
        });
    let mut raises = Vec::new();
    for (at, number) in submitted {
        let mut at = at + draw_between(chance, 0, MINUTE);
        for _ in 0..20 {
            let to = Priority::ALL[chance.random_range(0..Priority::ALL.len())];
            raises.push((at, UserAction::Raise(number, to)));
            at = at + draw_between(chance, 20_000, 3 * MINUTE);
        }
    }
    raises.truncate(MANY_RAISES);
    scenario.actions.extend(raises);
    scenario.actions.sort_by_key(|(at, _)| *at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::campaign::{CampaignSize, run_seed};
    use crate::seeds::run::SeedVerdict;

    const SMALL: CampaignSize = CampaignSize {
        jobs: 30,
        sites: 3,
        length: DurationMs(3 * 60 * MINUTE),
    };

    /// Whether one of the first few runs of a crowd shows what it is for.
    fn shows(crowd: CrowdKind, what: impl Fn(&SeedVerdict) -> bool) -> bool {
        let runs = (1..)
            .filter(|number| CrowdKind::of(*number, SMALL.sites) == Some(crowd))
            .take(5);
        runs.map(|number| run_seed(number, SMALL).unwrap())
            .any(|verdict| {
                let SeedVerdict {
                    drawn,
                    unsafe_,
                    not_live,
                    ..
                } = &verdict;
                assert!(verdict.holds(), "{drawn}\n{unsafe_:#?}\n{not_live:?}");
                what(&verdict)
            })
    }

    fn shown(verdict: &SeedVerdict, word: &str) -> usize {
        verdict
            .timeline
            .iter()
            .filter(|(.., text)| text.contains(word))
            .count()
    }

    #[test]
    fn in_a_contest_components_move_and_jobs_give_way() {
        assert!(shows(CrowdKind::Contention, |verdict| {
            shown(verdict, "ComponentMoved") > 0 && shown(verdict, "Preempted") > 0
        }));
    }

    #[test]
    fn at_sites_that_blink_components_are_given_up_alone_as_overdue() {
        assert!(shows(CrowdKind::Restarts, |verdict| {
            shown(verdict, "long after its wall time") > 10
                && shown(verdict, "ComponentFailed") > 10
        }));
    }
}
