//! Components that wait in the queues of their sites.

use super::job_world::{JobWorld, spec};
use crate::acquisition::{Acquisition, QueueTimeLimits};
use crate::ids::{ComponentIndex, LrmId};
use crate::job::job_command::{AttemptSighting, InputState, SubmissionAnswer};
use crate::job::job_due::JobEffectKind;
use crate::job::job_state::{AttemptState, JobPhase, PhaseKind};
use crate::placement::{PlacementDefaults, PlacementRequest};
use crate::units::{DurationMs, Timestamp};

const LIMITS: QueueTimeLimits = QueueTimeLimits {
    deadline: DurationMs(36_000_000),
    max_hold: DurationMs(300_000),
};

/// A job of so many components, all of which wait in queues.
pub(super) fn world_waiting_at_sites(components: usize) -> JobWorld {
    let mut world = JobWorld::new(spec(components));
    world.acquisition = Acquisition::Queue(LIMITS);
    world.place_job();
    world.accept_all_submissions();
    world.sight_all(AttemptSighting::Queued(None));
    world
}

fn look_without_news(world: &mut JobWorld) -> Vec<&'static str> {
    world.look_with_inputs(InputState::Here)
}

fn attempt_state(world: &JobWorld, index: usize) -> &AttemptState {
    &world.job.components[index].run
}

fn ready_sighting() -> AttemptSighting {
    AttemptSighting::Ready("n".into())
}

fn accepted_answer() -> SubmissionAnswer {
    SubmissionAnswer::Accepted(LrmId::new("2").unwrap())
}

#[test]
fn waiting_for_hours_in_a_sites_queue_is_neither_lost_nor_late() {
    let mut world = world_waiting_at_sites(1);
    assert_eq!(attempt_state(&world, 0).as_str(), "waiting-at-site");
    world.advance_secs(35_000);
    assert!(look_without_news(&mut world).is_empty());
    world.sight_attempt(0, ready_sighting());
    assert_eq!(world.phase(), PhaseKind::Starting);
}

#[test]
fn what_claims_idle_processors_does_not_wait_in_a_queue() {
    let mut world = JobWorld::new(spec(1));
    world.place_job();
    world.accept_all_submissions();
    assert!(
        world
            .sight_attempt(0, AttemptSighting::Queued(None))
            .is_empty()
    );
    world.advance_secs(121);
    look_without_news(&mut world);
    assert_eq!(
        world.due_effects(),
        [JobEffectKind::End],
        "it was withdrawn after the grace of a claim"
    );
}

#[test]
fn a_wait_ends_with_the_patience_of_its_job() {
    let mut world = world_waiting_at_sites(2);
    world.advance_secs(36_000);
    look_without_news(&mut world);
    assert_eq!(world.phase(), PhaseKind::Aborting);
    assert!(
        world.job.components.iter().all(|c| c.charge.is_none()),
        "nobody's error"
    );
}

#[test]
fn who_starts_early_gives_back_alone_and_begins_when_the_others_are_expected() {
    let mut world = world_waiting_at_sites(3);
    let expected = world.now + DurationMs::from_secs(7_200);
    world.sight_attempt(1, AttemptSighting::Queued(Some(expected)));
    world.sight_attempt(
        2,
        AttemptSighting::Queued(Some(expected + DurationMs::from_secs(600))),
    );
    world.sight_attempt(0, ready_sighting());
    world.advance_secs(299);
    assert!(
        look_without_news(&mut world).is_empty(),
        "it holds as long as it may"
    );
    world.advance_secs(1);
    assert_eq!(
        look_without_news(&mut world),
        ["ClaimGivenBack", "StartDeferred"]
    );
    world.sight_attempt(0, AttemptSighting::Void);
    assert_eq!(look_without_news(&mut world), ["ComponentsClaimed"]);
    let first = &world.job.components[0];
    assert_eq!(
        first.not_before,
        Some(expected + DurationMs::from_secs(600))
    );
    assert_eq!(
        (first.attempt.0, world.attempt(1).0),
        (2, 1),
        "the others keep their places"
    );
    assert_eq!(world.job.setbacks.claims, 0, "nothing went wrong");
    world.answer_submission(0, accepted_answer());
    world.sight_all(ready_sighting());
    assert_eq!(world.phase(), PhaseKind::Starting);
}

/// The first of three gave back, and is to begin when the others are expected, in two hours.
fn world_with_deferred_component() -> JobWorld {
    let mut world = world_waiting_at_sites(3);
    let expected = world.now + DurationMs::from_secs(7_200);
    (1..3).for_each(|index| {
        drop(world.sight_attempt(index, AttemptSighting::Queued(Some(expected))))
    });
    world.sight_attempt(0, ready_sighting());
    world.advance_secs(300);
    look_without_news(&mut world);
    world.sight_attempt(0, AttemptSighting::Void);
    assert_eq!(look_without_news(&mut world), ["ComponentsClaimed"]);
    world.answer_submission(0, accepted_answer());
    world.sight_attempt(0, AttemptSighting::Queued(Some(expected)));
    assert_eq!(world.job.components[0].not_before, Some(expected));
    world
}

#[test]
fn who_was_to_begin_later_begins_once_the_others_are_there() {
    let mut world = world_with_deferred_component();
    assert_eq!(
        world.sight_attempt(1, ready_sighting()),
        ["ComponentReady"],
        "one is awaited"
    );
    assert_eq!(
        world.sight_attempt(2, ready_sighting()),
        ["ComponentReady", "ClaimGivenBack", "StartDeferred"]
    );
    assert!(look_without_news(&mut world).is_empty(), "once");
    world.sight_attempt(0, AttemptSighting::Void);
    assert_eq!(look_without_news(&mut world), ["ComponentsClaimed"]);
    assert_eq!(world.job.components[0].not_before, Some(world.now));
    assert_eq!(world.job.setbacks.claims, 0, "nothing went wrong");
}

#[test]
fn who_is_to_begin_soon_keeps_its_place() {
    let mut world = world_with_deferred_component();
    world.advance_secs(7_200 - 300 - 60);
    for index in 1..3 {
        assert_eq!(
            world.sight_attempt(index, ready_sighting()),
            ["ComponentReady"]
        );
    }
}

#[test]
fn a_new_round_begins_as_soon_as_it_can() {
    let mut world = world_with_deferred_component();
    world.sight_attempt(1, AttemptSighting::NeverRuns("PartitionTimeLimit".into()));
    world.sight_all(AttemptSighting::Void);
    assert_eq!(world.phase(), PhaseKind::Queued);
    world.place_job();
    assert!(
        world
            .job
            .components
            .iter()
            .all(|component| component.not_before.is_none())
    );
}

#[test]
fn a_start_that_no_site_expects_is_awaited_as_long_again() {
    let mut world = world_waiting_at_sites(2);
    world.sight_attempt(0, ready_sighting());
    world.advance_secs(300);
    look_without_news(&mut world);
    let deferred = world.job.components[0].not_before;
    assert_eq!(deferred, Some(world.now + LIMITS.max_hold));
}

#[test]
fn who_is_cancelled_in_a_queue_is_submitted_again_and_the_others_keep_waiting() {
    let mut world = world_waiting_at_sites(2);
    let told = world.sight_attempt(1, AttemptSighting::Taken("cancelled at the site".into()));
    assert_eq!(told, ["ClaimGivenBack", "AttemptEnded", "ClaimMissed"]);
    assert_eq!(world.phase(), PhaseKind::Claiming);
    assert!(look_without_news(&mut world).is_empty(), "not at once");
    world.advance_secs(10);
    assert_eq!(look_without_news(&mut world), ["ComponentsClaimed"]);
    assert_eq!((world.attempt(0).0, world.attempt(1).0), (1, 2));
}

#[test]
fn what_can_never_run_at_its_site_goes_elsewhere_and_nobody_is_charged() {
    let mut world = world_waiting_at_sites(2);
    let told = world.sight_attempt(1, AttemptSighting::NeverRuns("PartitionTimeLimit".into()));
    assert_eq!(told, ["SiteAvoided", "RoundAborted"]);
    assert!(
        world
            .sight_attempt(1, AttemptSighting::NeverRuns("PartitionTimeLimit".into()))
            .is_empty()
    );
    world.sight_all(AttemptSighting::Void);
    assert_eq!(world.phase(), PhaseKind::Queued);
    assert_eq!(world.job.components[1].avoid.len(), 1);
    assert_eq!(world.job.setbacks.site_errors, 0);
}

#[test]
fn what_its_site_refuses_goes_elsewhere_and_nobody_is_charged() {
    let mut world = JobWorld::new(spec(2));
    world.acquisition = Acquisition::Queue(LIMITS);
    world.place_job();
    world.answer_submission(0, accepted_answer());
    let told = world.answer_submission(1, refusal("invalid feature", true));
    assert_eq!(told, ["FoundUnfit", "AttemptEnded", "RoundAborted"]);
    world.sight_attempt(0, AttemptSighting::Void);
    assert_eq!(world.phase(), PhaseKind::Queued);
    assert_eq!(world.job.setbacks.site_errors, 0);
    let refusing = world.job.components[1].placement.clone().unwrap().site;
    world.place_job();
    let request = PlacementRequest::of_job(&world.job, &PlacementDefaults::default());
    let components = request.components();
    assert!(components[0].unfit_for.is_empty());
    assert_eq!(
        components[1].unfit_for,
        [(refusing, "invalid feature".into())].into(),
        "whatever placements it had since"
    );
}

#[test]
fn what_no_site_is_left_for_fails_with_the_words_of_the_batch_system() {
    let mut world = JobWorld::new(spec(2));
    world.acquisition = Acquisition::Queue(LIMITS);
    world.place_job();
    world.answer_submission(0, accepted_answer());
    world.answer_submission(1, refusal(&"no such feature ".repeat(30), false));
    let kept = world.job.components[1].unfit_for.values().next().unwrap();
    assert_eq!(
        kept.len(),
        303,
        "long words are cut off where they are kept for long"
    );
    world.sight_attempt(0, AttemptSighting::Void);
    let JobPhase::Failed { reason, .. } = &world.job.phase else {
        panic!("{:?}", world.job.phase)
    };
    assert!(
        reason.contains("refuses it (no such feature ") && reason.contains("no other site"),
        "{reason}"
    );
    assert_eq!(world.job.setbacks.site_errors, 0);
}

fn refusal(words: &str, fits_elsewhere: bool) -> SubmissionAnswer {
    SubmissionAnswer::Unfit {
        detail: words.into(),
        fits_elsewhere,
    }
}

#[test]
fn a_full_queue_costs_the_others_nothing() {
    let mut world = JobWorld::new(spec(2));
    world.acquisition = Acquisition::Queue(LIMITS);
    world.place_job();
    world.answer_submission(0, accepted_answer());
    world.answer_submission(1, SubmissionAnswer::Full("only 2 jobs are allowed".into()));
    assert_eq!(world.phase(), PhaseKind::Claiming);
    assert!(matches!(
        attempt_state(&world, 0),
        AttemptState::Submitted { .. }
    ));
}

#[test]
fn too_many_lost_places_give_the_round_up() {
    let mut spec = spec(2);
    spec.max_claim_tries = Some(2);
    let mut world = JobWorld::new(spec);
    world.acquisition = Acquisition::Queue(LIMITS);
    world.place_job();
    world.accept_all_submissions();
    for _ in 0..2 {
        world.sight_attempt(1, AttemptSighting::Taken("cancelled at the site".into()));
        world.advance_secs(600);
        look_without_news(&mut world);
        world.answer_submission(1, accepted_answer());
    }
    world.sight_attempt(1, AttemptSighting::Taken("cancelled at the site".into()));
    assert_eq!(world.phase(), PhaseKind::Aborting);
}

#[test]
fn an_expected_start_is_recorded_when_it_moves_by_a_minute() {
    let mut world = world_waiting_at_sites(1);
    let expected = |world: &JobWorld, secs: u64| Some(world.now + DurationMs::from_secs(secs));
    let mut told = |secs| {
        let expected = expected(&world, secs);
        world.sight_attempt(0, AttemptSighting::Queued(expected))
    };
    assert_eq!(told(3_600), ["WaitingAtSite"]);
    assert!(told(3_630).is_empty());
    assert_eq!(told(3_660), ["WaitingAtSite"]);
    assert_eq!(told(0), ["WaitingAtSite"]);
    world.advance_secs(100);
    world.sight_attempt(
        0,
        AttemptSighting::Queued(Some(world.now + DurationMs::from_secs(7_200))),
    );
    let AttemptState::Submitted {
        waits: Some(waits), ..
    } = world.job.components[0].run
    else {
        panic!()
    };
    let after = waits.told_at.unwrap().since(waits.since);
    assert!(
        after >= DurationMs::from_secs(100),
        "how old that word is: {after}"
    );
}

#[test]
fn a_wait_is_asked_about_seldom_and_a_start_soon() {
    let mut world = world_waiting_at_sites(2);
    let awaited = |world: &JobWorld| -> Vec<(bool, bool)> {
        let held = crate::job::demands::list_holdings(&world.job);
        held.iter()
            .map(|holding| (holding.awaited, holding.queued))
            .collect()
    };
    assert_eq!(awaited(&world), [(false, true); 2]);
    world.sight_attempt(0, ready_sighting());
    assert_eq!(awaited(&world), [(true, false), (false, true)]);
}

#[test]
fn a_job_that_is_preempted_in_a_queue_is_not_held_for_its_first_place() {
    let mut world = world_waiting_at_sites(1);
    world.sight_attempt(0, AttemptSighting::Taken("preempted".into()));
    world.advance_secs(10);
    look_without_news(&mut world);
    assert_eq!(world.job.components[0].not_before, None);
    assert_eq!(world.attempt(0).0, 2);
    assert!(world.now > Timestamp(0) && world.due_effects() == [JobEffectKind::Submit]);
    assert_eq!(
        world
            .job
            .unclaimed_components()
            .collect::<Vec<ComponentIndex>>(),
        []
    );
}
