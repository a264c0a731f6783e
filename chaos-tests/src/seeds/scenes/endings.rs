//! A job is cancelled while it waits, while it runs, or while its site is silent. Attempts that may
//! live are cancelled at once, and again ever more seldom until they are seen to be over; users can
//! see what that waits for.

use anyhow::{Result, bail};
use cospan_actors::actor_settings::ActorSettings;
use cospan_actors::api::command::{ApiAnswer, ApiRequest, JobCommandOutcome};
use cospan_domain::ids::JobId;
use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;

use super::silence::{SilentTries, first_poll};
use super::stage::{BEGINS, SceneStage, StagedScene, site_name};
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::site_faults::SiteFault;

/// Longer than any scene.
const LONG: DurationMs = DurationMs(86_400_000);
/// Time for which a site that does not answer keeps its callers waiting.
const DEADLINE: u64 = 10_000;

#[derive(Debug, Clone, Copy)]
enum When {
    Waiting,
    Running,
    Silent { abandoned_after: Option<u64> },
}

pub(super) fn play_endings(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[4], chance.random())?;
    stage.hints = true;
    let settings = &mut stage.settings;
    settings.reconcile_interval = LONG;
    settings.information_expiry = DurationMs::from_secs(7_200);
    let when = match chance.random_range(0..4) {
        0 => When::Waiting,
        1 => When::Running,
        2 => When::Silent {
            abandoned_after: None,
        },
        _ => When::Silent {
            abandoned_after: Some(chance.random_range(1..=90_000)),
        },
    };
    stage.hints = !matches!(when, When::Running);
    if matches!(when, When::Running) {
        settings.poll_interval = DurationMs(chance.random_range(5_000..=120_000));
    }
    let pause = DurationMs(chance.random_range(20_000..=40_000));
    let silent_for = DurationMs(chance.random_range(60_000..=400_000));
    let settings = settings.clone();
    stage.play_scene(move |scene| async move {
        match when {
            When::Waiting => check_while_waiting(&scene).await,
            When::Running => check_while_running(&scene, pause, &settings).await,
            When::Silent { abandoned_after } => {
                let begun = scene.now().since(BEGINS).0;
                let id = scene.submit(build_job(&[3], LONG, LONG, 0)?).await?;
                scene.plan_fault(pause, 0, SiteFault::Silent(true))?;
                scene.plan_fault(pause + silent_for, 0, SiteFault::Silent(false))?;
                let first = first_poll(begun, pause.0, settings.poll_interval.0);
                let tries =
                    SilentTries::work_out_tries(first, begun + (pause + silent_for).0, &settings);
                match abandoned_after {
                    None => check_while_silent(&scene, id, begun + pause.0, &tries).await,
                    Some(after) => check_abandoned(&scene, id, tries.lost + after, &tries).await,
                }
            }
        }
    })
}

async fn command_outcome(scene: &StagedScene, what: ApiRequest) -> Result<JobCommandOutcome> {
    match scene.ask(what).await? {
        ApiAnswer::Jobs(mut jobs) if jobs.len() == 1 => Ok(jobs.remove(0).1),
        other => bail!("an order came to {other:?}"),
    }
}

fn check_cancelled(scene: &StagedScene) {
    let ended = &scene.metrics().jobs_ended;
    scene.check_same(
        "cancelled jobs",
        ended.with_label_values(&["cancelled"]).get(),
        1,
    );
    let gained = scene.metrics().jobs.with_label_values(&["cancelled"]).get();
    scene.check_same("jobs that are cancelled", gained, 1);
}

/// Checks that nothing of it is anywhere: no site gets a call about it.
async fn check_while_waiting(scene: &StagedScene) -> Result<()> {
    scene.submit(build_job(&[3], LONG, LONG, 0)?).await?;
    let id = scene.submit(build_job(&[2], LONG, LONG, 0)?).await?;
    scene.pass(DurationMs(100)).await;
    let now = scene.now();
    let calls = scene.calls().len();
    scene.check_same(
        "answer",
        command_outcome(scene, ApiRequest::Cancel(vec![id])).await?,
        JobCommandOutcome::Done,
    );
    scene.check_same(
        "course",
        scene.durable_course(id, now),
        vec![(0, vec!["JobCancelled"])],
    );
    scene.check_same("calls", scene.calls().len(), calls);
    let again = command_outcome(scene, ApiRequest::Cancel(vec![id])).await?;
    scene.check_same(
        "answer",
        again,
        JobCommandOutcome::Unchanged("it is cancelled".into()),
    );
    check_cancelled(scene);
    Ok(())
}

/// Checks that requests are repeated after 5, 10, 20, 30 and 30 seconds.
async fn check_while_running(
    scene: &StagedScene,
    pause: DurationMs,
    settings: &ActorSettings,
) -> Result<()> {
    let interval = settings.poll_interval.0;
    let soon = (settings.job.go_grace.0 / 4).min(interval);
    let begun = scene.now().since(BEGINS).0;
    let id = scene.submit(build_job(&[3], LONG, LONG, 0)?).await?;
    scene.pass(pause).await;
    let at = begun + pause.0;
    let answer = command_outcome(scene, ApiRequest::Cancel(vec![id])).await?;
    scene.check_same("answer", answer, JobCommandOutcome::Done);
    let over = scene.await_end(id).await?.since(BEGINS).0;
    let mut seen = begun + 2 * soon;
    while seen < at {
        seen += interval;
    }
    scene.check_same("the end", over, seen);
    let mut orders = Vec::new();
    let mut next = at;
    let mut wait = 5_000;
    while next < seen {
        orders.push(next);
        next += wait;
        wait = 30_000.min(2 * wait);
    }
    scene.check_same(
        "orders",
        scene.call_times_since(BEGINS, 0, "cancel")?,
        orders.clone(),
    );
    let gates: Vec<u64> = std::iter::once(begun + soon).chain(orders).collect();
    scene.check_same(
        "gates",
        scene.call_times_since(BEGINS, 0, "decide-gate")?,
        gates,
    );
    let expected = vec![
        (at, vec!["RoundAborted"]),
        (seen, vec!["AttemptEnded", "JobCancelled"]),
    ];
    let course = scene.durable_course(id, BEGINS);
    scene.check_same("course", course.into_iter().skip(4).collect(), expected);
    check_cancelled(scene);
    let aborted = scene
        .metrics()
        .rounds_aborted
        .with_label_values(&["cancelled"])
        .get();
    scene.check_same("rounds aborted", aborted, 1);
    Ok(())
}

/// Checks that a request that does not arrive is repeated after 1, 2, 4 and so on up to 30 seconds.
async fn check_while_silent(
    scene: &StagedScene,
    id: JobId,
    at: u64,
    tries: &SilentTries,
) -> Result<()> {
    scene.plane_run.sleep_until(BEGINS + DurationMs(at)).await;
    // A user who gives it up too soon has it cancelled all the same.
    let answer = command_outcome(scene, ApiRequest::Abandon(vec![id])).await?;
    let asked = scene.call_times_since(BEGINS, 0, "status")?.into_iter();
    let answered = asked.filter(|asked| *asked < at).max().unwrap_or_default();
    let told = format!(
        "not given up: component part-0 at {}, which answered {} ago; repeat in a minute if it is \
         not over then",
        site_name(0)?,
        DurationMs(at - answered)
    );
    scene.check_same(
        "answer before it is lost",
        answer,
        JobCommandOutcome::Waits(told),
    );
    scene
        .plane_run
        .sleep_until(BEGINS + DurationMs(tries.lost))
        .await;
    scene.pass(DurationMs(1)).await;
    let answer = command_outcome(scene, ApiRequest::Cancel(vec![id])).await?;
    let told = format!(
        "component part-0 may still run at {}, which does not answer; it is ended once that site \
         answers; if that site is gone for good, give it up with `cospan cancel --abandon {id}`",
        site_name(0)?
    );
    scene.check_same("answer", answer, JobCommandOutcome::Waits(told));
    let silent_until = tries.asked.last().copied().unwrap_or_default();
    let over = scene.await_end(id).await?.since(BEGINS).0;
    let orders = scene.call_times_since(BEGINS, 0, "decide-gate")?;
    let mut next = at;
    let mut wait = 1_000;
    let mut expected = vec![orders[0]];
    let done = scene.call_times_since(BEGINS, 0, "cancel")?;
    while next <= done.first().copied().unwrap_or_default() {
        expected.push(next);
        next += DEADLINE + wait;
        wait = 30_000.min(2 * wait);
    }
    scene.check_same("orders", orders, expected.clone());
    let last = expected.last().copied().unwrap_or_default();
    scene.check_same("ended with the first order that arrives", done, vec![last]);
    scene.check(last + 50_000 > silent_until, || {
        format!("ended only at {last}")
    });
    let seen = if last <= tries.back {
        tries.back
    } else {
        last.max(tries.back + 10)
    };
    scene.check_same("the end", over, seen);
    check_cancelled(scene);
    Ok(())
}

/// Checks that a job that its user gives up is over at once; what lives of it is ended when its
/// site answers.
async fn check_abandoned(
    scene: &StagedScene,
    id: JobId,
    at: u64,
    tries: &SilentTries,
) -> Result<()> {
    scene
        .plane_run
        .sleep_until(BEGINS + DurationMs(tries.lost - 1))
        .await;
    let at = at.min(tries.back - 1).max(tries.lost + 1);
    scene.plane_run.sleep_until(BEGINS + DurationMs(at)).await;
    let answer = command_outcome(scene, ApiRequest::Abandon(vec![id])).await?;
    scene.check_same("answer", answer, JobCommandOutcome::Done);
    let course = scene.durable_course(id, BEGINS + DurationMs(at));
    let expected = vec![(0, vec!["RoundAborted", "AttemptEnded", "JobCancelled"])];
    scene.check_same("course", course, expected);
    scene
        .plane_run
        .sleep_until(BEGINS + DurationMs(tries.back + 1))
        .await;
    scene.check_same(
        "ended",
        scene.call_times_since(BEGINS, 0, "cancel")?,
        vec![tries.back],
    );
    scene.check_same(
        "swept",
        scene.call_times_since(BEGINS, 0, "list-attempts")?,
        vec![0, tries.back],
    );
    check_cancelled(scene);
    Ok(())
}
