//! Every command about jobs in every state has the one answer that is true of it, at once, and
//! costs one durable change a job where anything is done, and none where nothing is.

use anyhow::Result;
use cospan_actors::api::command::{ApiAnswer, ApiRequest, JobCommandOutcome};
use cospan_domain::ids::{JobId, KeyName};
use cospan_domain::job::job_state::JobPhase;
use cospan_domain::job::spec::Priority;
use cospan_domain::queue::JobClassRule;
use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{SceneStage, StagedScene};
use super::tidy::check_at_rest;
use cospan_simulator::jobs::build_job;

/// A number that no job has.
const NOBODY: JobId = JobId(999_999);
/// Two hints: processors are idle, and the next job has its gate. The site is asked after each, at
/// most 10 ms after it was asked before.
const HINTS: DurationMs = DurationMs(20);
const DAY: DurationMs = DurationMs(86_400_000);

pub(super) fn play_answers(chance: &mut StdRng) -> Result<Vec<String>> {
    let processors = chance.random_range(1..=16);
    let run_time = DurationMs(1_000 * chance.random_range(60..=200));
    let pause = DurationMs(chance.random_range(100..=20_000));
    let cancels = chance.random_bool(0.5);
    let mut stage = SceneStage::with_processors(&[processors], chance.random())?;
    stage.settings.classes = vec![JobClassRule {
        highest: Some(Priority::High),
        ..JobClassRule::default()
    }];
    stage.play_scene(move |scene| async move {
        let spec = build_job(&[processors], run_time, run_time + DurationMs(60_000), 0)?;
        scene.pass(DurationMs(1_000)).await;
        let runs = scene.submit(spec.clone()).await?;
        let waits = scene.submit(spec).await?;
        scene.pass(pause).await;
        check_at_rest(&scene).await;
        while_one_waits(&scene, runs, waits).await?;
        check_priorities(&scene, runs, waits).await?;
        end_and_check(&scene, (runs, waits), cancels).await
    })
}

fn done_outcome() -> JobCommandOutcome {
    JobCommandOutcome::Done
}

fn unchanged_outcome(text: &str) -> JobCommandOutcome {
    JobCommandOutcome::Unchanged(text.into())
}

/// Checks that a command has these answers, at once, and that so many are done.
async fn check_answers(
    scene: &StagedScene,
    what: ApiRequest,
    should: Vec<(JobId, JobCommandOutcome)>,
) -> Result<()> {
    let at = scene.now();
    let before = scene.changes().len();
    let name = format!("{what:?}");
    let count = should
        .iter()
        .filter(|(_, outcome)| *outcome == JobCommandOutcome::Done)
        .count();
    let answer = scene.ask(what).await?;
    scene.check_same(&name, answer, ApiAnswer::Jobs(should));
    scene.check_same(&format!("when it was answered: {name}"), scene.now(), at);
    scene.pass(DurationMs::ZERO).await;
    scene.check_same(
        &format!("changes by {name}"),
        scene.changes().len() - before,
        count,
    );
    Ok(())
}

async fn while_one_waits(scene: &StagedScene, runs: JobId, waits: JobId) -> Result<()> {
    let all = vec![waits, NOBODY, runs, waits];
    let is_so = vec![
        (waits, already_so()),
        nobody(),
        (runs, already_so()),
        (waits, already_so()),
    ];
    check_answers(scene, ApiRequest::Thaw(all.clone()), is_so).await?;
    let twice = vec![
        (waits, done_outcome()),
        nobody(),
        (runs, done_outcome()),
        (waits, already_so()),
    ];
    check_answers(scene, ApiRequest::Freeze(all.clone()), twice.clone()).await?;
    let alice = Some(KeyName::new("alice")?);
    scene.check_same(
        "frozen by",
        scene.job_record(waits)?.frozen_by.clone(),
        alice.clone(),
    );
    scene.check_same(
        "frozen by",
        scene.job_record(runs)?.frozen_by.clone(),
        alice,
    );
    check_at_rest(scene).await;
    check_answers(scene, ApiRequest::Thaw(all), twice).await?;
    scene.check_same(
        "frozen by",
        scene.job_record(waits)?.frozen_by.clone(),
        None,
    );
    let neither = vec![(runs, already_so()), (waits, already_so())];
    check_answers(scene, ApiRequest::Release(vec![runs, waits]), neither).await?;
    check_at_rest(scene).await;
    Ok(())
}

fn already_so() -> JobCommandOutcome {
    unchanged_outcome("it is so already")
}

fn nobody() -> (JobId, JobCommandOutcome) {
    (NOBODY, JobCommandOutcome::NotFound)
}

/// Checks priorities: those that a rule does not allow are refused, and say what to do about it.
async fn check_priorities(scene: &StagedScene, runs: JobId, waits: JobId) -> Result<()> {
    let to = |to, uncapped| ApiRequest::SetPriority {
        jobs: vec![runs, NOBODY, waits],
        to,
        uncapped,
    };
    check_answers(
        scene,
        to(Priority::Low, false),
        vec![(runs, already_so()), nobody(), (waits, already_so())],
    )
    .await?;
    check_answers(
        scene,
        to(Priority::High, false),
        vec![(runs, done_outcome()), nobody(), (waits, done_outcome())],
    )
    .await?;
    check_at_rest(scene).await;
    let refused = JobCommandOutcome::Refused(
        "the priority super-high is above high, the highest that [[priority]] number 1 of the \
         configuration allows this job; ask for at most high, or ask an administrator"
            .into(),
    );
    let above = vec![(runs, refused.clone()), nobody(), (waits, refused)];
    check_answers(scene, to(Priority::SuperHigh, false), above).await?;
    check_answers(
        scene,
        to(Priority::SuperHigh, true),
        vec![(runs, done_outcome()), nobody(), (waits, done_outcome())],
    )
    .await?;
    scene.check_same(
        "class",
        scene.job_record(waits)?.priority,
        Priority::SuperHigh,
    );
    check_at_rest(scene).await;
    check_answers(
        scene,
        to(Priority::Low, false),
        vec![(runs, done_outcome()), nobody(), (waits, done_outcome())],
    )
    .await
}

/// Ends one job, by itself or by its user; then nothing changes it any more. The other begins at
/// that moment.
async fn end_and_check(
    scene: &StagedScene,
    (runs, waits): (JobId, JobId),
    cancels: bool,
) -> Result<()> {
    let asked = scene.now();
    if cancels {
        let answer = scene.ask(ApiRequest::Cancel(vec![runs])).await?;
        scene.check_same(
            "a cancellation",
            answer,
            ApiAnswer::Jobs(vec![(runs, done_outcome())]),
        );
    }
    let at = scene
        .wait_for_change(DAY, move |scene: &StagedScene| {
            scene.job_record(runs).is_ok_and(|job| job.is_final())
        })
        .await?;
    let soon = asked <= at && at <= asked + HINTS;
    scene.check(!cancels || soon, || {
        format!("cancelled at {asked:?}, over at {at:?}")
    });
    let next = scene
        .wait_for_change(DAY, move |scene: &StagedScene| {
            scene
                .job_record(waits)
                .is_ok_and(|job| matches!(job.phase, JobPhase::Running { .. }))
        })
        .await?;
    scene.check(at <= next && next <= at + HINTS, || {
        format!("the next begins {}", next.since(at))
    });
    let how = if cancels {
        "it is cancelled"
    } else {
        "it is finished"
    };
    let ended = vec![(runs, unchanged_outcome(how))];
    check_answers(scene, ApiRequest::Cancel(vec![runs]), ended.clone()).await?;
    check_answers(scene, ApiRequest::Abandon(vec![runs]), ended.clone()).await?;
    check_answers(scene, ApiRequest::Freeze(vec![runs]), ended.clone()).await?;
    check_answers(scene, ApiRequest::Thaw(vec![runs]), ended.clone()).await?;
    check_answers(scene, ApiRequest::Release(vec![runs]), ended.clone()).await?;
    let rise = ApiRequest::SetPriority {
        jobs: vec![runs],
        to: Priority::SuperHigh,
        uncapped: false,
    };
    check_answers(scene, rise, ended).await?;
    check_at_rest(scene).await;
    scene
        .wait_for_change(DAY, move |scene| {
            scene.job_record(waits).is_ok_and(|job| job.is_final())
        })
        .await?;
    check_at_rest(scene).await;
    Ok(())
}
