//! The Incremental Claiming Policy: vectors I-1 to I-17a, J-9 and J-10 as a job lives them.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::job_world::{JobWorld, site, spec};
use crate::claim::{
    ClaimPlace, ClaimTry, ClaimableSites, MinClaimInterval, PreemptibleJob, plan_claim,
};
use crate::ids::{ComponentIndex, JobId, LrmId, SiteName};
use crate::job::job_command::{
    AttemptSighting, InputState, JobCommand, JobSurroundings, SubmissionAnswer,
};
use crate::job::job_state::{Job, PhaseKind};
use crate::job::spec::{Priority, RequestType};
use crate::placed::Placement;
use crate::placement::{PlacementDefaults, PlacementRequest};
use crate::queue::WaitingJob;
use crate::resources::Resources;
use crate::units::{DurationMs, PerMillion, Timestamp};

fn a() -> SiteName {
    site(0)
}

fn b() -> SiteName {
    site(1)
}

fn c() -> SiteName {
    site(2)
}

/// The common setting of section 7: what is idle, who holds processors at B, and how long
/// the file takes to C.
#[derive(Debug, Clone)]
struct ClaimTestSites {
    idle: BTreeMap<SiteName, u32>,
    at_b: Vec<PreemptibleJob>,
    file_to_c: DurationMs,
    /// Where as much waited lately.
    waited: Option<SiteName>,
}

impl ClaimableSites for ClaimTestSites {
    fn idle_at(&self, place: &ClaimPlace) -> Option<Resources> {
        self.idle
            .get(&place.site)
            .map(|idle| Resources::processors(*idle))
    }

    fn waited_lately(&self, job: &Job, component: ComponentIndex) -> bool {
        let placed = job.components[component.0 as usize].placement.as_ref();
        placed.is_some_and(|placed| self.waited.as_ref() == Some(&placed.site))
    }

    fn take(&mut self, place: &ClaimPlace, used: &Resources) {
        if let Some(idle) = self.idle.get_mut(&place.site) {
            *idle = idle.saturating_sub(used.processors);
        }
    }

    /// Worst-Fit.
    fn replace(&mut self, job: &Job, component: ComponentIndex) -> Option<Placement> {
        let need = job.processors_of(component);
        let fitting = self.idle.iter().filter(|(_, idle)| **idle >= need);
        let (site, _) = fitting.max_by_key(|(site, idle)| (**idle, std::cmp::Reverse(*site)))?;
        let transfer_time = if *site == c() {
            self.file_to_c
        } else {
            DurationMs::ZERO
        };
        let sources = Vec::new();
        Some(Placement {
            site: site.clone(),
            sources,
            transfer_time,
            share: None,
            acquisition: Default::default(),
        })
    }

    fn victims_at(&self, place: &ClaimPlace) -> Vec<PreemptibleJob> {
        if place.site == b() {
            self.at_b.clone()
        } else {
            Vec::new()
        }
    }
}

fn victim(job: u64, priority: Priority, processors: u32, start: u64) -> PreemptibleJob {
    PreemptibleJob {
        job: JobId(job),
        priority,
        resources: Resources::processors(processors),
        start_estimate: Timestamp(start),
        submitted_at: Timestamp(job),
        at_gate: false,
    }
}

fn claim_test_sites() -> ClaimTestSites {
    ClaimTestSites {
        idle: BTreeMap::from([(a(), 20), (b(), 12), (c(), 4)]),
        at_b: vec![
            victim(101, Priority::Low, 2, 100),
            victim(102, Priority::Low, 4, 200),
            victim(103, Priority::High, 8, 230),
            victim(104, Priority::SuperLow, 3, 150),
        ],
        file_to_c: DurationMs::ZERO,
        waited: None,
    }
}

/// J at 240 s: placed at 0, JST 320, c1 = 16 at A, c2 = 8 and c3 at B.
fn job_world_at(secs: u64, threshold: u32, c3: u32) -> JobWorld {
    let mut spec = spec(3);
    for (component, size) in spec.components.iter_mut().zip([16, 8, c3]) {
        component.resources = Resources::processors(size);
    }
    let mut world = JobWorld::new(spec);
    world.job.priority = Priority::High;
    world.parameters.claim.threshold = PerMillion(threshold * 1_000);
    world.parameters.claim.min_claim_step = MinClaimInterval::Fixed(DurationMs(1_000));
    world.parameters.claim_timeout = DurationMs::from_secs(3_600);
    let mut placements = world.placements(320_000);
    for (placement, at) in placements.iter_mut().zip([a(), b(), b()]) {
        placement.site = at;
    }
    world
        .apply_command(JobCommand::Place {
            placements,
            by: None,
        })
        .unwrap();
    world.advance_secs(secs);
    world
}

/// Of the vectors none with T = 1 ever re-places or preempts.
fn plan_both_thresholds(world: &JobWorld, field: &mut ClaimTestSites) -> ClaimTry {
    let attempt = plan_claim(&world.job, &world.parameters.claim, world.now, field);
    if world.job.claim_threshold(&world.parameters.claim) == PerMillion::ONE {
        assert_eq!(
            (&attempt.moves[..], &attempt.preempting[..]),
            (&[][..], &[][..])
        );
    }
    attempt
}

/// Components as the vectors number them, from 1.
fn started_components(attempt: &ClaimTry) -> Vec<u32> {
    let mut started: Vec<u32> = attempt.start.iter().map(|index| index.0 + 1).collect();
    started.sort_unstable();
    started
}

fn preempted_jobs(attempt: &ClaimTry) -> Vec<u64> {
    attempt.preempting.iter().map(|job| job.0 - 100).collect()
}

fn moved_components(attempt: &ClaimTry) -> Vec<(u32, SiteName)> {
    attempt
        .moves
        .iter()
        .map(|(index, to)| (index.0 + 1, to.site.clone()))
        .collect()
}

/// One try as the claimer makes it.
fn make_try(world: &mut JobWorld, field: &ClaimTestSites) -> ClaimTry {
    let attempt = plan_both_thresholds(world, &mut field.clone());
    world
        .apply_command(JobCommand::Claim(
            attempt.clone(),
            JobSurroundings::default(),
        ))
        .unwrap();
    attempt
}

fn next_try_secs(world: &JobWorld) -> Option<u64> {
    let placed = world.job.instants.placed?;
    world
        .job
        .next_claim_time(&world.parameters)
        .map(|time| time.since(placed).0)
}

/// Vectors I-1 and I-2.
#[test]
fn a_try_that_does_not_reach_t_starts_nothing_and_is_made_again() {
    for threshold in [1_000, 700] {
        let mut world = job_world_at(240, threshold, 8);
        assert_eq!(next_try_secs(&world), Some(240_000));
        let attempt = make_try(&mut world, &claim_test_sites());
        assert_eq!(
            attempt,
            ClaimTry {
                round: world.job.round,
                ..ClaimTry::default()
            }
        );
        assert_eq!(world.phase(), PhaseKind::Placed);
        assert_eq!(next_try_secs(&world), Some(300_000));
        assert_eq!(world.job.setbacks.claims, 1);
    }
}

/// Vectors I-3 and I-4.
#[test]
fn lower_jobs_at_its_site_give_way_to_a_component_that_fits_nowhere() {
    for threshold in [500, 0] {
        let mut world = job_world_at(240, threshold, 8);
        let attempt = make_try(&mut world, &claim_test_sites());
        assert_eq!(started_components(&attempt), [1, 2, 3]);
        assert_eq!(
            (preempted_jobs(&attempt), moved_components(&attempt)),
            (vec![2], vec![])
        );
        assert_eq!(world.phase(), PhaseKind::Claiming);
        assert_eq!(next_try_secs(&world), None, "it leaves the claiming queue");
    }
}

/// Vectors I-5 and I-6.
#[test]
fn as_many_give_way_as_are_needed_and_none_if_all_are_not_enough() {
    let mut field = claim_test_sites();
    field.idle.insert(b(), 11);
    let attempt = plan_both_thresholds(&job_world_at(240, 0, 12), &mut field.clone());
    assert_eq!(preempted_jobs(&attempt), [2, 4, 1]);
    assert_eq!(started_components(&attempt), [1, 2, 3]);

    let mut world = job_world_at(240, 0, 13);
    let attempt = make_try(&mut world, &field);
    assert_eq!(
        (started_components(&attempt), preempted_jobs(&attempt)),
        (vec![1, 2], vec![])
    );
    assert_eq!(next_try_secs(&world), Some(300_000));
    // I-16: the second try.
    world.advance_secs(60);
    field.idle = BTreeMap::from([(b(), 13)]);
    let attempt = make_try(&mut world, &field);
    assert_eq!(started_components(&attempt), [3]);
    assert_eq!(next_try_secs(&world), None);
    assert_eq!(world.attempt(0).0, 1, "what was had is kept");
}

/// Vectors I-7 and I-8; a job that was promoted does not preempt.
#[test]
fn who_is_low_preempts_only_the_lower_and_the_lowest_nobody() {
    for (priority, promoted) in [
        (Priority::SuperLow, false),
        (Priority::Low, false),
        (Priority::High, true),
    ] {
        let mut world = job_world_at(240, 0, 8);
        world.job.priority = priority;
        world.job.promoted = promoted;
        let attempt = plan_both_thresholds(&world, &mut claim_test_sites());
        assert_eq!(
            (started_components(&attempt), preempted_jobs(&attempt)),
            (vec![1, 2], vec![])
        );
    }
}

/// Vectors I-9 to I-12.
#[test]
fn a_component_moves_if_its_file_can_be_there_by_the_start() {
    for (secs, moves) in [(64, true), (80, true), (81, false)] {
        let mut world = job_world_at(240, 0, 8);
        let mut field = claim_test_sites();
        field.idle.insert(c(), 10);
        field.file_to_c = DurationMs::from_secs(secs);
        let attempt = make_try(&mut world, &field);
        assert_eq!(
            started_components(&attempt),
            [1, 2, 3],
            "file to C in {secs} s"
        );
        if moves {
            assert_eq!(
                (moved_components(&attempt), preempted_jobs(&attempt)),
                (vec![(3, c())], vec![])
            );
            let placement = world.job.components[2].placement.as_ref().unwrap();
            assert_eq!(placement.site, c());
        } else {
            assert_eq!(
                (moved_components(&attempt), preempted_jobs(&attempt)),
                (vec![], vec![2])
            )
        }
    }
    let mut world = job_world_at(240, 0, 8);
    let mut fixed = (*world.job.spec).clone();
    fixed.request = RequestType::Fixed;
    world.job.spec = fixed.into();
    let mut field = claim_test_sites();
    field.idle.insert(c(), 10);
    let attempt = plan_both_thresholds(&world, &mut field);
    assert_eq!(
        (moved_components(&attempt), preempted_jobs(&attempt)),
        (vec![], vec![2])
    );
}

/// Vectors I-13, I-14 and I-15.
#[test]
fn a_refusal_gives_all_back_with_t_1_and_keeps_the_others_with_less() {
    for (threshold, kept) in [(1_000, vec![]), (0, vec![0, 2])] {
        let mut world = job_world_at(240, threshold, 8);
        let mut field = claim_test_sites();
        field.idle.insert(b(), 16);
        assert_eq!(started_components(&make_try(&mut world, &field)), [1, 2, 3]);
        world.answer_submission(0, SubmissionAnswer::Accepted(LrmId::new("1").unwrap()));
        world.answer_submission(2, SubmissionAnswer::Accepted(LrmId::new("3").unwrap()));
        world.sight_attempt(0, AttemptSighting::Ready("n".into()));
        world.answer_submission(1, SubmissionAnswer::Full("no processors".into()));
        let held: Vec<usize> = (0..3)
            .filter(|&i| world.job.components[i].is_claimed())
            .collect();
        assert_eq!(held, kept, "T = {threshold} thousandths");
        if threshold == 1_000 {
            assert_eq!(
                next_try_secs(&world),
                None,
                "not before what was held is confirmed gone"
            );
            world.sight_attempt(0, AttemptSighting::Void);
            world.sight_attempt(2, AttemptSighting::Void);
            assert_eq!(world.phase(), PhaseKind::Placed);
        }
        assert_eq!(next_try_secs(&world), Some(300_000));
        assert_eq!(
            (world.job.setbacks.claims, world.job.setbacks.rounds),
            (1, 0)
        );
    }
}

/// Vectors I-17 and J-9.
#[test]
fn after_the_last_try_all_is_given_back_and_l_falls() {
    let mut world = job_world_at(240, 0, 8);
    let mut field = claim_test_sites();
    field.at_b.clear();
    let mut tries = Vec::new();
    while let Some(at) = next_try_secs(&world) {
        tries.push(at);
        let due = world.job.instants.placed.unwrap() + DurationMs(at);
        world.now = due;
        make_try(&mut world, &field);
        field.idle = BTreeMap::from([(a(), 4), (b(), 4), (c(), 4)]);
        if tries.len() == 1 {
            world.answer_submission(0, SubmissionAnswer::Accepted(LrmId::new("1").unwrap()));
            world.answer_submission(1, SubmissionAnswer::Accepted(LrmId::new("2").unwrap()));
            world.sight_attempt(0, AttemptSighting::Ready("n".into()));
            world.sight_attempt(1, AttemptSighting::Ready("n".into()));
        }
    }
    assert_eq!(
        tries,
        [240_000, 300_000, 315_000, 318_750, 319_750, 320_000]
    );
    assert_eq!(world.phase(), PhaseKind::Aborting);
    world.sight_attempt(0, AttemptSighting::Void);
    world.sight_attempt(1, AttemptSighting::Void);
    assert_eq!(world.phase(), PhaseKind::Queued);
    assert_eq!(world.job.setbacks.claims, 6);
    // M-2.
    assert_eq!(world.job.instants.wasted_processor_ms, 1_920_000);
    let schedule = world.job.claim_schedule(&world.parameters.claim).unwrap();
    assert_eq!(schedule.l, PerMillion(500_000));
}

/// Vector I-17a.
#[test]
fn a_late_try_moves_a_component_only_where_its_file_is_there_in_time() {
    let last = |file: u64, appears_at: u64| {
        let mut world = job_world_at(240, 0, 8);
        let mut field = claim_test_sites();
        field.at_b.clear();
        field.file_to_c = DurationMs::from_secs(file);
        let placed = world.job.instants.placed.unwrap();
        while let Some(at) = next_try_secs(&world) {
            world.now = placed + DurationMs(at);
            let c_has = if at >= appears_at { 8 } else { 4 };
            field.idle.insert(c(), c_has);
            make_try(&mut world, &field);
            field.idle.insert(a(), 4);
            field.idle.insert(b(), 4);
        }
        let at = world.now.since(placed).0;
        (at, world.job.components[2].is_claimed())
    };
    assert_eq!(last(30, 316_000), (320_000, false));
    assert_eq!(last(0, 316_000), (318_750, true));
    assert_eq!(
        last(0, 319_800),
        (320_000, true),
        "now + ftt may be the start itself"
    );
}

/// Vector J-10.
#[test]
fn a_try_that_comes_late_is_counted_from_when_it_was_made() {
    let mut world = job_world_at(240, 1_000, 8);
    make_try(&mut world, &claim_test_sites());
    world.advance_secs(70);
    make_try(&mut world, &claim_test_sites());
    assert_eq!(next_try_secs(&world), Some(317_500));
}

prop_compose! {
    /// The common setting with anything idle.
    fn drawn_field()(idle in prop::collection::vec(0..24u32, 3), victims in 0..5usize) -> ClaimTestSites {
        let mut field = claim_test_sites();
        field.idle = [a(), b(), c()].into_iter().zip(idle).collect();
        field.at_b.truncate(victims);
        field
    }
}

proptest! {
    /// One that cannot start is all that a job of one component has: F is 0.
    #[test]
    fn a_job_of_one_component_starts_where_it_is_or_not_at_all_unless_t_is_0(
        field in drawn_field(), size in 1..24u32, threshold in 1..=1_000_000u32,
        priority in prop::sample::select(vec![Priority::Low, Priority::High, Priority::SuperHigh]),
    ) {
        let mut one = spec(1);
        one.components[0].resources = Resources::processors(size);
        let mut world = JobWorld::new(one);
        world.job.priority = priority;
        world.parameters.claim.threshold = PerMillion(threshold);
        let mut placements = world.placements(320_000);
        placements[0].site = b();
        world.apply_command(JobCommand::Place { placements, by: None }).unwrap();
        world.advance_secs(240);
        let attempt = plan_both_thresholds(&world, &mut field.clone());
        prop_assert_eq!((moved_components(&attempt), preempted_jobs(&attempt)), (vec![], vec![]));
        let starts = if size <= field.idle[&b()] { vec![1] } else { vec![] };
        prop_assert_eq!(started_components(&attempt), starts);
    }

    #[test]
    fn with_t_1_all_components_start_where_they_are_or_none_does(
        field in drawn_field(), c3 in 1..24u32,
    ) {
        let attempt = plan_both_thresholds(&job_world_at(240, 1_000, c3), &mut field.clone());
        let all = field.idle[&a()] >= 16 && field.idle[&b()] >= 8 + c3;
        prop_assert_eq!(started_components(&attempt), if all { vec![1, 2, 3] } else { vec![] });
    }
}

#[test]
fn a_job_aborted_twice_takes_all_of_its_components_or_none() {
    let mut world = job_world_at(240, 0, 8);
    world.job.setbacks.rounds = 2;
    assert_eq!(
        plan_both_thresholds(&world, &mut claim_test_sites()).start,
        []
    );
}

#[test]
fn one_round_preempts_once() {
    let mut world = job_world_at(240, 0, 8);
    world.job.preempting = vec![JobId(99)];
    assert_eq!(
        preempted_jobs(&plan_both_thresholds(&world, &mut claim_test_sites())),
        [0; 0]
    );
}

#[test]
fn a_preempted_job_goes_back_to_its_queue_three_times_and_then_no_more() {
    let mut world = JobWorld::new(spec(1));
    for round in 1..=3 {
        world.run_to_payloads();
        world
            .apply_command(JobCommand::Preempt { by: JobId(9) })
            .unwrap();
        assert_eq!(world.phase(), PhaseKind::Aborting);
        world.sight_attempt(0, AttemptSighting::Void);
        assert_eq!(world.phase(), PhaseKind::Queued);
        assert_eq!(world.job.setbacks.preemptions, round);
        assert_eq!(
            world.job.setbacks.own_errors, 0,
            "it costs the job nothing of its own"
        );
    }
    world.run_to_payloads();
    assert!(
        world
            .apply_command(JobCommand::Preempt { by: JobId(9) })
            .is_err()
    );
}

#[test]
fn a_job_that_must_not_run_twice_is_not_preempted_once_it_may_have_begun() {
    let mut once = spec(1);
    once.rerunnable = false;
    let mut world = JobWorld::new(once);
    world.run_to_payloads();
    assert!(
        world
            .apply_command(JobCommand::Preempt { by: JobId(9) })
            .is_err()
    );
}

#[test]
fn of_two_jobs_that_wait_for_each_other_the_later_gives_back() {
    let mut world = JobWorld::new(spec(2));
    world.place_job();
    world.accept_all_submissions();
    world.sight_attempt(0, AttemptSighting::Ready("n".into()));
    let yields = Some((ComponentIndex(1), JobId(3)));
    world
        .apply_command(JobCommand::Look(JobSurroundings {
            yields,
            ..JobSurroundings::default()
        }))
        .unwrap();
    assert_eq!(world.phase(), PhaseKind::Aborting);
    world.sight_all(AttemptSighting::Void);
    assert_eq!(world.phase(), PhaseKind::Queued);
}

#[test]
fn a_claim_is_not_made_earlier_than_it_can_be_held() {
    let mut world = job_world_at(0, 1_000, 8);
    world.parameters.hold_max = DurationMs::from_secs(20);
    assert_eq!(next_try_secs(&world), Some(300_000));
}

#[test]
fn input_that_is_there_is_not_waited_for() {
    let mut world = job_world_at(10, 1_000, 8);
    world.look_with_inputs(InputState::Here);
    assert!(world.job.next_claim_time(&world.parameters).unwrap() <= world.now);
    make_try(&mut world, &claim_test_sites());
    assert_eq!(
        next_try_secs(&world),
        Some(242_500),
        "and then as late as before"
    );
}

/// A link may have been measured while it was cut, and promise a start in a month.
#[test]
fn a_start_estimated_too_late_is_not_waited_for_once_input_is_there() {
    let mut world = job_world_at(10, 1_000, 8);
    world.parameters.backoff_max = DurationMs::from_secs(30);
    world.look_with_inputs(InputState::Here);
    make_try(&mut world, &claim_test_sites());
    assert_eq!(next_try_secs(&world), Some(40_000));
}

/// PR-5: promotion changes the priority itself.
#[test]
fn a_promoted_job_returns_from_claiming_to_the_queue_it_was_raised_to() {
    let mut world = JobWorld::new(spec(1));
    world.job.priority = Priority::Low;
    world
        .apply_command(JobCommand::Promote { to: Priority::High })
        .unwrap();
    world.place_job();
    assert_eq!(world.phase(), PhaseKind::Claiming);
    assert_eq!(
        world.job.priority,
        Priority::High,
        "in claiming it counts as high"
    );
    world.accept_all_submissions();
    world.now = world.now + world.parameters.claim_timeout;
    world
        .apply_command(JobCommand::Look(JobSurroundings::default()))
        .unwrap();
    world.sight_attempt(0, AttemptSighting::Void);
    assert_eq!(world.phase(), PhaseKind::Queued);
    let waiting = WaitingJob::from_job(&world.job, || {
        Arc::new(PlacementRequest::of_job(
            &world.job,
            &PlacementDefaults::default(),
        ))
    })
    .expect("it waits");
    assert_eq!(waiting.priority, Priority::High);
}

#[path = "claims_waits.rs"]
mod waits;
