//! What clients meet who come at once, and while the intake is behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cospan_domain::ids::{Digest, IdempotencyKey, JobId, KeyName};
use cospan_domain::job::job_state::SubmissionIdempotency;
use cospan_domain::job::spec::JobSpec;
use cospan_domain::units::Bytes;
use cospan_storage::record::job::MAX_SPEC_BYTES;
use futures_util::FutureExt;
use futures_util::future::join_all;

use crate::actor_settings::JobMemoryLimits;
use crate::api::ControlPlane;
use crate::commands::{ApiAnswer, ApiCommand, ApiRefusal, ApiRequest, JobSubmission, SubmittedJob};
use crate::transfer::testing::{MemoryWorld, content, key, queued_job, run_paused};

#[test]
fn an_intake_that_is_behind_turns_away_what_is_beyond_its_bound() {
    run_paused(|| async {
        let world = MemoryWorld::with_all_actors(&["Delft"]);
        world.settle().await;
        let plane = world.control_plane();
        let bound = world.shared.settings.intake_bound;
        // It has no turn in between.
        let answers = (0..bound + 10).map(|_| {
            let cancel = ApiCommand {
                by: key(),
                what: ApiRequest::Cancel(vec![JobId(1)]),
            };
            plane.execute_command(cancel).now_or_never()
        });
        let (turned_away, waiting): (Vec<_>, Vec<_>) = answers.partition(Option::is_some);
        assert_eq!(waiting.len(), bound);
        for answer in turned_away.into_iter().flatten() {
            assert!(matches!(answer, Err(ApiRefusal::Busy { .. })), "{answer:?}");
        }
    });
}

/// A job of one component with arguments of so many bytes.
fn submission_of_size(argument_bytes: usize) -> JobSubmission {
    let mut spec = JobSpec::clone(&queued_job(1, content(1)).spec);
    spec.components[0].inputs.clear();
    spec.components[0].resources.processors = 1;
    let arguments = vec!["a".repeat(argument_bytes).into()];
    spec.components[0]
        .program
        .change_program(|program| program.arguments = arguments);
    let submission = JobSubmission::from_spec(Arc::new(spec));
    JobSubmission {
        allow_unplaceable: true,
        ..submission
    }
}

fn with_idempotency_key(mut submission: JobSubmission, name: &str) -> JobSubmission {
    let key = IdempotencyKey::new(name).expect("a key");
    submission.idempotency = Some(SubmissionIdempotency {
        key,
        body: Digest([1; 32]),
    });
    submission
}

async fn submit(
    plane: &ControlPlane,
    by: KeyName,
    submissions: Vec<JobSubmission>,
) -> Result<Vec<SubmittedJob>, ApiRefusal> {
    match plane
        .execute_command(ApiCommand {
            by,
            what: ApiRequest::Submit(submissions),
        })
        .await?
    {
        ApiAnswer::Submitted(jobs) => Ok(jobs),
        other => panic!("{other:?}"),
    }
}

/// What became of requests of one job each that came in before the intake had its turn.
async fn submit_at_once(
    plane: &ControlPlane,
    submissions: impl IntoIterator<Item = JobSubmission>,
) -> Vec<Result<Vec<SubmittedJob>, ApiRefusal>> {
    let requests = submissions
        .into_iter()
        .map(|one| submit(plane, key(), vec![one]));
    join_all(requests).await
}

#[test]
fn requests_that_come_in_at_once_become_durable_together() {
    run_paused(|| async {
        let world = MemoryWorld::with_all_actors(&["Delft"]);
        world.settle().await;
        let plane = world.control_plane();
        // Of the ids that are reserved at first, so that none waits for more.
        submit_at_once(&plane, [submission_of_size(1)]).await;
        let before = world.shared.view.load().seq;
        let answers = submit_at_once(&plane, (0..20).map(submission_of_size)).await;
        let jobs: BTreeSet<JobId> = answers.into_iter().map(|a| a.unwrap()[0].id).collect();
        assert_eq!(jobs.len(), 20);
        let view = world.shared.view.load();
        assert!(jobs.iter().all(|job| view.jobs.contains_key(job)));
        assert_eq!(view.seq.0, before.0 + 1);
    });
}

#[test]
fn a_job_that_no_store_takes_is_refused_alone_and_with_the_reason() {
    run_paused(|| async {
        let world = MemoryWorld::with_all_actors(&["Delft"]);
        world.settle().await;
        let plane = world.control_plane();
        let large = submission_of_size(MAX_SPEC_BYTES + 1);
        let answers = submit_at_once(
            &plane,
            [submission_of_size(1), large.clone(), submission_of_size(2)],
        )
        .await;
        assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
        let Err(ApiRefusal::Invalid { index: 0, problem }) = &answers[1] else {
            panic!("{:?}", answers[1]);
        };
        assert!(problem.contains("cut the job up"), "{problem}");
        let what = ApiRequest::Submit(vec![submission_of_size(3), large]);
        let answer = plane.execute_command(ApiCommand { by: key(), what }).await;
        assert!(
            matches!(answer, Err(ApiRefusal::Invalid { index: 1, .. })),
            "{answer:?}"
        );
        assert_eq!(world.shared.view.load().jobs.len(), 2);
    });
}

#[test]
fn ids_that_no_job_got_are_given_back_when_the_server_stops() {
    run_paused(|| async {
        let world = MemoryWorld::with_all_actors(&["Delft"]);
        world.settle().await;
        let plane = world.control_plane();
        submit_at_once(&plane, [submission_of_size(1), submission_of_size(2)]).await;
        assert!(world.shared.view.load().next_id > JobId(3), "a whole block");
        plane.begin_stopping();
        plane.return_unused_ids().await;
        assert_eq!(world.shared.view.load().next_id, JobId(3));
    });
}

#[test]
fn who_repeats_a_request_being_refused_is_not_told_it_was_accepted() {
    run_paused(|| async {
        let world = MemoryWorld::with_all_actors(&["Delft"]);
        world.settle().await;
        let plane = world.control_plane();
        let large = with_idempotency_key(submission_of_size(MAX_SPEC_BYTES + 1), "mine");
        let answers = submit_at_once(&plane, [large.clone(), large.clone()]).await;
        assert!(
            matches!(answers[0], Err(ApiRefusal::Invalid { .. })),
            "{:?}",
            answers[0]
        );
        assert_eq!(answers[1], Err(ApiRefusal::Busy { retry_after_s: 1 }));
        let again = submit_at_once(&plane, [large]).await;
        assert!(
            matches!(again[0], Err(ApiRefusal::Invalid { .. })),
            "{:?}",
            again[0]
        );
    });
}

/// A world with room for so many jobs of [`submission_of_size`] in all, and so many of one key.
async fn world_with_room(in_all: u64, per_key: u64) -> (MemoryWorld, ControlPlane) {
    let Bytes(size) = submission_of_size(1).spec.memory_footprint();
    let job_memory = JobMemoryLimits {
        in_all: Bytes(in_all * size),
        per_key: Bytes(per_key * size),
    };
    let world = MemoryWorld::with_all_actors_and_settings(&["Delft"], |settings| {
        settings.job_memory = job_memory
    });
    world.settle().await;
    let plane = world.control_plane();
    (world, plane)
}

fn other_key() -> KeyName {
    KeyName::new("other").expect("a name")
}

fn no_room_text(answer: Result<Vec<SubmittedJob>, ApiRefusal>) -> String {
    match answer {
        Err(refusal @ ApiRefusal::NoRoom { .. }) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_key_that_has_no_room_is_refused_with_the_number_and_others_are_not() {
    run_paused(|| async {
        let (world, plane) = world_with_room(5, 3).await;
        let mine = submit_at_once(
            &plane,
            (0..3).map(|n| with_idempotency_key(submission_of_size(1), &n.to_string())),
        )
        .await;
        assert!(mine.iter().all(Result::is_ok), "{mine:?}");
        let refused = no_room_text(submit(&plane, key(), vec![submission_of_size(1)]).await);
        assert!(refused.contains("3 jobs of key"), "{refused}");
        assert!(
            refused.contains("`limits.max_job_memory_per_key`"),
            "{refused}"
        );
        let again = submit(
            &plane,
            key(),
            vec![with_idempotency_key(submission_of_size(1), "0")],
        )
        .await
        .unwrap();
        assert!(again[0].repeated, "the same job again takes no room");
        assert!(
            submit(
                &plane,
                other_key(),
                vec![submission_of_size(1), submission_of_size(1)]
            )
            .await
            .is_ok()
        );
        let refused = no_room_text(submit(&plane, other_key(), vec![submission_of_size(1)]).await);
        assert!(refused.contains("5 jobs take"), "{refused}");
        let metrics = &world.shared.metrics;
        assert_eq!(
            metrics.job_memory.taken.get(),
            metrics.job_memory.limit.get()
        );
    });
}

#[test]
fn a_request_larger_than_a_keys_room_is_refused_for_good_and_kept_nowhere() {
    run_paused(|| async {
        let (world, plane) = world_with_room(5, 3).await;
        let four = vec![submission_of_size(1); 4];
        let answer = submit(&plane, key(), four).await;
        assert!(
            matches!(answer, Err(ApiRefusal::NeverRoom { .. })),
            "{answer:?}"
        );
        let large = submit(&plane, key(), vec![submission_of_size(40_000)]).await;
        assert!(
            matches!(large, Err(ApiRefusal::NeverRoom { .. })),
            "a job is what it takes"
        );
        assert!(world.shared.view.load().jobs.is_empty());
        assert!(
            submit(&plane, key(), vec![submission_of_size(1); 3])
                .await
                .is_ok()
        );
    });
}

#[test]
fn jobs_that_ended_make_room_ten_minutes_later_if_there_is_none() {
    run_paused(|| async {
        let (world, plane) = world_with_room(5, 3).await;
        let jobs = submit(&plane, key(), vec![submission_of_size(1); 3])
            .await
            .unwrap();
        let what = ApiRequest::Cancel(jobs.iter().map(|job| job.id).collect());
        plane
            .execute_command(ApiCommand { by: key(), what })
            .await
            .unwrap();
        world
            .wait_until("all are cancelled", |world: &MemoryWorld| {
                world
                    .shared
                    .view
                    .load()
                    .jobs
                    .values()
                    .all(|job| job.is_final())
            })
            .await;
        no_room_text(submit(&plane, key(), vec![submission_of_size(1)]).await);
        assert_eq!(
            world.shared.view.load().jobs.len(),
            3,
            "their names are still known"
        );
        tokio::time::sleep(Duration::from_secs(601)).await;
        no_room_text(submit(&plane, key(), vec![submission_of_size(1)]).await);
        world
            .wait_until("they are archived", |w| {
                w.shared.view.load().jobs.is_empty()
            })
            .await;
        assert!(
            submit(&plane, key(), vec![submission_of_size(1); 3])
                .await
                .is_ok()
        );
    });
}

#[test]
fn what_no_store_takes_leaves_its_room_to_others() {
    run_paused(|| async {
        let (_world, plane) = world_with_room(5_000, 5_000).await;
        let before = plane.shared().metrics.job_memory.taken.get();
        let answer = submit(&plane, key(), vec![submission_of_size(MAX_SPEC_BYTES + 1)]).await;
        assert!(
            matches!(answer, Err(ApiRefusal::Invalid { .. })),
            "{answer:?}"
        );
        assert_eq!(plane.shared().metrics.job_memory.taken.get(), before);
    });
}
