//! Requests that come in at once become durable together, however many there are of them, and each
//! has numbers in a row in the order in which they came. Equal jobs are kept once. A request that
//! is more than the store takes is refused alone; where there are too many, the rest are asked to
//! come back, at once.

use std::sync::Arc;

use anyhow::{Result, bail};
use cospan_actors::api::command::{ApiAnswer, ApiRefusal, ApiRequest, JobSubmission, SubmittedJob};
use cospan_actors::journal::JournalChange;
use cospan_domain::ids::{Digest, IdempotencyKey, JobId};
use cospan_domain::job::job_state::SubmissionIdempotency;
use cospan_domain::job::spec::JobSpec;
use cospan_domain::runner::SweepTask;
use cospan_domain::units::DurationMs;
use futures_util::future::join_all;
use rand::Rng;
use rand::rngs::StdRng;

use super::Play;
use super::stage::{SceneStage, StagedScene};
use super::tidy::check_at_rest;
use cospan_simulator::call_faults::FaultRates;
use cospan_simulator::jobs::build_job;

/// Jobs that become durable by one change, unless one request has more.
const TOGETHER: usize = 64;
/// Different specifications among which an equal one is looked for.
const KEPT: usize = 8;

/// Plays one of the stories, as drawn.
pub(super) fn play_together(chance: &mut StdRng) -> Result<Vec<String>> {
    let stories: [Play; 6] = [
        play_crowd,
        play_few,
        play_few,
        play_busy,
        play_busy,
        play_oversized,
    ];
    stories[chance.random_range(0..stories.len())](chance)
}

/// Makes a job for which there is no room.
fn unplaceable_job(processors: u32) -> Result<JobSubmission> {
    let spec = build_job(&[processors], DurationMs(1_000), DurationMs(2_000), 0)?;
    Ok(JobSubmission {
        allow_unplaceable: true,
        ..JobSubmission::from_spec(Arc::new(spec))
    })
}

type JointAnswer = Result<ApiAnswer, ApiRefusal>;

async fn ask_all(scene: &StagedScene, requests: Vec<Vec<JobSubmission>>) -> Vec<JointAnswer> {
    join_all(
        requests
            .into_iter()
            .map(|request| scene.ask(ApiRequest::Submit(request))),
    )
    .await
}

fn expected_rows(first: u64, sizes: &[usize]) -> Vec<JointAnswer> {
    let mut next = first;
    sizes
        .iter()
        .map(|size: &usize| {
            let ids = next..next + *size as u64;
            next = ids.end;
            Ok(ApiAnswer::Submitted(
                ids.map(|id| SubmittedJob {
                    id: JobId(id),
                    repeated: false,
                    group: None,
                })
                .collect(),
            ))
        })
        .collect()
}

/// Lists how many jobs each change brought.
fn jobs_per_change(scene: &StagedScene) -> Vec<usize> {
    scene
        .changes()
        .iter()
        .filter_map(|(_, change)| match &**change {
            JournalChange::NewJobs(jobs) => Some(jobs.len()),
            _ => None,
        })
        .collect()
}

/// Groups requests of these sizes, taken up in order, as they become durable.
fn group_requests(sizes: &[usize]) -> Vec<usize> {
    let mut groups: Vec<usize> = Vec::new();
    for size in sizes {
        match groups.last_mut() {
            Some(last) if *last + size <= TOGETHER => *last += size,
            _ => groups.push(*size),
        }
    }
    groups
}

/// Submits many jobs: their numbers are reserved by a large request before.
fn play_crowd(chance: &mut StdRng) -> Result<Vec<String>> {
    let stage = SceneStage::with_processors(&[2], chance.random())?;
    // The block after this request is twice as large.
    let first = chance.random_range(65..=70);
    let sizes: Vec<usize> = if chance.random_bool(0.5) {
        vec![40, TOGETHER - 40, 1, 20]
    } else {
        vec![
            chance.random_range(30..=64),
            chance.random_range(20..=40),
            20,
        ]
    };
    stage.play_scene(move |scene| async move {
        scene.pass(DurationMs(1_000)).await;
        let large = ask_all(&scene, vec![vec![unplaceable_job(5)?; first]]).await;
        scene.check_same("a large request", large, expected_rows(1, &[first]));
        scene.pass(DurationMs(100)).await;
        let at = scene.now();
        let requests = sizes
            .iter()
            .map(|size| Ok(vec![unplaceable_job(5)?; *size]));
        let answers = ask_all(&scene, requests.collect::<Result<_>>()?).await;
        scene.check_same("when a crowd was answered", scene.now(), at);
        scene.check_same("a crowd", answers, expected_rows(first as u64 + 1, &sizes));
        scene.pass(DurationMs(0)).await;
        let should = [vec![first], group_requests(&sizes)].concat();
        scene.check_same(
            "what became durable together",
            jobs_per_change(&scene),
            should,
        );
        check_at_rest(&scene).await;
        Ok(())
    })
}

/// Submits a few of different kinds: sweeps are named by their first run, equal jobs are one in
/// memory.
fn play_few(chance: &mut StdRng) -> Result<Vec<String>> {
    let stage = SceneStage::with_processors(&[2], chance.random())?;
    let sizes: Vec<usize> = (0..3).map(|_| chance.random_range(1..=6)).collect();
    let sweeps: Vec<u32> = (0..2).map(|_| chance.random_range(1..=4)).collect();
    stage.play_scene(move |scene| async move {
        scene.pass(DurationMs(1_000)).await;
        let requests = sizes
            .iter()
            .map(|size| Ok(vec![unplaceable_job(5)?; *size]));
        let answers = ask_all(&scene, requests.collect::<Result<_>>()?).await;
        scene.check_same("requests at once", answers, expected_rows(1, &sizes));
        scene.pass(DurationMs(0)).await;
        scene.check_same(
            "jobs appended",
            jobs_per_change(&scene),
            vec![sizes.iter().sum()],
        );
        let next = sizes.iter().sum::<usize>() as u64 + 1;
        check_sweeps(&scene, next, &sweeps).await?;
        check_shared(&scene).await?;
        check_at_rest(&scene).await;
        Ok(())
    })
}

/// Checks sweeps of one request, and a job of none behind them.
async fn check_sweeps(scene: &StagedScene, next: u64, counts: &[u32]) -> Result<()> {
    let mut all = Vec::new();
    let mut should = Vec::new();
    let mut id = next;
    for count in counts {
        let group = JobId(id);
        for index in 0..*count {
            let mut submission = unplaceable_job(6)?;
            let mut spec = JobSpec::clone(&submission.spec);
            let count = *count;
            let values = Default::default();
            spec.run.task = Some(SweepTask {
                group: JobId(0),
                index,
                count,
                at_once: None,
                values,
            });
            submission.spec = Arc::new(spec);
            all.push(submission);
            should.push(SubmittedJob {
                id: JobId(id),
                repeated: false,
                group: Some(group),
            });
            id += 1;
        }
    }
    all.push(unplaceable_job(6)?);
    should.push(SubmittedJob {
        id: JobId(id),
        repeated: false,
        group: None,
    });
    let answer = scene.ask(ApiRequest::Submit(all)).await?;
    scene.check_same("sweeps", answer, ApiAnswer::Submitted(should.clone()));
    for submitted in should {
        let job = scene.job_record(submitted.id)?;
        let group = job.spec.run.task.as_ref().map(|task| task.group);
        scene.check_same("the sweep that a job is of", group, submitted.group);
    }
    Ok(())
}

/// Checks that among the last few specifications an equal one is found, and shared; not an unequal
/// one.
async fn check_shared(scene: &StagedScene) -> Result<()> {
    let mut specs = Vec::new();
    for size in 10..10 + KEPT as u32 {
        specs.push(kept_specification(scene, size).await?);
    }
    for (size, spec) in (10..).zip(&specs) {
        let again = kept_specification(scene, size).await?;
        scene.check(Arc::ptr_eq(spec, &again), || {
            format!("a job of {size} is kept twice")
        });
        scene.check_same(
            "its processors",
            again.components[0].resources.processors,
            size,
        );
    }
    kept_specification(scene, 99).await?;
    let oldest = kept_specification(scene, 10).await?;
    scene.check(!Arc::ptr_eq(&specs[0], &oldest), || {
        format!("more than {KEPT} are compared")
    });
    let newer = kept_specification(scene, 12).await?;
    scene.check(Arc::ptr_eq(&specs[2], &newer), || {
        format!("fewer than {KEPT} are compared")
    });
    Ok(())
}

async fn kept_specification(scene: &StagedScene, processors: u32) -> Result<Arc<JobSpec>> {
    match scene
        .ask(ApiRequest::Submit(vec![unplaceable_job(processors)?]))
        .await?
    {
        ApiAnswer::Submitted(jobs) => Ok(scene.job_record(jobs[0].id)?.spec.clone()),
        other => bail!("a submission came to {other:?}"),
    }
}

/// Checks that while the disk is slow, as many commands as are bounded wait; whoever comes then
/// gets an answer at once, and may come back.
fn play_busy(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[2], chance.random())?;
    let bound = chance.random_range(1..=6);
    stage.settings.intake_bound = bound;
    stage.fault_rates = FaultRates {
        sync_max: DurationMs(1_000_000),
        ..FaultRates::default()
    };
    stage.play_scene(move |scene| async move {
        let requests = vec![vec![unplaceable_job(5)?]; bound];
        let asked = scene.now();
        let full = ApiRefusal::Busy { retry_after_s: 1 };
        let all = ask_all(&scene, requests);
        let late = async {
            scene.pass(DurationMs(1)).await;
            if scene.plane_run.plane.view().jobs.is_empty() {
                let depth = &scene.plane_run.plane.shared().metrics.mailbox_depth;
                let depth = depth.with_label_values(&["intake"]).get();
                scene.check_same("commands under way", depth, bound as i64);
                let at = scene.now();
                let answer = scene
                    .ask(ApiRequest::Submit(vec![unplaceable_job(5)?]))
                    .await;
                scene.check_same("one too many", answer, Err(full.clone()));
                let order = scene.ask(ApiRequest::Freeze(vec![JobId(1)])).await;
                scene.check_same("an order too many", order, Err(full));
                scene.check_same("when they were refused", scene.now(), at);
            }
            Ok::<_, anyhow::Error>(())
        };
        let (answers, late) = tokio::join!(all, late);
        late?;
        scene.check_same(
            "those that were taken",
            answers,
            expected_rows(1, &vec![1; bound]),
        );
        scene.check(scene.now() >= asked, || "time went back".into());
        check_at_rest(&scene).await;
        let again = scene
            .ask(ApiRequest::Submit(vec![unplaceable_job(5)?]))
            .await;
        scene.check_same(
            "one that came back",
            vec![again],
            expected_rows(bound as u64 + 1, &[1]),
        );
        check_at_rest(&scene).await;
        Ok(())
    })
}

/// Checks one request that has more than the store takes, while others come in with it.
fn play_oversized(chance: &mut StdRng) -> Result<Vec<String>> {
    let stage = SceneStage::with_processors(&[2], chance.random())?;
    let before = chance.random_range(0..=2);
    stage.play_scene(move |scene| async move {
        scene.pass(DurationMs(1_000)).await;
        let mut large = unplaceable_job(5)?;
        let mut spec = JobSpec::clone(&large.spec);
        let long = "x".repeat(2 << 20).into();
        spec.components[0]
            .program
            .change_program(|program| program.arguments.push(long));
        large.spec = Arc::new(spec);
        let key = IdempotencyKey::new("large")?;
        let name = Some(SubmissionIdempotency {
            key,
            body: Digest([1; 32]),
        });
        large.idempotency = name.clone();
        let mut with = vec![unplaceable_job(5)?; before];
        with.push(large);
        let requests = vec![
            vec![unplaceable_job(5)?; 2],
            with,
            vec![unplaceable_job(5)?],
        ];
        let answers = ask_all(&scene, requests).await;
        let right = matches!(&answers[1], Err(ApiRefusal::Invalid { index, problem })
            if *index == before && problem.contains("bytes as written"));
        scene.check(right, || format!("one that is too large: {:?}", answers[1]));
        let last = 2 + before as u64 + 2;
        scene.check_same(
            "those before it",
            vec![answers[0].clone()],
            expected_rows(1, &[2]),
        );
        scene.check_same(
            "those behind it",
            vec![answers[2].clone()],
            expected_rows(last, &[1]),
        );
        let ids: Vec<u64> = scene
            .plane_run
            .plane
            .view()
            .jobs
            .keys()
            .map(|id| id.0)
            .collect();
        scene.check_same("jobs that are kept", ids, vec![1, 2, last]);
        let again = JobSubmission {
            idempotency: name,
            ..unplaceable_job(5)?
        };
        let answer = scene.ask(ApiRequest::Submit(vec![again])).await;
        scene.check_same(
            "under the same name",
            vec![answer],
            expected_rows(last + 1, &[1]),
        );
        check_at_rest(&scene).await;
        Ok(())
    })
}
