//! What users ask of a job, in every phase that it can be in.

use super::job_world::*;
use crate::job::job_command::{AttemptSighting, JobCommand, JobRejection};
use crate::job::job_state::PhaseKind;
use crate::job::spec::Priority;

/// A job in this phase.
fn world_in(phase: PhaseKind) -> JobWorld {
    let mut world = match phase {
        PhaseKind::Collecting => JobWorld::new_collecting(spec(1), &["out"]),
        _ => JobWorld::new(spec(1)),
    };
    match phase {
        PhaseKind::Queued | PhaseKind::Collecting => {}
        PhaseKind::Placed => {
            let placements = world.placements(9_000);
            world
                .apply_command(JobCommand::Place {
                    placements,
                    by: None,
                })
                .unwrap();
        }
        PhaseKind::Claiming => world.place_job(),
        PhaseKind::Starting => {
            world.place_job();
            world.accept_all_submissions();
            world.sight_all(AttemptSighting::Ready("node1".into()));
        }
        PhaseKind::Cancelled => drop(world.apply_command(JobCommand::Cancel(key())).unwrap()),
        PhaseKind::Running | PhaseKind::Aborting | PhaseKind::Finished | PhaseKind::Failed => {
            world.run_to_payloads();
        }
    }
    let seen = match phase {
        PhaseKind::Finished => Some(AttemptSighting::Succeeded),
        PhaseKind::Failed => Some(AttemptSighting::Failed("exit code 1".into())),
        PhaseKind::Aborting => Some(AttemptSighting::Vanished("its node failed".into())),
        _ => None,
    };
    seen.map(|seen| world.sight_attempt(0, seen));
    assert_eq!(world.phase(), phase);
    world
}

#[test]
fn a_job_can_be_cancelled_in_every_phase_but_those_in_which_it_has_ended() {
    for phase in PhaseKind::ALL {
        let mut world = world_in(phase);
        let answer = world.apply_command(JobCommand::Cancel(key()));
        let after = match phase {
            PhaseKind::Queued | PhaseKind::Placed => Ok(PhaseKind::Cancelled),
            // Nothing lives any more: what is left are outputs.
            PhaseKind::Collecting => Ok(PhaseKind::Cancelled),
            PhaseKind::Claiming
            | PhaseKind::Starting
            | PhaseKind::Running
            | PhaseKind::Aborting => Ok(PhaseKind::Aborting),
            PhaseKind::Finished | PhaseKind::Failed => Err(JobRejection::Ended),
            PhaseKind::Cancelled => Err(JobRejection::AlreadySo),
        };
        assert_eq!(answer.map(|_| world.phase()), after, "{phase:?}");
    }
}

#[test]
fn the_class_of_a_job_alone_can_be_changed_until_it_has_ended() {
    for phase in PhaseKind::ALL {
        let mut world = world_in(phase);
        let before = world.job.clone();
        let answer = world.apply_command(JobCommand::SetPriority(Priority::High, key()));
        if phase.is_final() {
            assert_eq!(answer, Err(JobRejection::Ended), "{phase:?}");
            continue;
        }
        assert_eq!(answer.unwrap(), ["PriorityChanged"], "{phase:?}");
        assert_eq!((world.phase(), world.job.priority), (phase, Priority::High));
        assert_eq!(world.job.components, before.components, "{phase:?}");
        let again = world.apply_command(JobCommand::SetPriority(Priority::High, key()));
        assert_eq!(again, Err(JobRejection::AlreadySo), "{phase:?}");
    }
}
