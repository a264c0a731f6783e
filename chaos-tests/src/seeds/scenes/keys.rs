//! A submission that was accepted under an idempotency key is accepted once, whatever has become of
//! sites and rules since, also across a restart, until its job is archived; and no number is used
//! twice.

use std::sync::Arc;

use anyhow::{Result, bail};
use cospan_actors::api::command::{ApiAnswer, ApiRefusal, ApiRequest, JobSubmission, SubmittedJob};
use cospan_actors::journal::JournalChange;
use cospan_domain::ids::{Digest, IdempotencyKey, JobId};
use cospan_domain::job::job_state::SubmissionIdempotency;
use cospan_domain::job::spec::{JobSpec, Priority};
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{BEGINS, SceneStage, StagedScene};
use super::tidy::check_at_rest;
use cospan_simulator::jobs::build_job;

/// Numbers that are set aside at once while few are needed.
const BLOCK: u64 = 64;

/// The drawn numbers of one scene.
#[derive(Clone, Copy)]
struct DrawnKeys {
    first: u64,
    run_time: DurationMs,
    keep: DurationMs,
    ends_early: bool,
}

pub(super) fn play_keys(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[8, 8], chance.random())?;
    let drawn = DrawnKeys {
        first: chance.random_range(1..=5) + if chance.random_ratio(1, 4) { 24 } else { 0 },
        run_time: DurationMs(1_000 * chance.random_range(1..=100)),
        keep: DurationMs(1_000 * chance.random_range(600..=100_000)),
        ends_early: chance.random_bool(0.5),
    };
    stage.settings.keep_jobs = drawn.keep;
    let set = stage.set_up();
    let (ended, mut found) =
        set.run_control_plane(BEGINS, move |scene| play_first_run(scene, drawn))?;
    let again = ended + DurationMs(chance.random_range(1_000..=100_000));
    found.extend(
        set.run_control_plane(again, move |scene| play_second_run(scene, drawn))?
            .1,
    );
    Ok(found)
}

fn spec(drawn: DrawnKeys, processors: u32) -> Result<Arc<JobSpec>> {
    Ok(Arc::new(build_job(
        &[processors],
        drawn.run_time,
        DurationMs(200_000),
        0,
    )?))
}

fn with_key(spec: Arc<JobSpec>, name: &str, body: u8) -> Result<JobSubmission> {
    let key = IdempotencyKey::new(name)?;
    let idempotency = Some(SubmissionIdempotency {
        key,
        body: Digest([body; 32]),
    });
    Ok(JobSubmission {
        idempotency,
        ..JobSubmission::from_spec(spec)
    })
}

async fn submit_with_key(
    scene: &StagedScene,
    key: &str,
    jobs: Vec<JobSubmission>,
) -> Result<Vec<SubmittedJob>> {
    match scene.ask_as(key, ApiRequest::Submit(jobs)).await? {
        ApiAnswer::Submitted(jobs) => Ok(jobs),
        other => bail!("a submission came to {other:?}"),
    }
}

fn fresh(id: u64) -> SubmittedJob {
    SubmittedJob {
        id: JobId(id),
        repeated: false,
        group: None,
    }
}

fn repeated(id: u64) -> SubmittedJob {
    SubmittedJob {
        id: JobId(id),
        repeated: true,
        group: None,
    }
}

/// Returns up to which number numbers are set aside.
fn reserved_numbers(scene: &StagedScene) -> Vec<u64> {
    let reserved = scene
        .changes()
        .into_iter()
        .filter_map(|(_, change)| match *change {
            JournalChange::IdsReserved { next } => Some(next.0),
            _ => None,
        });
    reserved.collect()
}

async fn play_first_run(scene: StagedScene, drawn: DrawnKeys) -> Result<()> {
    scene.pass(DurationMs(1_000)).await;
    let plain = vec![JobSubmission::from_spec(spec(drawn, 1)?); drawn.first as usize];
    let jobs = submit_with_key(&scene, "alice", plain).await?;
    scene.check_same("numbers", jobs, (1..=drawn.first).map(fresh).collect());
    let next = drawn.first + 1;
    let one = with_key(spec(drawn, 2)?, "one", 1)?;
    let jobs = submit_with_key(&scene, "alice", vec![one.clone()]).await?;
    scene.check_same("under a name", jobs, vec![fresh(next)]);
    let before = scene.changes().len();
    let jobs = submit_with_key(&scene, "alice", vec![one.clone()]).await?;
    scene.check_same("under the same name", jobs, vec![repeated(next)]);
    // Neither room nor rules matter to what was accepted.
    let mut changed = one.clone();
    changed.spec = Arc::new(JobSpec {
        priority: Priority::High,
        ..JobSpec::clone(&*spec(drawn, 99)?)
    });
    let jobs = submit_with_key(&scene, "alice", vec![changed.clone()]).await?;
    scene.check_same(
        "what cannot be any more, repeated",
        jobs,
        vec![repeated(next)],
    );
    let barriers = scene.changes().split_off(before);
    let writes = barriers
        .iter()
        .any(|(_, change)| matches!(**change, JournalChange::NewJobs(_)));
    scene.check(!writes, || "what was repeated is written again".into());
    let other = JobSubmission {
        idempotency: with_key(spec(drawn, 2)?, "new", 1)?.idempotency,
        ..changed
    };
    let refusal = scene
        .ask(ApiRequest::Submit(vec![one.clone(), other]))
        .await;
    let right = matches!(&refusal, Err(ApiRefusal::Unplaceable { index: 1, .. }));
    scene.check(right, || {
        format!("what cannot be, under a new name: {refusal:?}")
    });
    let mixed = vec![
        with_key(spec(drawn, 1)?, "two", 2)?,
        one.clone(),
        JobSubmission::from_spec(spec(drawn, 1)?),
    ];
    let jobs = submit_with_key(&scene, "alice", mixed).await?;
    scene.check_same(
        "old and new",
        jobs,
        vec![fresh(next + 1), repeated(next), fresh(next + 2)],
    );
    check_clashes(&scene, drawn, next).await?;
    let jobs = submit_with_key(&scene, "bob", vec![one]).await?;
    scene.check_same(
        "the same name of somebody else",
        jobs,
        vec![fresh(next + 3)],
    );
    scene.check_same(
        "reservations",
        reserved_numbers(&scene),
        number_blocks(next + 4),
    );
    if drawn.ends_early {
        scene.pass(drawn.run_time + DurationMs(200_000)).await;
        check_at_rest(&scene).await;
    }
    Ok(())
}

/// Checks that one key with another body is refused, with all that came with it.
async fn check_clashes(scene: &StagedScene, drawn: DrawnKeys, next: u64) -> Result<()> {
    let other = with_key(spec(drawn, 2)?, "one", 3)?;
    let with = vec![JobSubmission::from_spec(spec(drawn, 1)?), other];
    let answer = scene.ask(ApiRequest::Submit(with)).await;
    scene.check_same(
        "another body",
        answer,
        Err(ApiRefusal::IdempotencyMismatch { job: JobId(next) }),
    );
    let ids: Vec<u64> = scene
        .plane_run
        .plane
        .view()
        .jobs
        .keys()
        .map(|id| id.0)
        .collect();
    scene.check_same("jobs so far", ids, (1..next + 3).collect());
    Ok(())
}

/// Returns the next blocks: one is set aside once less than half of a block is left.
fn number_blocks(next: u64) -> Vec<u64> {
    let first = vec![1 + BLOCK];
    if 1 + BLOCK - next < BLOCK / 2 {
        [first, vec![1 + 3 * BLOCK]].concat()
    } else {
        first
    }
}

async fn play_second_run(scene: StagedScene, drawn: DrawnKeys) -> Result<()> {
    scene.pass(DurationMs(1_000)).await;
    let next = drawn.first + 1;
    let reserved_before = scene.plane_run.plane.view().next_id.0;
    scene.check_same(
        "reserved by the last life",
        Some(&reserved_before),
        number_blocks(next + 4).last(),
    );
    let one = with_key(spec(drawn, 2)?, "one", 1)?;
    let jobs = submit_with_key(&scene, "alice", vec![one]).await?;
    scene.check_same("the same name after a restart", jobs, vec![repeated(next)]);
    check_still_clashes(&scene, drawn, next).await?;
    let jobs = submit_with_key(
        &scene,
        "alice",
        vec![JobSubmission::from_spec(spec(drawn, 1)?)],
    )
    .await?;
    scene.check_same(
        "the first number after a restart",
        jobs,
        vec![fresh(reserved_before)],
    );
    scene.check_same(
        "reservations",
        reserved_numbers(&scene),
        vec![reserved_before + BLOCK],
    );
    scene.pass(drawn.run_time + DurationMs(200_000)).await;
    check_at_rest(&scene).await;
    check_archived(&scene, drawn, next, reserved_before).await
}

async fn check_still_clashes(scene: &StagedScene, drawn: DrawnKeys, next: u64) -> Result<()> {
    let answer = scene
        .ask(ApiRequest::Submit(vec![with_key(
            spec(drawn, 2)?,
            "one",
            3,
        )?]))
        .await;
    let should = Err(ApiRefusal::IdempotencyMismatch { job: JobId(next) });
    scene.check_same("another body after a restart", answer, should);
    Ok(())
}

/// Checks that jobs stay as long as they are kept, and are archived at the next look after that;
/// looks come 24 times in that time, once a minute at most and once an hour at least. Then their
/// keys are free.
async fn check_archived(scene: &StagedScene, drawn: DrawnKeys, next: u64, last: u64) -> Result<()> {
    let named_end = end_of(scene, next)?;
    let last_end = end_of(scene, last)?;
    let look = DurationMs((drawn.keep.0 / 24).clamp(60_000, 3_600_000));
    let gone =
        |id| move |scene: &StagedScene| !scene.plane_run.plane.view().jobs.contains_key(&JobId(id));
    let week = DurationMs(drawn.keep.0 + 2 * look.0);
    for (id, end) in [(next, named_end), (last, last_end)] {
        let at = scene.wait_for_change(week, gone(id)).await?;
        let kept = at.since(end);
        scene.check(
            drawn.keep <= kept && kept.0 <= drawn.keep.0 + look.0 + 1_000,
            || {
                format!(
                    "job {id} was kept {kept}, not {} and {look} at most",
                    drawn.keep
                )
            },
        );
    }
    scene.pass(look).await;
    check_at_rest(scene).await;
    let jobs = submit_with_key(scene, "alice", vec![with_key(spec(drawn, 1)?, "one", 3)?]).await?;
    scene.check_same("a name that is free again", jobs, vec![fresh(last + 1)]);
    let archives = scene.changes().into_iter();
    let archives =
        archives.filter(|(_, change)| matches!(**change, JournalChange::JobArchived { .. }));
    let archived: usize = archives.count();
    let now = scene.plane_run.plane.view().jobs.len() - 1;
    scene.check_same(
        "jobs archived or there",
        archived + now,
        drawn.first as usize + 5,
    );
    Ok(())
}

fn end_of(scene: &StagedScene, id: u64) -> Result<Timestamp> {
    let job = scene.job_record(JobId(id))?;
    job.ended_at()
        .ok_or_else(|| anyhow::anyhow!("job {id} has not ended"))
}
