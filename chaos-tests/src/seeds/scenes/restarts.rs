//! A control plane is killed in the middle of everything, and another one takes over what it left
//! as soon as it begins: nothing is done twice, nothing is forgotten, and what went on at the sites
//! meanwhile is found out at once.

use anyhow::Result;
use cospan_actors::api::command::{ApiAnswer, ApiRequest};
use cospan_domain::ids::{Digest, JobId};
use cospan_domain::job::job_state::{JobPhase, PhaseKind};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::copies::look_times;
use super::log::OF_COPIES;
use super::stage::{SceneStage, StagedScene, fixed_at, site_name, with_input};
use cospan_simulator::jobs::build_job;

/// Bandwidth of the links, in bytes a millisecond.
const RATE: u64 = 1_000;

/// The drawn numbers of the story.
#[derive(Debug, Clone, Copy)]
struct RestartTale {
    /// Time that the copy takes.
    takes: u64,
    /// Time from its beginning until the control plane is killed.
    killed: u64,
    /// Time during which no control plane runs.
    pause: u64,
    /// Run time of the job that began before.
    run: u64,
    /// Jobs that wait for processors.
    waiting: usize,
    /// Jobs that are frozen.
    frozen: usize,
}

/// Everything that the first run of the control plane left.
struct LeftBehind {
    killed: Timestamp,
    running: JobId,
    reading: JobId,
    waiting: Vec<JobId>,
    frozen: Vec<JobId>,
    ended: JobId,
    next: JobId,
    /// Time at which the copy began.
    begun: Timestamp,
}

pub(super) fn play_restarts(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[12, 12], chance.random())?;
    stage.hints = chance.random_bool(0.7);
    let takes = chance.random_range(3_000..30_000);
    let tale = RestartTale {
        takes,
        killed: chance.random_range(10..takes - 10),
        pause: chance.random_range(1..60_000),
        run: chance.random_range(20_000..60_000),
        waiting: chance.random_range(0..3),
        frozen: chance.random_range(0..3),
    };
    stage.add_file(RATE * takes, &[0])?;
    let pause = DurationMs(tale.pause);
    stage.play_twice(
        pause,
        move |scene| async move { play_before(&scene, tale).await },
        move |scene, left| async move { play_after(&scene, tale, left).await },
    )
}

async fn play_before(scene: &StagedScene, tale: RestartTale) -> Result<LeftBehind> {
    scene.pass(DurationMs(100)).await;
    let ended = scene.submit(sized_job(1, 100, 0)?).await?;
    scene.until_ended(&[ended]).await?;
    let running = scene.submit(sized_job(12, tale.run, 0)?).await?;
    scene
        .wait_until(DurationMs(60_000), |scene: &StagedScene| {
            scene
                .job_record(running)
                .is_ok_and(|job| matches!(job.phase, JobPhase::Running { .. }))
        })
        .await?;
    let mut waiting = Vec::new();
    let mut frozen = Vec::new();
    for _ in 0..tale.frozen {
        let id = scene.submit(sized_job(1, 1_000, 0)?).await?;
        let done = scene.ask(ApiRequest::Freeze(vec![id])).await;
        scene.check(matches!(done, Ok(ApiAnswer::Jobs(_))), || {
            format!("{done:?}")
        });
        frozen.push(id);
    }
    let begun = scene.now();
    let reading = scene
        .submit(with_input(sized_job(2, 1_000, 1)?, 0)?)
        .await?;
    for _ in 0..tale.waiting {
        waiting.push(scene.submit(sized_job(12, 1_000, 0)?).await?);
    }
    scene.pass(DurationMs(tale.killed)).await;
    let next = scene.plane_run.plane.view().next_id;
    let killed = scene.now();
    Ok(LeftBehind {
        killed,
        running,
        reading,
        waiting,
        frozen,
        ended,
        next,
        begun,
    })
}

fn sized_job(processors: u32, run: u64, site: usize) -> Result<JobSpec> {
    let run = DurationMs(run);
    fixed_at(build_job(&[processors], run, run, 0)?, site)
}

async fn play_after(scene: &StagedScene, tale: RestartTale, left: LeftBehind) -> Result<()> {
    let begun = left.killed + DurationMs(tale.pause);
    scene.check_same("begins", scene.now(), begun);
    check_counts(scene, &left, tale)?;
    scene.pass(DurationMs(1)).await;
    check_asks_sites(scene, begun)?;
    let here = site_name(1)?;
    let whole = tale.takes;
    scene.until_ended(&[left.reading]).await?;
    let passed = begun.since(left.begun).0;
    let calls: Vec<_> = match whole.checked_sub(passed) {
        None | Some(0) => vec![(0, "copy-status"), (0, "has-content")],
        Some(rest) => {
            let looks = look_times(rest);
            let last = looks.last().copied().unwrap_or_default();
            let looks = looks.into_iter().map(|at| (at, "copy-status"));
            looks.chain([(last, "has-content")]).collect()
        }
    };
    let last = calls.last().map(|(at, _)| *at).unwrap_or_default();
    scene.check_same(
        "takes up the copy",
        scene.calls_at(&here, &OF_COPIES, begun),
        calls,
    );
    let copied: Vec<_> = scene
        .copy_states(&here, begun)
        .into_iter()
        .take(1)
        .collect();
    scene.check_same("copied", copied, vec![(last, "1 ready".into())]);
    let arrived = scene.job_events(left.reading, begun);
    let arrived = arrived
        .into_iter()
        .find(|(_, what)| *what == "InputsArrived");
    scene.check_same("arrived", arrived, Some((last, "InputsArrived")));
    check_measurements(scene, tale, last, begun + DurationMs(last))?;
    check_finishes(scene, tale, left).await
}

/// Checks that what is shown at once is what there is.
fn check_counts(scene: &StagedScene, left: &LeftBehind, tale: RestartTale) -> Result<()> {
    let plane = &scene.plane_run.plane;
    let metrics = &plane.shared().metrics;
    let view = plane.view();
    scene.check_same("folds", view.is_derived_state_correct(), true);
    for kind in PhaseKind::ALL {
        let there = view
            .jobs
            .values()
            .filter(|job| job.phase.kind() == kind)
            .count();
        let shown = metrics.jobs.with_label_values(&[kind.as_str()]).get();
        scene.check_same(kind.as_str(), shown, there as i64);
    }
    scene.check_same("all", view.jobs.len(), tale.waiting + tale.frozen + 3);
    scene.check_same("held", metrics.held.get(), 0);
    scene.check_same("ended", scene.job_record(left.ended)?.is_final(), true);
    scene.check_same("next", view.next_id, left.next);
    scene.check_same("restarts", scene.plane_run.plane.epoch().0, 2);
    Ok(())
}

/// Checks that each site is asked for what it is and what it does, once, and at once.
fn check_asks_sites(scene: &StagedScene, begun: Timestamp) -> Result<()> {
    for site in 0..2 {
        let kinds = ["describe", "list-attempts", "status"];
        let asked = kinds.map(|call| (0, call)).to_vec();
        let mut heard = scene.calls_at(&site_name(site)?, &kinds, begun);
        // A gate that was opened again is looked at once more.
        heard.dedup();
        scene.check_same("asks", heard, asked);
    }
    Ok(())
}

/// Checks that bytes which were there before the copy was watched, or a moment later, do not count
/// as a measurement of the link.
fn check_measurements(
    scene: &StagedScene,
    tale: RestartTale,
    watched: u64,
    at: Timestamp,
) -> Result<()> {
    let links = scene.plane_run.plane.links_to(&site_name(1)?);
    let measured = links.first().and_then(|link| link.measured);
    let counts = watched >= 2_000;
    scene.check_same(
        "measured",
        measured.map(|m| (m.at, m.transfers)),
        counts.then_some((at, 1)),
    );
    let bytes = scene
        .plane_run
        .plane
        .shared()
        .metrics
        .transferred_bytes
        .get();
    scene.check_same("bytes", Bytes(bytes), Bytes(RATE * tale.takes));
    let digest = Digest([1; 32]);
    scene.check_same(
        "progress",
        scene.plane_run.plane.copy_progress(digest, &site_name(1)?),
        None,
    );
    Ok(())
}

/// Checks that the rest ends as if nothing had happened.
async fn check_finishes(scene: &StagedScene, tale: RestartTale, left: LeftBehind) -> Result<()> {
    scene.until_ended(&[left.running]).await?;
    scene.until_ended(&left.waiting).await?;
    for id in &left.frozen {
        let frozen = scene.job_record(*id)?;
        scene.check(matches!(frozen.phase, JobPhase::Queued { .. }), || {
            format!("{frozen:?}")
        });
    }
    scene.ask(ApiRequest::Thaw(left.frozen.clone())).await?;
    scene.until_ended(&left.frozen).await?;
    let spec = fixed_at(build_job(&[1], DurationMs(10), DurationMs(10), 0)?, 0)?;
    // Numbers that the first run of the control plane had set aside are not given out.
    let id = scene.submit(spec).await?;
    scene.check_same("number", id, left.next);
    scene.until_ended(&[id]).await?;
    let submitted = scene.call_counts().get("submit").copied().unwrap_or(0);
    let jobs = 4 + tale.waiting + tale.frozen;
    scene.check_same("submitted", submitted, jobs);
    let opened = scene.call_counts().get("decide-gate").copied().unwrap_or(0);
    // Calls without an answer are repeated.
    scene.check((jobs..jobs + 2).contains(&opened), || {
        format!("{opened} gates")
    });
    let metrics = &scene.plane_run.plane.shared().metrics;
    let finished = metrics.jobs.with_label_values(&["finished"]).get();
    scene.check_same("finished", finished, jobs as i64);
    scene.check_same("conflicts", metrics.journal_conflicts.get(), 0);
    Ok(())
}
