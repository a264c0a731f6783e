//! Jobs whose site left the configuration, or whose outputs are not taken.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cospan_domain::catalogue::file_state::{CatalogueEntry, FileRecord};
use cospan_domain::ids::{Attempt, ComponentIndex, JobId, KeyName, LrmId};
use cospan_domain::job::decide::decide;
use cospan_domain::job::job_command::JobCommand;
use cospan_domain::job::job_event::JobEventKind;
use cospan_domain::job::job_state::{AbortCause, AttemptState, Component, Job, JobPhase};
use cospan_domain::job::spec::{JobSpec, UnreachableAction};
use cospan_domain::placed::Placement;
use cospan_domain::transfer::copy_state::CopyPhase;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::{DurationMs, Timestamp};

use super::{external_state, next_silent_site_look};
use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::supervision::ActorKind;
use crate::transfer::testing::{MemoryWorld, content, name, path, queued_job, run_paused, site};

const PATIENCE: DurationMs = DurationMs::from_secs(1_800);

/// A job that began long before our start, at a site that may be none of ours.
pub(in crate::job) fn running_job_at(name: &str) -> Job {
    let mut job = queued_job(1, content(1));
    let on_unreachable = UnreachableAction::RerunAfter(PATIENCE);
    job.spec = Arc::new(JobSpec {
        on_unreachable,
        ..JobSpec::clone(&job.spec)
    });
    let placement = Placement {
        site: site(name),
        sources: Vec::new(),
        transfer_time: DurationMs::ZERO,
        share: None,
        acquisition: Default::default(),
    };
    job.phase = JobPhase::Running {
        since: Timestamp(2),
    };
    job.start_at = Some(Timestamp(1));
    job.inputs_here = true;
    job.components = vec![Component {
        placement: Some(placement),
        attempt: Attempt(1),
        run: AttemptState::Running {
            lrm_id: LrmId::new("7").expect("an id"),
            host: "node".into(),
            since: Timestamp(2),
        },
        ..Component::default()
    }];
    job
}

fn events_of_look(shared: &SharedState, job: &Job) -> Vec<JobEventKind> {
    let look = JobCommand::Look(external_state(shared, job));
    let events = decide(job, &shared.settings.job, look, shared.clock.now()).expect("a look");
    events.into_iter().map(|event| event.what).collect()
}

#[test]
fn a_job_at_a_removed_site_is_given_up_after_its_patience_since_our_start() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft"]);
        let job = running_job_at("Leiden");
        let started_at = world.shared.started_at;
        assert_eq!(
            events_of_look(&world.shared, &job),
            [],
            "its payload may still run"
        );
        assert_eq!(
            next_silent_site_look(&world.shared, &job),
            Some(started_at + PATIENCE)
        );
        tokio::time::sleep(Duration::from_millis(PATIENCE.0)).await;
        let events = events_of_look(&world.shared, &job);
        let cause = events.iter().find_map(|event| match event {
            JobEventKind::RoundAborted {
                why: AbortCause::SiteError { component, detail },
                ..
            } => Some((*component, detail.to_string())),
            _ => None,
        });
        let (component, detail) = cause.expect("it is given up, and the cause is named");
        assert_eq!(component, ComponentIndex(0));
        assert!(
            detail.contains("site Leiden is no longer in the configuration"),
            "{detail}"
        );
    });
}

#[test]
fn a_job_at_a_site_of_ours_that_has_not_answered_yet_is_left_alone() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft"]);
        let external = external_state(&world.shared, &running_job_at("Delft"));
        assert_eq!(
            (external.removed, external.unreachable),
            (Vec::new(), Vec::new())
        );
    });
}

#[test]
fn an_output_is_given_up_once_its_site_refused_it_often_enough() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        let tries = world.shared.settings.transfer.max_output_tries;
        let key = (content(1).digest, site("Leiden"));
        let tried =
            |world: &MemoryWorld| world.copy_record(&key).map_or(0, |copy| copy.trouble.tries);
        world.fake_site("Leiden").lock_state().full = true;
        world
            .add_collecting_job(5, content(1), "Delft", "Leiden")
            .await;
        let job = || world.shared.view.load().jobs[&JobId(5)].clone();
        let waits = |world: &MemoryWorld| {
            world
                .copy_record(&key)
                .is_some_and(|copy| matches!(copy.phase, CopyPhase::Waiting { .. }))
        };
        world
            .wait_until("an input would be given up", |world: &MemoryWorld| {
                world
                    .copy_record(&key)
                    .is_some_and(|copy| copy.loss_reason().is_some())
            })
            .await;
        assert_eq!(events_of_look(&world.shared, &job()), []);
        world
            .wait_until("almost", |world| tried(world) == tries - 1 && waits(world))
            .await;
        assert_eq!(events_of_look(&world.shared, &job()), []);
        world
            .wait_until("it is enough", |world| {
                tried(world) == tries && waits(world)
            })
            .await;
        let events = events_of_look(&world.shared, &job());
        let [JobEventKind::JobFailed { reason }] = &events[..] else {
            panic!("{events:?}")
        };
        assert!(
            reason.contains("cannot be brought to site Leiden"),
            "{reason}"
        );
    });
}

#[test]
fn an_output_whose_name_another_key_took_ends_its_job() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world
            .add_collecting_job(5, content(1), "Delft", "Leiden")
            .await;
        let job = world.shared.view.load().jobs[&JobId(5)].clone();
        let register = async |by: &str| {
            let by = KeyName::new(by).expect("a name");
            let mut record = FileRecord::new(name("result"));
            let old = world.shared.view.load().files.get(&record.name).cloned();
            let entry = CatalogueEntry {
                content: content(2),
                directory: false,
                replicas: vec![(site("Delft"), FilePlace::User(path("a")))],
                registered_at: Timestamp(1),
                registered_by: by,
                stamps: BTreeMap::new(),
            };
            record.entry = Some(entry);
            let name = record.name.clone();
            let new = Some(Arc::new(record));
            world.append(JournalChange::File { name, old, new }).await;
        };
        register(job.owner.as_str()).await;
        assert_eq!(
            events_of_look(&world.shared, &job),
            [],
            "it takes the place of the owner's own file"
        );
        register("otto").await;
        let events = events_of_look(&world.shared, &job);
        let [JobEventKind::JobFailed { reason }] = &events[..] else {
            panic!("{events:?}")
        };
        assert!(
            reason.contains("the name \"result\" is that of another key's file"),
            "{reason}"
        );
    });
}

#[test]
fn what_runs_at_a_site_that_is_out_of_order_and_tells_so_is_not_given_up() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world.settle().await;
        world.fake_site("Leiden").lock_state().trouble = Some("no space left on device");
        world.shared.live.set_placement_awaited(true);
        world.shared.actors.request_look_of_all(ActorKind::Cluster);
        let report = |world: &MemoryWorld| {
            world
                .shared
                .live
                .site_report(&site("Leiden"))
                .expect("a report")
        };
        world
            .wait_until("nothing new goes there", |world: &MemoryWorld| {
                report(world).contact.unreachable_since().is_some()
            })
            .await;
        tokio::time::sleep(Duration::from_millis(2 * PATIENCE.0)).await;
        let running = running_job_at("Leiden");
        let since = Timestamp(2);
        let collecting = Job {
            phase: JobPhase::Collecting { since },
            ..running.clone()
        };
        for job in [&running, &collecting] {
            let external = external_state(&world.shared, job);
            assert_eq!(external.unreachable, [], "it tells what runs there");
        }
        world.fake_site("Leiden").lock_state().up = false;
        world
            .wait_until("it tells nothing any more", |world| !report(world).tells)
            .await;
        assert_eq!(
            events_of_look(&world.shared, &running),
            [],
            "it is silent since just now"
        );
        tokio::time::sleep(Duration::from_millis(PATIENCE.0)).await;
        assert!(
            events_of_look(&world.shared, &running)
                .iter()
                .any(|event: &JobEventKind| matches!(event, JobEventKind::RoundAborted { .. }))
        );
    });
}
