//! What a job's actor decides first.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr};
use cospan_domain::claim::ClaimTry;
use cospan_domain::ids::{ComponentIndex, JobId, LrmId};
use cospan_domain::invariants::BrokenInvariant;
use cospan_domain::job::job_command::{JobCommand, JobSurroundings};
use cospan_domain::job::job_state::{AttemptEnding, AttemptState, Job, JobPhase};
use cospan_domain::job::spec::Priority;
use cospan_domain::placed::Placement;
use cospan_domain::units::{ClockSkew, DurationMs};
use cospan_sites::port::{AttemptObservation, ExitCause, PayloadExit, RunningPayload};
use cospan_storage::port::{MAX_CHANGES, MAX_VALUE_BYTES};

use super::job_external_state::tests::running_job_at;
use super::{JobActor, JobCommandMessage};
use crate::actor_registry::{DirtyFlag, LookAgain};
use crate::committed::JournalChange;
use crate::journal::{AppendChange, AppendError};
use crate::live_state::{AttemptObservations, LatestSiteReport};
use crate::supervision::{ActorId, LifeGuard};
use crate::transfer::testing::{MemoryWorld, content, key, run_paused, site};

const JOB: JobId = JobId(1);

fn recorded_job(world: &MemoryWorld) -> Arc<Job> {
    world.shared.view.load().jobs[&JOB].clone()
}

fn start_job_actor(world: &MemoryWorld) -> Addr<JobActor> {
    let supervisor = world.shared.supervisor.get().expect("a supervisor").clone();
    let guard = LifeGuard::new(ActorId::Job(JOB), supervisor);
    JobActor::new(
        world.shared.clone(),
        recorded_job(world),
        Arc::default(),
        false,
        DirtyFlag::default(),
        guard,
    )
    .start()
}

/// A job at delft, where its input is, which may claim now.
async fn claimable_world() -> MemoryWorld {
    let world = MemoryWorld::new(&["delft", "leiden", "twente"]);
    world.add_file("input", content(1), &["twente"]).await;
    world.place_job(JOB.0, content(1), "delft").await;
    let copy = (content(1).digest, site("delft"));
    world
        .wait_until("its input is at delft", |world| world.is_copy_ready(&copy))
        .await;
    let mut job = Job::clone(&recorded_job(&world));
    let now = world.shared.clock.now();
    job.instants.placed = Some(now);
    job.instants.start_estimate = Some(now);
    job.next_claim = Some(now);
    world.change_job(JOB.0, job).await;
    world
}

fn claim_at_leiden(job: &Job) -> JobCommand {
    let component = ComponentIndex(0);
    let placement = job.components[0].placement.clone().expect("it is placed");
    let attempt = ClaimTry {
        round: job.round,
        start: vec![component],
        moves: vec![(
            component,
            Placement {
                site: site("leiden"),
                ..placement
            },
        )],
        preempting: Vec::new(),
    };
    JobCommand::Claim(attempt, JobSurroundings::default())
}

#[test]
fn a_claim_that_came_during_a_write_is_decided_before_its_input_is_sought() {
    run_paused(async || {
        let world = claimable_world().await;
        let actor = start_job_actor(&world);
        let raised = actor.send(JobCommandMessage(JobCommand::SetPriority(
            Priority::High,
            key(),
        )));
        let claimed = actor.send(JobCommandMessage(claim_at_leiden(&recorded_job(&world))));
        actor.do_send(LookAgain);
        assert_eq!(
            (raised.await.unwrap(), claimed.await.unwrap()),
            (Ok(()), Ok(()))
        );
        let job = recorded_job(&world);
        let at = &job.components[0].placement.as_ref().unwrap().site;
        assert_eq!(
            (at, job.inputs_here),
            (&site("leiden"), false),
            "its input is still at delft"
        );
    });
}

#[test]
fn what_was_heard_of_a_held_job_is_taken_up_when_it_is_released() {
    run_paused(async || {
        let world = MemoryWorld::new(&["delft"]);
        world.place_job(JOB.0, content(1), "delft").await;
        let revision = recorded_job(&world).revision;
        let held = Some("it ended its actor again and again".into());
        world
            .change_job(
                JOB.0,
                Job {
                    revision,
                    held,
                    ..running_job_at("delft")
                },
            )
            .await;
        let actor = start_job_actor(&world);
        let tag = recorded_job(&world).latest_tag(world.shared.instance, ComponentIndex(0));
        let gone = AttemptObservation::Vanished {
            began: true,
            detail: "its node failed".into(),
        };
        let asked_at = world.shared.clock.now();
        let observed = Arc::new(AttemptObservations {
            asked_at,
            clock: ClockSkew(0),
            attempts: [(tag, gone)].into(),
        });
        let report = LatestSiteReport {
            observed,
            ..LatestSiteReport::default()
        };
        world
            .shared
            .live
            .publish_report(site("delft"), Arc::new(report));
        actor.send(LookAgain).await.unwrap();
        assert!(
            matches!(
                recorded_job(&world).components[0].run,
                AttemptState::Running { .. }
            ),
            "it is held"
        );
        actor
            .send(JobCommandMessage(JobCommand::Release(key())))
            .await
            .unwrap()
            .unwrap();
        world
            .wait_until("it is known to have ended", |world: &MemoryWorld| {
                matches!(
                    recorded_job(world).components[0].run,
                    AttemptState::Ended { .. }
                )
            })
            .await;
    });
}

/// A job that has just decided to start, with its only component at its gate.
async fn bring_to_start(world: &MemoryWorld) {
    world.place_job(JOB.0, content(1), "delft").await;
    let revision = recorded_job(world).revision;
    let now = world.shared.clock.now();
    let mut starting = Job {
        revision,
        ..running_job_at("delft")
    };
    starting.phase = JobPhase::Starting { since: now };
    let lrm_id = LrmId::new("7").expect("an id");
    starting.components[0].run = AttemptState::AtGate {
        lrm_id,
        host: "node".into(),
        since: now,
        clock: Some(ClockSkew(0)),
    };
    world.change_job(JOB.0, starting).await;
}

#[test]
fn an_opened_gate_is_asked_once_and_written_with_what_is_seen_next() {
    run_paused(async || {
        let world = MemoryWorld::new(&["delft"]);
        bring_to_start(&world).await;
        let before = recorded_job(&world);
        let actor = start_job_actor(&world);
        let opened = |world: &MemoryWorld| world.fake_site("delft").lock_state().opened.len();
        world
            .wait_until("its gate is open", |world| opened(world) == 1)
            .await;
        // Longer than between two tries of what is still due, shorter than it is waited for.
        tokio::time::sleep(Duration::from_secs(20)).await;
        actor.send(LookAgain).await.unwrap();
        assert_eq!(opened(&world), 1);
        assert_eq!(
            recorded_job(&world).revision,
            before.revision,
            "nothing was written for it"
        );
        let tag = before.latest_tag(world.shared.instance, ComponentIndex(0));
        let asked_at = world.shared.clock.now();
        let begun = AttemptObservation::Begun(RunningPayload {
            host: "node".into(),
            at: asked_at,
        });
        let observed = Arc::new(AttemptObservations {
            asked_at,
            clock: ClockSkew(0),
            attempts: [(tag, begun)].into(),
        });
        let report = LatestSiteReport {
            observed,
            ..LatestSiteReport::default()
        };
        world
            .shared
            .live
            .publish_report(site("delft"), Arc::new(report));
        actor.send(LookAgain).await.unwrap();
        world
            .wait_until("it runs", |world: &MemoryWorld| {
                matches!(recorded_job(world).phase, JobPhase::Running { .. })
            })
            .await;
        assert_eq!(recorded_job(&world).revision, before.revision + 1);
    });
}

#[test]
fn a_job_goes_on_whose_control_plane_started_again_while_its_clock_was_ahead() {
    run_paused(async || {
        let world = MemoryWorld::new(&["delft"]);
        world.place_job(JOB.0, content(1), "delft").await;
        let revision = recorded_job(&world).revision;
        let began = world.shared.clock.now();
        world
            .change_job(
                JOB.0,
                Job {
                    revision,
                    ..running_job_at("delft")
                },
            )
            .await;
        // Days by our clock; by the site's no time has passed.
        let ahead = DurationMs::from_secs(10 * 86_400);
        let asked_at = began + ahead;
        let clock = ClockSkew(-(ahead.0 as i64));
        let tag = recorded_job(&world).latest_tag(world.shared.instance, ComponentIndex(0));
        let seen = |what: AttemptObservation| {
            let attempts = [(tag, what)].into();
            let observed = Arc::new(AttemptObservations {
                asked_at,
                clock,
                attempts,
            });
            let report = LatestSiteReport {
                observed,
                ..LatestSiteReport::default()
            };
            world
                .shared
                .live
                .publish_report(site("delft"), Arc::new(report));
        };
        let actor = start_job_actor(&world);
        seen(AttemptObservation::Begun(RunningPayload {
            host: "node".into(),
            at: began,
        }));
        actor.send(LookAgain).await.unwrap();
        seen(AttemptObservation::Exited(PayloadExit {
            cause: ExitCause::Code(0),
            began_at: began,
            ended_at: began,
        }));
        actor.send(LookAgain).await.unwrap();
        world
            .wait_until("its end is known", |world: &MemoryWorld| {
                matches!(
                    recorded_job(world).components[0].run,
                    AttemptState::Ended { .. }
                )
            })
            .await;
        let AttemptState::Ended { how, .. } = &recorded_job(&world).components[0].run else {
            return;
        };
        assert_eq!(*how, AttemptEnding::Succeeded, "it was ended as overdue");
    });
}

#[test]
fn a_gate_open_before_its_actor_died_is_opened_again_and_the_job_goes_on() {
    run_paused(async || {
        let world = MemoryWorld::new(&["delft"]);
        bring_to_start(&world).await;
        let first = start_job_actor(&world);
        let opened = |times| {
            move |world: &MemoryWorld| world.fake_site("delft").lock_state().opened.len() == times
        };
        world.wait_until("its gate is open", opened(1)).await;
        drop(first);
        start_job_actor(&world);
        world
            .wait_until("its gate is opened by the next actor", opened(2))
            .await;
    });
}

#[test]
fn a_change_that_would_break_a_rule_is_not_made() {
    run_paused(async || {
        let world = MemoryWorld::new(&["delft"]);
        world.place_job(JOB.0, content(1), "delft").await;
        let old = recorded_job(&world);
        let mut new = Job::clone(&old);
        new.revision += 1;
        new.components[0].placement = None;
        let change = JournalChange::Job {
            old: old.clone(),
            new: Arc::new(new),
            events: Vec::new(),
        };
        let answer = world.shared.journal().send(AppendChange(change)).await;
        let broken = AppendError::Broken(BrokenInvariant::NoPlace);
        assert_eq!(answer.unwrap(), Err(broken));
        assert_eq!(recorded_job(&world), old);
    });
}

#[test]
fn a_job_whose_change_is_more_than_the_store_takes_is_held_with_the_reason() {
    run_paused(async || {
        let world = MemoryWorld::new(&["delft"]);
        world.place_job(JOB.0, content(1), "delft").await;
        let actor = start_job_actor(&world);
        // What it says of itself goes into the record, and is longer than any record may be.
        let reason = "x".repeat(MAX_CHANGES * MAX_VALUE_BYTES);
        let asked = actor
            .send(JobCommandMessage(JobCommand::Hold(reason.into())))
            .await
            .unwrap();
        assert!(asked.is_err(), "{asked:?}");
        world
            .wait_until("it is held", |world| recorded_job(world).held.is_some())
            .await;
        let held = recorded_job(&world).held.clone().unwrap();
        assert!(
            held.contains("at most 128") && held.contains("`cospan cancel`"),
            "{held}"
        );
    });
}
