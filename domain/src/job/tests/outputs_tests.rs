//! What jobs leave, and what becomes of them while it is collected.

use super::job_world::{JobWorld, key, spec};
use super::stories::look_unreachable;
use crate::content::Content;
use crate::ids::{ComponentIndex, Digest, RelPath};
use crate::job::job_command::{JobCommand, JobRejection, JobSurroundings};
use crate::job::job_due::JobEffectKind;
use crate::job::job_state::{JobPhase, PhaseKind};
use crate::job::spec::{OutputDestination, OutputSpec};
use crate::units::Bytes;

#[test]
fn a_missing_output_is_the_jobs_own_error() {
    let mut world = JobWorld::new_collecting(spec(1), &["out"]);
    assert_eq!(world.due_effects(), [JobEffectKind::ReadOutput(0)]);
    let component = ComponentIndex(0);
    let output = 0;
    let content = Err("it is more than 128 levels deep".into());
    world
        .apply_command(JobCommand::OutputRead {
            component,
            output,
            content,
        })
        .unwrap();
    assert_eq!(world.phase(), PhaseKind::Failed);
    let JobPhase::Failed { reason, .. } = &world.job.phase else {
        panic!("{:?}", world.job.phase)
    };
    assert!(
        reason.contains("out that can be kept: it is more than 128 levels"),
        "{reason}"
    );
}

#[test]
fn outputs_are_collected_before_the_job_is_finished() {
    let mut world = JobWorld::new_collecting(spec(1), &["out"]);
    let component = ComponentIndex(0);
    let output = 0;
    let content = Ok(Content {
        digest: Digest([9; 32]),
        size: Bytes(5),
    });
    world
        .apply_command(JobCommand::OutputRead {
            component,
            output,
            content,
        })
        .unwrap();
    assert_eq!(world.due_effects(), [JobEffectKind::RegisterOutput(0)]);
    assert_eq!(world.phase(), PhaseKind::Collecting);
    world
        .apply_command(JobCommand::OutputRegistered { component, output })
        .unwrap();
    assert_eq!(world.phase(), PhaseKind::Finished);
}

#[test]
fn a_collecting_job_minds_a_silent_site_only_if_it_has_outputs_to_come() {
    let mut asked = spec(2);
    let path = RelPath::new("log").unwrap();
    let collect = OutputDestination::Fetch;
    asked.components[1]
        .outputs
        .push(OutputSpec { path, collect });
    let mut world = JobWorld::new_collecting(asked, &["out"]);
    assert_eq!(world.phase(), PhaseKind::Collecting);
    let component = ComponentIndex(1);
    world
        .apply_command(JobCommand::OutputsStay { component })
        .unwrap();
    assert_eq!(
        look_unreachable(&mut world, 1, 7_200),
        [""; 0],
        "whoever fetches it will wait"
    );
    assert!(look_unreachable(&mut world, 0, 7_200).contains(&"RoundAborted"));
}

/// A collecting job with two outputs that stay.
fn with_staying_outputs() -> JobWorld {
    let mut asked = spec(2);
    for path in ["log", "table"] {
        let path = RelPath::new(path).unwrap();
        let collect = OutputDestination::Fetch;
        let output = OutputSpec { path, collect };
        asked.components[1].outputs.push(output);
    }
    JobWorld::new_collecting(asked, &[])
}

#[test]
fn a_job_is_finished_once_its_outputs_that_stay_were_seen() {
    let mut world = with_staying_outputs();
    assert_eq!(world.phase(), PhaseKind::Collecting);
    assert_eq!(
        world.due_effects(),
        [JobEffectKind::ReadOutput(1)],
        "one for both"
    );
    let seen = JobCommand::OutputsStay {
        component: ComponentIndex(1),
    };
    let events = world.apply_command(seen.clone()).unwrap();
    assert_eq!(events, ["OutputsSeen", "JobFinished"]);
    assert_eq!(world.apply_command(seen), Err(JobRejection::Stale));
}

#[test]
fn a_missing_output_that_was_to_stay_is_the_jobs_own_error() {
    let mut world = with_staying_outputs();
    world
        .apply_command(JobCommand::OutputRead {
            component: ComponentIndex(1),
            output: 0,
            content: Err("there is none".into()),
        })
        .unwrap();
    let JobPhase::Failed { reason, .. } = &world.job.phase else {
        panic!("{:?}", world.job.phase)
    };
    assert!(reason.contains("left no output log"), "{reason}");
    assert_eq!(world.job.setbacks.own_errors, 1);
}

#[test]
fn a_job_with_lost_outputs_fails_once_nothing_else_is_on_its_way() {
    let mut world = JobWorld::new_collecting(spec(1), &["one", "two", "three"]);
    let component = ComponentIndex(0);
    for output in 0..2 {
        let digest = Digest([output as u8; 32]);
        let content = Ok(Content {
            digest,
            size: Bytes(5),
        });
        world
            .apply_command(JobCommand::OutputRead {
                component,
                output,
                content,
            })
            .unwrap();
    }
    let full = |outputs: &[u32]| {
        let stranded = outputs
            .iter()
            .map(|output| (component, *output, "disk is full".into()));
        JobCommand::Look(JobSurroundings {
            stranded: stranded.collect(),
            ..JobSurroundings::default()
        })
    };
    assert_eq!(
        world.apply_command(full(&[0])).unwrap(),
        [""; 0],
        "two are on their way"
    );
    world
        .apply_command(JobCommand::OutputRegistered {
            component,
            output: 1,
        })
        .unwrap();
    assert_eq!(
        world.apply_command(full(&[0])).unwrap(),
        [""; 0],
        "one is not read yet"
    );
    let content = Ok(Content {
        digest: Digest([7; 32]),
        size: Bytes(5),
    });
    world
        .apply_command(JobCommand::OutputRead {
            component,
            output: 2,
            content,
        })
        .unwrap();
    world
        .apply_command(JobCommand::Hold("it panics".into()))
        .unwrap();
    assert_eq!(
        world.apply_command(full(&[0, 2])),
        Err(JobRejection::Stale),
        "it is held"
    );
    world.apply_command(JobCommand::Release(key())).unwrap();
    assert_eq!(world.apply_command(full(&[0, 2])).unwrap(), ["JobFailed"]);
    let JobPhase::Failed { reason, .. } = &world.job.phase else {
        panic!("{:?}", world.job.phase)
    };
    for word in [
        "output one",
        "disk is full (1 more outputs likewise)",
        "`cospan output`",
    ] {
        assert!(reason.contains(word), "{reason}");
    }
    assert_eq!(
        (world.due_effects(), world.job.setbacks.own_errors),
        (vec![], 0)
    );
    let mut running = JobWorld::new(spec(1));
    running.run_to_payloads();
    assert_eq!(
        running.apply_command(full(&[0])).unwrap(),
        [""; 0],
        "it has left nothing yet"
    );
}
