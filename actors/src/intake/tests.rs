//! What clients meet who come at once, and while the intake is behind.

use std::collections::BTreeSet;
use std::sync::Arc;

use cospan_domain::ids::{Digest, IdempotencyKey, JobId};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::job::state::Idempotency;
use cospan_storage::record::job::MAX_SPEC_BYTES;
use futures_util::FutureExt;
use futures_util::future::join_all;

use crate::api::ControlPlane;
use crate::api::command::{ApiAnswer, ApiCommand, ApiRefusal, Ask, Submission, SubmittedJob};
use crate::transfer::testing::{World, content, key, paused, queued};

#[test]
fn an_intake_that_is_behind_turns_away_what_is_beyond_its_bound() {
    paused(|| async {
        let world = World::complete(&["Delft"]);
        world.settle().await;
        let plane = ControlPlane::new(world.shared.clone());
        let bound = world.shared.settings.intake_bound;
        // It has no turn in between.
        let answers = (0..bound + 10).map(|_| {
            let cancel = ApiCommand { by: key(), what: Ask::Cancel(vec![JobId(1)]) };
            plane.command(cancel).now_or_never()
        });
        let (turned_away, waiting): (Vec<_>, Vec<_>) = answers.partition(Option::is_some);
        assert_eq!(waiting.len(), bound);
        for answer in turned_away.into_iter().flatten() {
            assert!(matches!(answer, Err(ApiRefusal::Busy { .. })), "{answer:?}");
        }
    });
}

/// A job of one component with arguments of so many bytes.
fn submission(argument_bytes: usize) -> Submission {
    let mut spec = JobSpec::clone(&queued(1, content(1)).spec);
    spec.components[0].inputs.clear();
    spec.components[0].resources.processors = 1;
    spec.components[0].program.arguments = vec!["a".repeat(argument_bytes).into()];
    let submission = Submission::of(Arc::new(spec));
    Submission { allow_unplaceable: true, ..submission }
}

fn named(mut submission: Submission, name: &str) -> Submission {
    let key = IdempotencyKey::new(name).expect("a key");
    submission.idempotency = Some(Idempotency { key, body: Digest([1; 32]) });
    submission
}

/// What became of requests of one job each that came in before the intake had its turn.
async fn at_once(
    plane: &ControlPlane,
    submissions: impl IntoIterator<Item = Submission>,
) -> Vec<Result<Vec<SubmittedJob>, ApiRefusal>> {
    let submit = |submission| async move {
        let what = Ask::Submit(vec![submission]);
        match plane.command(ApiCommand { by: key(), what }).await? {
            ApiAnswer::Submitted(jobs) => Ok(jobs),
            other => panic!("{other:?}"),
        }
    };
    join_all(submissions.into_iter().map(submit)).await
}

#[test]
fn requests_that_come_in_at_once_become_durable_together() {
    paused(|| async {
        let world = World::complete(&["Delft"]);
        world.settle().await;
        let plane = ControlPlane::new(world.shared.clone());
        // Of the ids that are reserved at first, so that none waits for more.
        at_once(&plane, [submission(1)]).await;
        let before = world.shared.view.load().seq;
        let answers = at_once(&plane, (0..20).map(submission)).await;
        let jobs: BTreeSet<JobId> = answers.into_iter().map(|a| a.unwrap()[0].id).collect();
        assert_eq!(jobs.len(), 20);
        let view = world.shared.view.load();
        assert!(jobs.iter().all(|job| view.jobs.contains_key(job)));
        assert_eq!(view.seq.0, before.0 + 1);
    });
}

#[test]
fn a_job_that_no_store_takes_is_refused_alone_and_with_the_reason() {
    paused(|| async {
        let world = World::complete(&["Delft"]);
        world.settle().await;
        let plane = ControlPlane::new(world.shared.clone());
        let large = submission(MAX_SPEC_BYTES + 1);
        let answers = at_once(&plane, [submission(1), large.clone(), submission(2)]).await;
        assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
        let Err(ApiRefusal::Invalid { index: 0, problem }) = &answers[1] else {
            panic!("{:?}", answers[1]);
        };
        assert!(problem.contains("cut the job up"), "{problem}");
        let what = Ask::Submit(vec![submission(3), large]);
        let answer = plane.command(ApiCommand { by: key(), what }).await;
        assert!(matches!(answer, Err(ApiRefusal::Invalid { index: 1, .. })), "{answer:?}");
        assert_eq!(world.shared.view.load().jobs.len(), 2);
    });
}

#[test]
fn who_repeats_a_request_being_refused_is_not_told_it_was_accepted() {
    paused(|| async {
        let world = World::complete(&["Delft"]);
        world.settle().await;
        let plane = ControlPlane::new(world.shared.clone());
        let large = named(submission(MAX_SPEC_BYTES + 1), "mine");
        let answers = at_once(&plane, [large.clone(), large.clone()]).await;
        assert!(matches!(answers[0], Err(ApiRefusal::Invalid { .. })), "{:?}", answers[0]);
        assert_eq!(answers[1], Err(ApiRefusal::Busy { retry_after_s: 1 }));
        let again = at_once(&plane, [large]).await;
        assert!(matches!(again[0], Err(ApiRefusal::Invalid { .. })), "{:?}", again[0]);
    });
}
