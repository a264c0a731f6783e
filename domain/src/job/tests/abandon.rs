//! Giving up what may still run at sites from which nothing is heard.

use super::job_world::*;
use crate::ids::{ComponentIndex, KeyName};
use crate::job::job_command::{AttemptSighting, JobCommand, JobRejection, JobSurroundings};
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{AbortConsequence, AttemptEnding, AttemptState, JobPhase, PhaseKind};
use crate::job::spec::UnreachableAction;

/// A job that must not run twice, and runs at two sites.
fn running_nonrerunnable_world() -> JobWorld {
    let mut spec = spec(2);
    spec.rerunnable = false;
    spec.on_unreachable = UnreachableAction::Wait;
    let mut world = JobWorld::new(spec);
    world.run_to_payloads();
    world
}

fn operator() -> KeyName {
    KeyName::new("operator").unwrap()
}

/// By the operator, with these sites silent.
fn abandon_command(sites: &[usize]) -> JobCommand {
    JobCommand::Abandon {
        by: operator(),
        silent: sites.iter().map(|&at| site(at)).collect(),
    }
}

fn look_with_removed_site(world: &mut JobWorld) -> Vec<&'static str> {
    let removed = vec![(ComponentIndex(0), world.now)];
    world.advance_secs(10_000_000);
    world
        .apply_command(JobCommand::Look(JobSurroundings {
            removed,
            ..JobSurroundings::default()
        }))
        .unwrap()
}

#[test]
fn a_cancelled_job_that_runs_once_waits_for_a_silent_site_until_abandoned() {
    let mut world = running_nonrerunnable_world();
    world.apply_command(JobCommand::Cancel(key())).unwrap();
    world.sight_attempt(1, AttemptSighting::Failed("ended by signal 15".into()));
    assert_eq!(
        look_with_removed_site(&mut world),
        Vec::<&str>::new(),
        "it may still run there"
    );
    assert_eq!(world.phase(), PhaseKind::Aborting);
    let names = world.apply_command(abandon_command(&[0])).unwrap();
    assert_eq!(names, ["AbortRedirected", "AttemptEnded", "JobCancelled"]);
    let left = &world.job.components[0].run;
    assert!(
        matches!(
            left,
            AttemptState::Ended {
                how: AttemptEnding::Abandoned,
                ..
            }
        ),
        "{left:?}"
    );
    let by = world.events.last().map(|event| event.what.clone());
    assert_eq!(
        by,
        Some(JobEventKind::JobCancelled { by: operator() }),
        "who insists answers for it"
    );
    assert_eq!(world.due_effects(), [], "nothing is done for it any more");
}

#[test]
fn what_may_run_at_sites_that_answer_is_ended_there_and_not_given_up() {
    let mut world = running_nonrerunnable_world();
    let names = world.apply_command(abandon_command(&[0])).unwrap();
    assert_eq!(names, ["RoundAborted", "AttemptEnded"]);
    assert_eq!(world.phase(), PhaseKind::Aborting);
    assert!(world.job.components[1].run.may_live());
    world.sight_attempt(1, AttemptSighting::Failed("ended by signal 15".into()));
    assert_eq!(world.phase(), PhaseKind::Cancelled);
}

#[test]
fn a_job_that_would_be_placed_again_is_not_once_it_was_abandoned() {
    let mut world = JobWorld::new(spec(2));
    world.run_to_payloads();
    world.sight_attempt(1, AttemptSighting::Vanished("its node failed".into()));
    let requeues = |world: &JobWorld| {
        matches!(
            world.job.phase,
            JobPhase::Aborting {
                then: AbortConsequence::Requeue { .. },
                ..
            }
        )
    };
    assert!(requeues(&world), "{:?}", world.job.phase);
    world.apply_command(abandon_command(&[0])).unwrap();
    assert!(
        !requeues(&world),
        "its payload may still run at the silent site"
    );
    world.record_charges();
    assert_eq!(world.phase(), PhaseKind::Cancelled);
}

#[test]
fn abandoning_is_cancelling_where_every_site_answers() {
    let mut world = running_nonrerunnable_world();
    assert_eq!(
        world.apply_command(abandon_command(&[])).unwrap(),
        ["RoundAborted"]
    );
    assert_eq!(
        world.apply_command(abandon_command(&[2])),
        Err(JobRejection::AlreadySo),
        "nothing of it is there"
    );
    world.sight_all(AttemptSighting::Vanished("killed".into()));
    assert_eq!(world.phase(), PhaseKind::Cancelled);
    assert_eq!(
        world.apply_command(abandon_command(&[0])),
        Err(JobRejection::AlreadySo)
    );
    let mut queued = JobWorld::new(spec(1));
    queued.apply_command(abandon_command(&[0])).unwrap();
    assert_eq!(queued.phase(), PhaseKind::Cancelled);
}
