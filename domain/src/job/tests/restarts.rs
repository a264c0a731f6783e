//! Components that are restarted alone, one story each.

use super::job_world::{JobWorld, key, lost_input, site, spec};
use crate::claim::{ClaimPlace, ClaimTry, ClaimableSites, PreemptibleJob, plan_claim};
use crate::ids::{ComponentIndex, LrmId};
use crate::job::decide::MAX_SITE_ERRORS;
use crate::job::demands::{list_holdings, needed_digests};
use crate::job::job_command::{
    AttemptSighting, InputState, JobCommand, JobRejection, JobSurroundings, SubmissionAnswer,
};
use crate::job::job_due::{JobEffectKind, next_wake};
use crate::job::job_parameters::JobParameters;
use crate::job::job_state::{Job, PhaseKind};
use crate::job::spec::UnreachableAction;
use crate::placed::Placement;
use crate::resources::Resources;
use crate::runner::RestartScope;
use crate::units::DurationMs;

fn world_restarting_alone(components: usize) -> JobWorld {
    let mut spec = spec(components);
    spec.run.restart_scope = RestartScope::Component;
    let mut world = JobWorld::new(spec);
    world.run_to_payloads();
    world
}

/// Of two components one has lost its site, and the time has come to claim for it.
fn world_with_lost_component(index: usize) -> JobWorld {
    let mut world = world_restarting_alone(2);
    world.sight_attempt(index, AttemptSighting::Vanished("lost".into()));
    world.record_charges();
    world.advance_secs(10);
    world
}

/// A claiming try that finds another site for the component.
fn claim_at_site(world: &mut JobWorld, index: usize, to: usize, bytes: u64) -> Vec<&'static str> {
    let component = ComponentIndex(index as u32);
    let placement = Placement {
        site: site(to),
        ..world.placements(bytes)[index].clone()
    };
    let starts = placement.sources.is_empty();
    let attempt = ClaimTry {
        round: world.job.round,
        start: starts.then_some(component).into_iter().collect(),
        moves: vec![(component, placement)],
        preempting: Vec::new(),
    };
    world
        .apply_command(JobCommand::Claim(attempt, JobSurroundings::default()))
        .unwrap()
}

/// From its claim to its payload.
fn begin_payload(world: &mut JobWorld, index: usize) {
    world.answer_submission(index, SubmissionAnswer::Accepted(LrmId::new("9").unwrap()));
    world.sight_attempt(index, AttemptSighting::Ready("m".into()));
    assert_eq!(world.due_effects(), [JobEffectKind::OpenGate]);
    let component = ComponentIndex(index as u32);
    let attempt = world.attempt(index);
    world
        .apply_command(JobCommand::GateAnswered {
            component,
            attempt,
            open: true,
        })
        .unwrap();
    world.sight_attempt(index, AttemptSighting::Begun("m".into()));
}

#[test]
fn a_component_whose_site_fails_runs_elsewhere_while_the_others_go_on() {
    let mut world = world_restarting_alone(3);
    let names = world.sight_attempt(1, AttemptSighting::Vanished("the node died".into()));
    assert_eq!(names, ["AttemptEnded", "SiteCharged", "ComponentFailed"]);
    assert_eq!(world.phase(), PhaseKind::Running);
    assert!(
        world.job.next_claim_time(&world.parameters).is_none(),
        "its site's record comes first"
    );
    world.record_charges();
    assert!(world.job.components[1].avoid.contains(&site(1)));
    world.sight_attempt(0, AttemptSighting::Succeeded);
    world.advance_secs(10);
    assert_eq!(
        claim_at_site(&mut world, 1, 3, 0),
        ["ComponentMoved", "ComponentsClaimed"]
    );
    assert_eq!(world.due_effects(), [JobEffectKind::Submit]);
    begin_payload(&mut world, 1);
    world.sight_attempt(2, AttemptSighting::Succeeded);
    assert_eq!(world.phase(), PhaseKind::Running, "one is not over");
    world.sight_attempt(1, AttemptSighting::Succeeded);
    assert_eq!(world.phase(), PhaseKind::Finished);
    let attempts: Vec<u32> = (0..3).map(|index| world.attempt(index).0).collect();
    assert_eq!(attempts, [1, 2, 1]);
    assert_eq!((world.job.round.0, world.job.setbacks.rounds), (1, 0));
}

#[test]
fn no_processors_are_asked_for_before_the_input_is_at_the_new_site() {
    let mut world = world_restarting_alone(2);
    world.sight_attempt(0, AttemptSighting::Vanished("lost".into()));
    world.record_charges();
    assert_eq!(needed_digests(&world.job).len(), 0);
    world.advance_secs(10);
    assert_eq!(claim_at_site(&mut world, 0, 3, 9_000), ["ComponentMoved"]);
    assert!(
        list_holdings(&world.job)
            .iter()
            .any(|holding| holding.site == site(3) && !holding.live)
    );
    assert_eq!(needed_digests(&world.job).len(), 1);
    assert!(world.job.next_claim_time(&world.parameters).is_none());
    assert_eq!(
        world.look_with_inputs(InputState::Expected(world.now)),
        Vec::<&str>::new()
    );
    assert_eq!(world.look_with_inputs(InputState::Here), ["InputsArrived"]);
    assert_eq!(
        world.look_with_inputs(InputState::Unknown),
        ["ComponentsClaimed"]
    );
    begin_payload(&mut world, 0);
    assert_eq!(world.job.components[0].run.as_str(), "running");
}

#[test]
fn input_that_is_lost_on_the_way_has_the_component_placed_again() {
    let mut world = world_with_lost_component(0);
    claim_at_site(&mut world, 0, 3, 9_000);
    assert_eq!(
        world.look_with_inputs(lost_input(&[0])),
        ["ComponentFailed"]
    );
    assert_eq!(
        (world.phase(), world.job.setbacks.inputs),
        (PhaseKind::Running, 1)
    );
    assert_eq!(
        needed_digests(&world.job).len(),
        0,
        "nothing is brought to where nobody goes"
    );
}

#[test]
fn a_component_whose_new_site_has_no_room_for_its_input_avoids_it() {
    let mut world = world_with_lost_component(0);
    claim_at_site(&mut world, 0, 3, 9_000);
    let components = vec![ComponentIndex(0)];
    let full = InputState::Lost {
        detail: "no space left".into(),
        components,
        at_site: true,
    };
    assert_eq!(
        world.look_with_inputs(full),
        ["SiteAvoided", "ComponentFailed"]
    );
    assert!(world.job.components[0].avoid.contains(&site(3)));
}

#[test]
fn one_lost_file_is_one_setback_for_all_that_need_it_and_no_others() {
    let mut world = world_restarting_alone(4);
    for index in 0..3 {
        world.sight_attempt(index, AttemptSighting::Vanished("lost".into()));
    }
    world.record_charges();
    world.advance_secs(60);
    let placed = world.placements(9_000).into_iter().take(3);
    let moves = (0..3).map(ComponentIndex).zip(placed).collect();
    let attempt = ClaimTry {
        round: world.job.round,
        moves,
        ..ClaimTry::default()
    };
    world
        .apply_command(JobCommand::Claim(attempt, JobSurroundings::default()))
        .unwrap();
    assert_eq!(
        world.look_with_inputs(lost_input(&[0, 1])),
        ["ComponentFailed"; 2]
    );
    assert_eq!(world.job.setbacks.inputs, 1);
    assert_eq!(
        world.look_with_inputs(InputState::Here),
        ["InputsArrived"],
        "the third goes on"
    );
}

#[test]
fn room_that_comes_and_goes_moves_no_input_to_and_fro() {
    let mut world = world_with_lost_component(0);
    claim_at_site(&mut world, 0, 3, 9_000);
    world.look_with_inputs(InputState::Here);
    let mut field = SingleSiteWithRoom(world.placements(9_000)[1].clone());
    let parameters = world.parameters.claim.clone();
    let mut moves = |world: &JobWorld| {
        plan_claim(&world.job, &parameters, world.now, &mut field)
            .moves
            .len()
    };
    assert_eq!(moves(&world), 0, "its input has just been brought");
    world.advance_secs(61);
    assert_eq!(moves(&world), 1);
}

/// No room at any site but one.
struct SingleSiteWithRoom(Placement);

impl ClaimableSites for SingleSiteWithRoom {
    fn idle_at(&self, _: &ClaimPlace) -> Option<Resources> {
        Some(Resources::default())
    }

    fn take(&mut self, _: &ClaimPlace, _: &Resources) {}

    fn replace(&mut self, _: &Job, _: ComponentIndex) -> Option<Placement> {
        Some(self.0.clone())
    }

    fn victims_at(&self, _: &ClaimPlace) -> Vec<PreemptibleJob> {
        Vec::new()
    }
}

#[test]
fn a_site_without_room_is_asked_again_later_and_nobody_is_disturbed() {
    let mut world = world_with_lost_component(0);
    let mut waits = Vec::new();
    for _ in 0..8 {
        let nothing = ClaimTry {
            round: world.job.round,
            ..ClaimTry::default()
        };
        let names = world
            .apply_command(JobCommand::Claim(nothing, JobSurroundings::default()))
            .unwrap();
        assert_eq!(names, ["ClaimMissed"]);
        let next = world.job.next_claim_time(&world.parameters).unwrap();
        waits.push(next.since(world.now));
        world.now = next;
    }
    assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]), "{waits:?}");
    assert_eq!(waits[7], DurationMs::from_secs(60));
    assert_eq!(
        (world.job.setbacks.claims, world.phase()),
        (0, PhaseKind::Running)
    );
}

#[test]
fn processors_that_others_took_are_claimed_again_elsewhere() {
    let mut world = world_with_lost_component(1);
    claim_at_site(&mut world, 1, 3, 0);
    world.answer_submission(1, SubmissionAnswer::Accepted(LrmId::new("9").unwrap()));
    world.advance_secs(world.parameters.claim_timeout.0 / 1_000 + 1);
    assert_eq!(
        world.look_with_inputs(InputState::Unknown),
        ["ComponentFailed"]
    );
    assert_eq!(world.due_effects(), [JobEffectKind::End]);
    world.sight_attempt(1, AttemptSighting::Void);
    assert!(world.job.components[1].charge.is_none(), "nobody is blamed");
    world.advance_secs(60);
    assert_eq!(
        claim_at_site(&mut world, 1, 2, 0),
        ["ComponentMoved", "ComponentsClaimed"]
    );
    assert_eq!(world.attempt(1).0, 3);
}

#[test]
fn what_runs_at_a_silent_site_is_left_only_after_the_jobs_patience() {
    let mut world = world_restarting_alone(2);
    let silent = |world: &mut JobWorld, secs: u64| {
        let unreachable = vec![(ComponentIndex(0), world.now - DurationMs::from_secs(secs))];
        world
            .apply_command(JobCommand::Look(JobSurroundings {
                unreachable,
                ..JobSurroundings::default()
            }))
            .unwrap()
    };
    assert_eq!(silent(&mut world, 1_799), Vec::<&str>::new());
    assert_eq!(
        silent(&mut world, 1_800),
        ["SiteCharged", "ComponentFailed", "AttemptEnded"]
    );
    assert_eq!(world.phase(), PhaseKind::Running);
    assert_eq!(world.job.components[1].run.as_str(), "running");
}

#[test]
fn what_has_not_begun_again_waits_for_no_silent_site() {
    let mut world = world_restarting_alone(2);
    std::sync::Arc::make_mut(&mut world.job.spec).on_unreachable = UnreachableAction::Wait;
    world.sight_attempt(0, AttemptSighting::Vanished("lost".into()));
    world.record_charges();
    world.advance_secs(10);
    claim_at_site(&mut world, 0, 3, 0);
    world.answer_submission(0, SubmissionAnswer::Accepted(LrmId::new("9").unwrap()));
    let unreachable = vec![(ComponentIndex(0), world.now)];
    let names = world
        .apply_command(JobCommand::Look(JobSurroundings {
            unreachable,
            ..JobSurroundings::default()
        }))
        .unwrap();
    assert_eq!(names, ["SiteCharged", "ComponentFailed", "AttemptEnded"]);
}

#[test]
fn a_component_that_fails_by_itself_uses_up_the_jobs_retries() {
    let mut world = world_restarting_alone(2);
    std::sync::Arc::make_mut(&mut world.job.spec).max_retries = 1;
    world.sight_attempt(0, AttemptSighting::Failed("exit code 3".into()));
    assert_eq!(
        (world.phase(), world.job.setbacks.own_errors),
        (PhaseKind::Running, 1)
    );
    world.advance_secs(10);
    claim_at_site(&mut world, 0, 2, 0);
    begin_payload(&mut world, 0);
    world.sight_attempt(0, AttemptSighting::Failed("exit code 3".into()));
    assert_eq!(world.phase(), PhaseKind::Aborting);
    world.sight_attempt(1, AttemptSighting::Succeeded);
    assert_eq!(world.phase(), PhaseKind::Failed);
}

#[test]
fn sites_that_failed_it_are_avoided_for_so_long_only() {
    let mut world = world_restarting_alone(2);
    world.sight_attempt(0, AttemptSighting::Vanished("lost".into()));
    world.record_charges();
    let lapses = world.now + world.parameters.avoid_for;
    assert_eq!(
        next_wake(&world.job, &world.parameters, world.now),
        Some(lapses)
    );
    world.now = lapses;
    let names = world
        .apply_command(JobCommand::Look(JobSurroundings::default()))
        .unwrap();
    assert_eq!(names, ["ComponentAvoidanceLapsed"]);
    assert!(world.job.components[0].avoid.is_empty());
}

#[test]
fn one_that_just_failed_does_not_go_back_for_another_that_waited_long() {
    let mut world = world_restarting_alone(2);
    world.sight_attempt(0, AttemptSighting::Vanished("lost".into()));
    world.record_charges();
    world.now = world.now + world.parameters.avoid_for;
    world.sight_attempt(1, AttemptSighting::Vanished("lost".into()));
    world.record_charges();
    world
        .apply_command(JobCommand::Look(JobSurroundings::default()))
        .unwrap();
    let avoids = |index: usize| !world.job.components[index].avoid.is_empty();
    assert_eq!((avoids(0), avoids(1)), (false, true));
}

#[test]
fn the_pause_of_one_is_not_that_of_another() {
    let mut world = world_with_lost_component(0);
    world.job.setbacks.incidents = 9;
    let due = world.job.next_claim_time(&world.parameters).unwrap();
    assert!(due <= world.now);
    world.sight_attempt(1, AttemptSighting::Vanished("lost".into()));
    world.record_charges();
    assert_eq!(
        world.job.next_claim_time(&world.parameters),
        Some(due),
        "the first is due all the same"
    );
    let nothing = ClaimTry {
        round: world.job.round,
        ..ClaimTry::default()
    };
    world
        .apply_command(JobCommand::Claim(nothing, JobSurroundings::default()))
        .unwrap();
    let restarts: Vec<_> = world
        .job
        .components
        .iter()
        .map(|c| c.restart.as_ref().unwrap())
        .collect();
    assert_eq!(
        (restarts[0].tries, restarts[1].tries),
        (1, 0),
        "one was tried for"
    );
    assert!(restarts[1].not_before > restarts[0].not_before);
}

#[test]
fn what_was_given_up_while_running_is_left_only_after_the_jobs_patience() {
    let mut world = world_restarting_alone(2);
    world.advance_secs(3_600 + world.parameters.wall_margin.0 / 1_000 + 1);
    world.look_with_inputs(InputState::Unknown);
    for _ in 0..3 {
        world.sight_attempt(0, AttemptSighting::Absent);
        world.advance_secs(60);
    }
    let component = &world.job.components[0];
    assert!(
        component.given_back && component.run.has_begun(),
        "{component:?}"
    );
    let silent_for = |world: &mut JobWorld, secs: u64| {
        let unreachable = vec![(ComponentIndex(0), world.now - DurationMs::from_secs(secs))];
        world
            .apply_command(JobCommand::Look(JobSurroundings {
                unreachable,
                ..JobSurroundings::default()
            }))
            .unwrap()
    };
    assert_eq!(silent_for(&mut world, 1_799), Vec::<&str>::new());
    assert_eq!(silent_for(&mut world, 1_800), ["AttemptEnded"]);
}

#[test]
fn an_opened_gate_behind_which_nothing_begins_is_its_sites_fault() {
    let opened = || {
        let mut world = world_with_lost_component(0);
        claim_at_site(&mut world, 0, 3, 0);
        world.answer_submission(0, SubmissionAnswer::Accepted(LrmId::new("9").unwrap()));
        world.sight_attempt(0, AttemptSighting::Ready("m".into()));
        let component = ComponentIndex(0);
        let attempt = world.attempt(0);
        world
            .apply_command(JobCommand::GateAnswered {
                component,
                attempt,
                open: true,
            })
            .unwrap();
        world
    };
    let grace = JobParameters::default().go_grace.0 / 1_000;
    let mut watched = opened();
    watched.advance_secs(grace + 1);
    assert_eq!(
        watched.look_with_inputs(InputState::Unknown),
        ["SiteCharged", "ComponentFailed"]
    );
    assert!(watched.job.components[0].avoid.contains(&site(3)));
    let mut away = opened();
    away.advance_secs(2 * grace + 1);
    assert_eq!(
        away.look_with_inputs(InputState::Unknown),
        ["ComponentFailed"],
        "nobody was here to see it"
    );
}

#[test]
fn a_site_that_is_emptied_is_left_by_what_is_not_claimed_there_yet() {
    let mut world = world_restarting_alone(2);
    assert_eq!(
        world.apply_command(JobCommand::LeaveSite(site(1))),
        Err(JobRejection::Stale),
        "it runs there"
    );
    world.sight_attempt(0, AttemptSighting::Vanished("lost".into()));
    world.record_charges();
    world.advance_secs(10);
    claim_at_site(&mut world, 0, 3, 9_000);
    assert_eq!(
        world.apply_command(JobCommand::LeaveSite(site(3))).unwrap(),
        ["ComponentFailed"]
    );
    assert_eq!(world.phase(), PhaseKind::Running);
}

#[test]
fn a_cancelled_job_leaves_nothing_of_a_restart() {
    let mut world = world_with_lost_component(0);
    claim_at_site(&mut world, 0, 3, 0);
    world.apply_command(JobCommand::Cancel(key())).unwrap();
    let mut due = world.due_effects();
    due.sort();
    assert_eq!(due, [JobEffectKind::Withdraw, JobEffectKind::End]);
    world.answer_submission(0, SubmissionAnswer::NotSent("withdrawn".into()));
    world.sight_attempt(1, AttemptSighting::Void);
    assert_eq!(world.phase(), PhaseKind::Cancelled);
}

#[test]
fn before_all_have_begun_a_failure_is_one_of_the_whole_job() {
    let mut spec = spec(2);
    spec.run.restart_scope = RestartScope::Component;
    let mut world = JobWorld::new(spec);
    world.place_job();
    world.accept_all_submissions();
    world.sight_all(AttemptSighting::Ready("n".into()));
    world.sight_attempt(0, AttemptSighting::Begun("n".into()));
    world.sight_attempt(0, AttemptSighting::Vanished("lost".into()));
    assert_eq!(world.phase(), PhaseKind::Aborting);
}

#[test]
fn what_an_older_try_saw_of_input_says_nothing_of_a_site_chosen_since() {
    let mut world = world_with_lost_component(0);
    claim_at_site(&mut world, 0, 3, 9_000);
    let older = ClaimTry {
        round: world.job.round,
        ..ClaimTry::default()
    };
    let external = JobSurroundings {
        inputs: InputState::Here,
        ..JobSurroundings::default()
    };
    assert_eq!(
        world.apply_command(JobCommand::Claim(older, external)),
        Ok(Vec::new())
    );
}

#[test]
fn a_payload_that_began_too_late_and_succeeded_all_the_same_is_done() {
    let mut world = world_with_lost_component(0);
    claim_at_site(&mut world, 0, 3, 0);
    world.answer_submission(0, SubmissionAnswer::Accepted(LrmId::new("9").unwrap()));
    world.sight_attempt(0, AttemptSighting::Ready("m".into()));
    let component = ComponentIndex(0);
    let attempt = world.attempt(0);
    world
        .apply_command(JobCommand::GateAnswered {
            component,
            attempt,
            open: true,
        })
        .unwrap();
    world.advance_secs(31);
    assert_eq!(
        world.look_with_inputs(InputState::Unknown),
        ["SiteCharged", "ComponentFailed"]
    );
    world.sight_attempt(0, AttemptSighting::Succeeded);
    world.sight_attempt(1, AttemptSighting::Succeeded);
    assert_eq!(
        world.phase(),
        PhaseKind::Running,
        "its site has not been charged yet"
    );
    world.record_charges();
    assert_eq!(world.phase(), PhaseKind::Finished);
}

#[test]
fn nobody_is_woken_for_a_look_up_that_is_under_way_already() {
    let mut world = JobWorld::new(spec(1));
    world.place_job();
    world.answer_submission(0, SubmissionAnswer::Unknown(DurationMs::from_secs(30)));
    world.advance_secs(9);
    assert_eq!(
        world.due_effects(),
        [JobEffectKind::LookUp],
        "its site takes its time"
    );
    let wake = next_wake(&world.job, &world.parameters, world.now);
    assert!(
        wake.is_some_and(|time| time > world.now),
        "or it looks again and again"
    );
}

#[test]
fn one_that_is_restarted_is_asked_for_again_after_we_were_away() {
    let mut world = world_with_lost_component(1);
    claim_at_site(&mut world, 1, 3, 0);
    world.answer_submission(1, SubmissionAnswer::Accepted(LrmId::new("9").unwrap()));
    world.sight_attempt(1, AttemptSighting::Ready("m".into()));
    assert_eq!(world.due_effects(), [JobEffectKind::OpenGate]);
    world
        .apply_command(JobCommand::Recover { settle: Vec::new() })
        .unwrap();
    assert_eq!(
        world.due_effects(),
        [],
        "it may have left its gate meanwhile"
    );
    world.sight_attempt(1, AttemptSighting::Ready("m".into()));
    assert_eq!(world.due_effects(), [JobEffectKind::OpenGate]);
}

#[test]
fn one_that_is_restarted_may_begin_long_after_the_others() {
    let mut world = world_with_lost_component(1);
    world.advance_secs(3_600);
    claim_at_site(&mut world, 1, 3, 0);
    begin_payload(&mut world, 1);
    assert_eq!(world.job.components[1].run.as_str(), "running");
    assert_eq!((world.phase(), world.job.round.0), (PhaseKind::Running, 1));
}

#[test]
fn one_that_came_to_its_gate_too_late_is_restarted_alone_once_more() {
    let mut world = world_with_lost_component(1);
    claim_at_site(&mut world, 1, 3, 0);
    world.answer_submission(1, SubmissionAnswer::Accepted(LrmId::new("9").unwrap()));
    world.sight_attempt(1, AttemptSighting::Ready("m".into()));
    let component = ComponentIndex(1);
    let attempt = world.attempt(1);
    world
        .apply_command(JobCommand::GateAnswered {
            component,
            attempt,
            open: true,
        })
        .unwrap();
    assert_eq!(
        world.sight_attempt(1, AttemptSighting::TooLate),
        ["AttemptEnded", "ComponentFailed"]
    );
    assert!(
        !world.job.has_unrecorded_charges(),
        "that is no error of its site"
    );
    world.advance_secs(60);
    claim_at_site(&mut world, 1, 3, 0);
    begin_payload(&mut world, 1);
    world.sight_attempt(0, AttemptSighting::Succeeded);
    world.sight_attempt(1, AttemptSighting::Succeeded);
    assert_eq!((world.phase(), world.job.round.0), (PhaseKind::Finished, 1));
}

#[test]
fn what_a_wide_job_loses_at_once_is_one_incident() {
    let mut world = world_restarting_alone(2 * MAX_SITE_ERRORS as usize);
    for index in 0..world.job.components.len() {
        world.sight_attempt(index, AttemptSighting::Vanished("the power failed".into()));
        world.record_charges();
    }
    assert_eq!(
        (world.phase(), world.job.setbacks.incidents),
        (PhaseKind::Running, 1)
    );
    world.advance_secs(60);
    claim_at_site(&mut world, 0, 2, 0);
    begin_payload(&mut world, 0);
    world.sight_attempt(0, AttemptSighting::Vanished("again".into()));
    assert_eq!(world.job.setbacks.incidents, 2);
}
