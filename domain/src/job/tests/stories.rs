//! What happens in which case, one story each.

use super::job_world::{JobWorld, key, site, spec};
use crate::ids::{ComponentIndex, LrmId, TargetName};
use crate::job::decide::MAX_SITE_ERRORS;
use crate::job::job_command::{
    AttemptSighting, InputState, JobCommand, JobRejection, JobSurroundings, SiteClockTimes,
    SubmissionAnswer,
};
use crate::job::job_due::{JobEffectKind, next_wake};
use crate::job::job_state::{JobPhase, PhaseKind};
use crate::job::spec::{Priority, UnreachableAction};
use crate::units::DurationMs;

pub(super) fn look_unreachable(
    world: &mut JobWorld,
    index: u32,
    secs_ago: u64,
) -> Vec<&'static str> {
    let since = world.now - DurationMs::from_secs(secs_ago);
    let unreachable = vec![(ComponentIndex(index), since)];
    world
        .apply_command(JobCommand::Look(JobSurroundings {
            unreachable,
            ..JobSurroundings::default()
        }))
        .unwrap()
}

#[test]
fn three_components_wait_for_each_other_start_together_and_finish() {
    let mut world = JobWorld::new(spec(3));
    world.place_job();
    assert_eq!(world.due_effects(), [JobEffectKind::Submit; 3]);
    world.accept_all_submissions();
    world.sight_attempt(0, AttemptSighting::Ready("a".into()));
    world.sight_attempt(1, AttemptSighting::Ready("b".into()));
    assert_eq!(world.phase(), PhaseKind::Claiming, "the third is not ready");
    world.sight_attempt(2, AttemptSighting::Ready("c".into()));
    assert_eq!(world.due_effects(), [JobEffectKind::OpenGate; 3]);
    world.sight_all(AttemptSighting::Begun("a".into()));
    world.sight_all(AttemptSighting::Succeeded);
    assert_eq!(world.phase(), PhaseKind::Finished);
    assert_eq!(world.due_effects(), []);
}

#[test]
fn gates_stay_shut_until_all_input_has_arrived() {
    let mut world = JobWorld::new(spec(1));
    let placements = world.placements(500_000);
    world
        .apply_command(JobCommand::Place {
            placements,
            by: None,
        })
        .unwrap();
    assert_eq!(world.phase(), PhaseKind::Placed);
    world.advance_secs(500);
    world.look_with_inputs(InputState::Expected(world.now + DurationMs::from_secs(10)));
    assert_eq!(
        world.phase(),
        PhaseKind::Claiming,
        "the estimated start has come"
    );
    world.accept_all_submissions();
    world.sight_attempt(0, AttemptSighting::Ready("a".into()));
    assert_eq!(world.phase(), PhaseKind::Claiming);
    world.look_with_inputs(InputState::Here);
    assert_eq!(world.phase(), PhaseKind::Starting);
}

#[test]
fn a_claim_waits_with_its_input_when_that_is_late() {
    let mut world = JobWorld::new(spec(1));
    let placements = world.placements(500_000);
    world
        .apply_command(JobCommand::Place {
            placements,
            by: None,
        })
        .unwrap();
    world.advance_secs(501);
    let late = world.now + DurationMs::from_secs(7_200);
    assert_eq!(
        world.look_with_inputs(InputState::Expected(late)),
        ["StartPostponed"]
    );
    assert_eq!(world.phase(), PhaseKind::Placed);
}

#[test]
fn input_that_arrives_early_lets_the_job_claim_before_its_estimated_start() {
    let mut world = JobWorld::new(spec(1));
    let placements = world.placements(500_000);
    world
        .apply_command(JobCommand::Place {
            placements,
            by: None,
        })
        .unwrap();
    assert_eq!(world.look_with_inputs(InputState::Here), ["InputsArrived"]);
    assert_eq!(world.look_with_inputs(InputState::Unknown), ["ClaimBegun"]);
}

#[test]
fn a_refused_submission_charges_the_site_and_places_the_job_again() {
    let mut world = JobWorld::new(spec(2));
    world.place_job();
    world.answer_submission(0, SubmissionAnswer::Accepted(LrmId::new("1").unwrap()));
    world.answer_submission(1, SubmissionAnswer::Refused("no such queue".into()));
    assert_eq!(world.phase(), PhaseKind::Aborting);
    assert!(
        world.due_effects().contains(&JobEffectKind::End),
        "what was had is given back"
    );
    world.sight_attempt(0, AttemptSighting::Void);
    assert_eq!(
        world.phase(),
        PhaseKind::Aborting,
        "the charge is not recorded yet"
    );
    world.record_charges();
    assert_eq!(world.phase(), PhaseKind::Queued);
    assert!(world.job.components[1].avoid.contains(&site(1)));
    assert!(world.job.components[0].avoid.is_empty());
}

#[test]
fn what_runs_once_does_so_even_if_a_gate_is_shut_beside_an_open_one() {
    let mut spec = spec(2);
    spec.rerunnable = false;
    let mut world = JobWorld::new(spec);
    world.place_job();
    world.accept_all_submissions();
    world.sight_all(AttemptSighting::Ready("n".into()));
    let gate = |component, open| JobCommand::GateAnswered {
        component: ComponentIndex(component),
        attempt: crate::ids::Attempt(1),
        open,
    };
    world.apply_command(gate(1, true)).unwrap();
    assert_eq!(
        world.due_effects(),
        [JobEffectKind::OpenGate],
        "the other one's: it makes nothing due"
    );
    world.apply_command(gate(0, false)).unwrap();
    world.sight_attempt(1, AttemptSighting::Failed("terminated".into()));
    assert_eq!(world.phase(), PhaseKind::Failed);
}

#[test]
fn a_full_site_is_nobodys_error() {
    let mut world = JobWorld::new(spec(1));
    world.place_job();
    world.answer_submission(0, SubmissionAnswer::Full("no processors".into()));
    assert_eq!(world.phase(), PhaseKind::Queued);
    assert_eq!(
        (world.job.setbacks.claims, world.job.setbacks.site_errors),
        (1, 0)
    );
}

#[test]
fn a_lost_reply_is_looked_up_and_adopted_never_sent_again_blindly() {
    let mut world = JobWorld::new(spec(1));
    world.place_job();
    world.answer_submission(0, SubmissionAnswer::Unknown(DurationMs::from_secs(30)));
    assert_eq!(world.due_effects(), [JobEffectKind::LookUp]);
    let component = ComponentIndex(0);
    let attempt = world.attempt(0);
    let asked_at = world.now;
    let found = Some(LrmId::new("77").unwrap());
    world
        .apply_command(JobCommand::LookUpAnswered {
            component,
            attempt,
            asked_at,
            found,
        })
        .unwrap();
    assert_eq!(world.job.components[0].run.as_str(), "submitted");
    assert_eq!(world.attempt(0).0, 1);
}

#[test]
fn an_absence_counts_only_after_the_submission_has_settled_and_only_twice() {
    let mut world = JobWorld::new(spec(1));
    world.place_job();
    world.answer_submission(0, SubmissionAnswer::Unknown(DurationMs::from_secs(30)));
    let absent = |world: &mut JobWorld| {
        let component = ComponentIndex(0);
        let attempt = world.attempt(0);
        let asked_at = world.now;
        let found = None;
        world
            .apply_command(JobCommand::LookUpAnswered {
                component,
                attempt,
                asked_at,
                found,
            })
            .unwrap()
    };
    for _ in 0..3 {
        assert_eq!(absent(&mut world), ["AttemptAbsent"], "too early to count");
        world.advance_secs(9);
    }
    world.advance_secs(10);
    assert_eq!(absent(&mut world), ["AttemptAbsent"]);
    world.advance_secs(10);
    assert_eq!(absent(&mut world), ["AttemptRenewed"]);
    assert_eq!(world.attempt(0).0, 2, "a new attempt has a new tag");
    assert_eq!(world.due_effects(), [JobEffectKind::Submit]);
}

#[test]
fn after_a_rebuild_an_intended_submission_is_looked_up_first() {
    let mut world = JobWorld::new(spec(1));
    world.place_job();
    let settle = vec![DurationMs::from_secs(5)];
    assert_eq!(
        world.apply_command(JobCommand::Recover { settle }).unwrap(),
        ["SubmissionUncertain"]
    );
    assert_eq!(world.due_effects(), [JobEffectKind::LookUp]);
}

#[test]
fn a_component_that_begins_too_late_aborts_the_round_and_is_charged() {
    let mut world = JobWorld::new(spec(2));
    world.place_job();
    world.accept_all_submissions();
    world.sight_all(AttemptSighting::Ready("n".into()));
    world.sight_attempt(0, AttemptSighting::Begun("n".into()));
    world.advance_secs(31);
    world.look_with_inputs(InputState::Unknown);
    assert_eq!(world.phase(), PhaseKind::Aborting);
    assert!(world.job.components[0].charge.is_none());
    assert!(world.job.components[1].charge.is_some());
    assert_eq!(
        world
            .due_effects()
            .iter()
            .filter(|kind| **kind == JobEffectKind::End)
            .count(),
        2
    );
}

#[test]
fn nothing_of_an_aborted_round_is_ever_reported_finished() {
    let mut world = JobWorld::new(spec(2));
    world.run_to_payloads();
    world.sight_attempt(0, AttemptSighting::Vanished("node failed".into()));
    world.sight_attempt(1, AttemptSighting::Succeeded);
    world.record_charges();
    assert_eq!(world.phase(), PhaseKind::Queued);
}

#[test]
fn an_error_of_its_own_fails_the_job_unless_it_may_retry() {
    let mut world = JobWorld::new(spec(1));
    world.run_to_payloads();
    world.sight_attempt(0, AttemptSighting::Failed("exit code 3".into()));
    let JobPhase::Failed { reason, .. } = &world.job.phase else {
        panic!("{:?}", world.job.phase)
    };
    assert!(
        reason.contains("c0") && reason.contains("exit code 3"),
        "{reason}"
    );
    assert!(
        world.job.components[0].charge.is_none(),
        "not the site's error"
    );

    let mut spec = spec(1);
    spec.max_retries = 1;
    let mut world = JobWorld::new(spec);
    world.run_to_payloads();
    world.sight_attempt(0, AttemptSighting::Failed("exit code 3".into()));
    assert_eq!(world.phase(), PhaseKind::Queued);
    world.run_to_payloads();
    world.sight_attempt(0, AttemptSighting::Failed("exit code 3".into()));
    assert_eq!(world.phase(), PhaseKind::Failed);
}

#[test]
fn a_job_that_must_not_run_twice_fails_when_its_site_loses_it() {
    let mut spec = spec(1);
    spec.rerunnable = false;
    let mut world = JobWorld::new(spec);
    world.run_to_payloads();
    world.sight_attempt(0, AttemptSighting::Vanished("gone".into()));
    world.record_charges();
    assert_eq!(world.phase(), PhaseKind::Failed);
}

#[test]
fn a_job_that_sites_lose_without_end_fails_in_the_end() {
    let mut world = JobWorld::new(spec(1));
    for round in 1..=MAX_SITE_ERRORS {
        assert_eq!(world.phase(), PhaseKind::Queued, "round {round}");
        world.run_to_payloads();
        world.sight_attempt(0, AttemptSighting::Vanished("gone".into()));
        world.record_charges();
    }
    let JobPhase::Failed { reason, .. } = &world.job.phase else {
        panic!("{:?}", world.job.phase)
    };
    assert_eq!(
        &**reason,
        "component c0: 100 times lost at its sites, at last: gone"
    );
}

#[test]
fn a_silent_site_is_waited_for_as_long_as_the_job_says() {
    let mut world = JobWorld::new(spec(2));
    world.run_to_payloads();
    assert_eq!(look_unreachable(&mut world, 1, 1_799), Vec::<&str>::new());
    look_unreachable(&mut world, 1, 1_800);
    assert_eq!(world.phase(), PhaseKind::Aborting);
    assert_eq!(world.job.components[1].run.as_str(), "abandoned");
    assert_eq!(
        world.job.components[0].run.as_str(),
        "running",
        "it is to be ended first"
    );
    world.sight_attempt(0, AttemptSighting::Vanished("killed".into()));
    world.record_charges();
    assert_eq!(world.phase(), PhaseKind::Queued);
}

#[test]
fn a_job_that_says_wait_is_never_moved_from_a_silent_site() {
    let mut spec = spec(1);
    spec.on_unreachable = UnreachableAction::Wait;
    let mut world = JobWorld::new(spec);
    world.run_to_payloads();
    assert_eq!(
        look_unreachable(&mut world, 0, 10_000_000),
        Vec::<&str>::new()
    );
}

#[test]
fn an_attempt_whose_gate_never_opened_is_left_behind_at_a_silent_site() {
    let mut world = JobWorld::new(spec(1));
    world.place_job();
    world.accept_all_submissions();
    world.apply_command(JobCommand::Cancel(key())).unwrap();
    look_unreachable(&mut world, 0, 1);
    assert_eq!(world.phase(), PhaseKind::Cancelled);
}

#[test]
fn cancelling_ends_what_lives_before_it_says_cancelled() {
    let mut world = JobWorld::new(spec(2));
    world.run_to_payloads();
    world.apply_command(JobCommand::Cancel(key())).unwrap();
    assert_eq!(world.phase(), PhaseKind::Aborting);
    assert_eq!(
        world.apply_command(JobCommand::Cancel(key())),
        Err(JobRejection::AlreadySo)
    );
    world.sight_attempt(0, AttemptSighting::Vanished("killed".into()));
    assert_eq!(world.phase(), PhaseKind::Aborting);
    world.sight_attempt(1, AttemptSighting::Failed("ended by signal 15".into()));
    assert_eq!(world.phase(), PhaseKind::Cancelled);
}

#[test]
fn a_cancelled_claim_that_was_never_sent_is_withdrawn() {
    let mut world = JobWorld::new(spec(1));
    world.place_job();
    world.apply_command(JobCommand::Cancel(key())).unwrap();
    assert_eq!(world.due_effects(), [JobEffectKind::Withdraw]);
    world.answer_submission(0, SubmissionAnswer::NotSent("withdrawn".into()));
    assert_eq!(world.phase(), PhaseKind::Cancelled);
    assert!(
        world.job.components[0].charge.is_none(),
        "the site did nothing wrong"
    );
}

#[test]
fn processors_that_are_not_had_in_time_are_a_lost_claim_not_an_error() {
    let mut world = JobWorld::new(spec(2));
    world.place_job();
    world.accept_all_submissions();
    world.sight_attempt(0, AttemptSighting::Ready("n".into()));
    world.advance_secs(121);
    world.look_with_inputs(InputState::Unknown);
    assert_eq!(world.phase(), PhaseKind::Aborting);
    assert_eq!(world.job.setbacks.claims, 1);
    assert!(
        world
            .job
            .components
            .iter()
            .all(|component| component.charge.is_none())
    );
}

#[test]
fn an_acknowledged_submission_that_disappears_is_the_sites_error() {
    let mut world = JobWorld::new(spec(1));
    world.place_job();
    world.accept_all_submissions();
    world.advance_secs(10);
    assert_eq!(
        world.sight_attempt(0, AttemptSighting::Absent),
        Vec::<&str>::new(),
        "too early"
    );
    world.advance_secs(30);
    assert_eq!(
        world.sight_attempt(0, AttemptSighting::Absent),
        ["AttemptAbsent"]
    );
    world.advance_secs(1);
    world.sight_attempt(0, AttemptSighting::Absent);
    assert_eq!(world.phase(), PhaseKind::Aborting);
    assert!(world.job.components[0].charge.is_some());
    assert!(
        world.due_effects().contains(&JobEffectKind::End),
        "perhaps the site showed what was long ago"
    );
    assert_eq!(
        world.sight_attempt(0, AttemptSighting::Absent),
        Vec::<&str>::new(),
        "its gate may be open"
    );
    world.sight_attempt(0, AttemptSighting::Void);
    assert!(!world.job.components[0].run.may_live());
}

#[test]
fn a_held_job_does_nothing_until_it_is_released() {
    let mut world = JobWorld::new(spec(1));
    world.run_to_payloads();
    world
        .apply_command(JobCommand::Hold("it panics".into()))
        .unwrap();
    assert_eq!(world.due_effects(), []);
    let sighted = JobCommand::AttemptObserved {
        component: ComponentIndex(0),
        attempt: world.attempt(0),
        asked_at: world.now,
        times: SiteClockTimes::default(),
        sighting: AttemptSighting::Succeeded,
    };
    assert_eq!(world.apply_command(sighted), Err(JobRejection::Stale));
    world.apply_command(JobCommand::Release(key())).unwrap();
    world.sight_attempt(0, AttemptSighting::Succeeded);
    assert_eq!(world.phase(), PhaseKind::Finished);
}

#[test]
fn what_a_held_job_had_on_its_way_is_looked_up_after_its_release() {
    let mut world = JobWorld::new(spec(1));
    world.place_job();
    world
        .apply_command(JobCommand::Hold("it panics".into()))
        .unwrap();
    let settle = vec![DurationMs::from_secs(5)];
    assert_eq!(
        world.apply_command(JobCommand::Recover { settle }).unwrap(),
        ["SubmissionUncertain"]
    );
    assert_eq!(
        world.due_effects(),
        [],
        "nothing is done for it while it is held"
    );
    world.apply_command(JobCommand::Release(key())).unwrap();
    assert_eq!(world.due_effects(), [JobEffectKind::LookUp]);
}

#[test]
fn a_drained_site_is_left_by_jobs_whose_payload_has_not_begun() {
    let mut world = JobWorld::new(spec(1));
    let placements = world.placements(1_000);
    world
        .apply_command(JobCommand::Place {
            placements,
            by: None,
        })
        .unwrap();
    world.apply_command(JobCommand::LeaveSite(site(0))).unwrap();
    assert_eq!(world.phase(), PhaseKind::Queued);
    world.run_to_payloads();
    assert_eq!(
        world.apply_command(JobCommand::LeaveSite(site(0))),
        Err(JobRejection::Stale)
    );
}

#[test]
fn a_payload_that_outlives_its_wall_time_by_far_is_ended_from_here() {
    let mut world = JobWorld::new(spec(1));
    world.run_to_payloads();
    world.advance_secs(3_600 + 61);
    world.sight_attempt(0, AttemptSighting::Begun("node1".into()));
    assert_eq!(world.phase(), PhaseKind::Aborting);
}

#[test]
fn no_payload_is_given_up_before_its_site_says_its_wall_time_is_over() {
    let mut world = JobWorld::new(spec(1));
    world.run_to_payloads();
    let before = world.now;
    world.advance_secs(3_600 + 61);
    assert_eq!(
        world.look_with_inputs(InputState::Unknown),
        Vec::<&str>::new()
    );
    let component = ComponentIndex(0);
    let attempt = world.attempt(0);
    let sighting = AttemptSighting::Begun("node1".into());
    let asked_at = before;
    let times = SiteClockTimes::default();
    let old = JobCommand::AttemptObserved {
        component,
        attempt,
        asked_at,
        times,
        sighting,
    };
    assert_eq!(world.apply_command(old), Ok(Vec::new()));
    let wake = next_wake(&world.job, &world.parameters, world.now);
    assert!(
        wake.is_some_and(|time| time > world.now),
        "what it says next is looked at"
    );
    world.sight_attempt(0, AttemptSighting::Succeeded);
    assert_eq!(world.phase(), PhaseKind::Finished);
}

#[test]
fn whoever_is_named_is_told_of_the_end_and_nothing_else_changes() {
    let mut spec = spec(1);
    let team = TargetName::new("team").unwrap();
    spec.run.notify = [team.clone()].into();
    let mut world = JobWorld::new(spec);
    let told = |problem: Option<&str>| JobCommand::EndTold {
        target: team.clone(),
        problem: problem.map(Into::into),
    };
    assert_eq!(
        world.apply_command(told(None)),
        Err(JobRejection::Stale),
        "it has not ended"
    );
    world.apply_command(JobCommand::Cancel(key())).unwrap();
    assert!(world.job.pending_end_receivers().eq([&team]));
    assert_eq!(
        world.apply_command(told(Some("nobody answers"))),
        Ok(vec!["EndTold"])
    );
    assert_eq!(
        (world.phase(), world.job.pending_end_receivers().next()),
        (PhaseKind::Cancelled, None)
    );
    assert_eq!(
        world.apply_command(told(None)),
        Err(JobRejection::Stale),
        "they were told"
    );
}

#[test]
fn a_start_is_a_restart_once_every_payload_had_begun() {
    let mut spec = spec(2);
    spec.max_retries = 2;
    let mut world = JobWorld::new(spec);
    world.place_job();
    world.accept_all_submissions();
    world.sight_all(AttemptSighting::Ready("a".into()));
    world.sight_attempt(0, AttemptSighting::Begun("a".into()));
    assert!(!world.job.is_restarted(), "one has begun, the other not");
    world.sight_attempt(1, AttemptSighting::Begun("a".into()));
    world.sight_attempt(0, AttemptSighting::Failed("exit code 3".into()));
    world.sight_attempt(1, AttemptSighting::Failed("ended with it".into()));
    assert_eq!(world.phase(), PhaseKind::Queued);
    world.advance_secs(3_600);
    world.place_job();
    assert!(world.job.is_restarted());
    let began = world.job.components[0].began.clone().unwrap();
    assert_eq!((began.attempt.0, world.job.components[0].attempt.0), (1, 2));
}

#[test]
fn a_payload_that_failed_before_it_was_seen_to_run_had_begun_too() {
    let mut spec = spec(1);
    spec.max_retries = 1;
    let mut world = JobWorld::new(spec);
    world.place_job();
    world.accept_all_submissions();
    world.sight_all(AttemptSighting::Ready("a".into()));
    world.sight_attempt(0, AttemptSighting::Failed("exit code 3".into()));
    assert!(world.job.is_restarted() && world.job.instants.started.is_none());
}

/// Tries are counted again while a promotion is on its way to the disk.
#[test]
fn a_promotion_that_is_told_twice_raises_one_class() {
    let mut world = JobWorld::new(spec(1));
    let promote = || JobCommand::Promote { to: Priority::High };
    assert_eq!(world.apply_command(promote()), Ok(vec!["PriorityChanged"]));
    assert_eq!(world.apply_command(promote()), Err(JobRejection::Stale));
    assert_eq!(world.job.priority, Priority::High);
}

#[test]
fn who_finds_no_room_for_its_input_goes_elsewhere_and_charges_nobody() {
    let mut world = JobWorld::new(spec(2));
    let placements = world.placements(320_000);
    world
        .apply_command(JobCommand::Place {
            placements,
            by: None,
        })
        .unwrap();
    let components = vec![ComponentIndex(1)];
    let full = InputState::Lost {
        detail: "no space left".into(),
        components,
        at_site: true,
    };
    assert_eq!(
        world.look_with_inputs(full),
        ["SiteAvoided", "RoundAborted", "JobRequeued"]
    );
    let [first, second] = &world.job.components[..] else {
        panic!("two components")
    };
    assert!(first.avoid.is_empty());
    assert_eq!(Vec::from_iter(second.avoid.clone()), [site(1)]);
    assert!(
        world
            .job
            .components
            .iter()
            .all(|component| component.charge.is_none())
    );
    assert_eq!(world.job.setbacks.inputs, 1);
}

#[test]
fn a_job_that_runs_for_long_each_time_is_lost_as_often_as_sites_lose_it() {
    let mut world = JobWorld::new(spec(1));
    for round in 1..=2 * MAX_SITE_ERRORS {
        assert_eq!(world.phase(), PhaseKind::Queued, "round {round}");
        world.run_to_payloads();
        world.advance_secs(3_600);
        world.sight_attempt(0, AttemptSighting::Vanished("gone".into()));
        world.record_charges();
    }
    assert_eq!(world.job.setbacks.incidents, 1);
}

#[test]
fn that_its_owner_stays_away_from_a_site_costs_a_job_no_claim_try() {
    let mut spec = spec(1);
    spec.max_claim_tries = Some(1);
    let mut world = JobWorld::new(spec);
    for _ in 0..3 {
        assert_eq!(world.phase(), PhaseKind::Queued);
        world.place_job();
        world.answer_submission(
            0,
            SubmissionAnswer::Barred("jobs of this key stay away".into()),
        );
        world.advance_secs(60);
    }
    assert_eq!(
        (world.job.setbacks.claims, world.job.setbacks.site_errors),
        (0, 0)
    );
}
