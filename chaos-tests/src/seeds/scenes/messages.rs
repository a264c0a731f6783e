//! A target that wants to know of the end of a job gets one message, at that moment; where that
//! fails, again after 2, 4, 8 ... seconds, and not for ever. A target that does not answer delays
//! no other, and gets one message at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use cospan_actors::api::command::ApiRequest;
use cospan_actors::journal::JournalChange;
use cospan_domain::ids::{JobId, TargetName};
use cospan_domain::job::job_event::JobEventKind;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::Play;
use super::stage::{BEGINS, SceneStage, StagedScene};
use super::tidy::check_at_rest;
use cospan_simulator::call_faults::FaultRates;
use cospan_simulator::fault_kinds::FaultKind;
use cospan_simulator::jobs::build_job;

const DAY: DurationMs = DurationMs(86_400_000);
/// Messages under way at once.
const AT_ONCE: usize = 8;

/// A delivered or failed message: its job, its target, when, and the problem, if any.
type ToldMessage = (JobId, TargetName, Timestamp, Option<Arc<str>>);

/// Plays one of the stories, as drawn.
pub(super) fn play_messages(chance: &mut StdRng) -> Result<Vec<String>> {
    let stories: [Play; 4] = [
        play_at_once,
        play_retries,
        play_retries,
        play_removed_target,
    ];
    stories[chance.random_range(0..stories.len())](chance)
}

fn names(count: usize) -> Result<Vec<TargetName>> {
    (0..count)
        .map(|number| Ok(TargetName::new(&format!("desk-{number}"))?))
        .collect()
}

fn stage(targets: &[TargetName], chance: &mut StdRng) -> Result<SceneStage> {
    let mut stage = SceneStage::with_processors(&[64], chance.random())?;
    stage.settings.targets = targets
        .iter()
        .map(|name: &TargetName| (name.clone(), format!("mail:{name}").into()))
        .collect();
    Ok(stage)
}

async fn submit(scene: &StagedScene, run_time: DurationMs, to: &[TargetName]) -> Result<JobId> {
    let mut spec = build_job(&[1], run_time, run_time + DurationMs(60_000), 0)?;
    spec.run.notify = to.iter().cloned().collect();
    scene.submit(spec).await
}

fn delivered_messages(scene: &StagedScene) -> Vec<ToldMessage> {
    let mut all = Vec::new();
    for (_, change) in scene.changes() {
        if let JournalChange::Job { new, events, .. } = &*change {
            for event in events {
                if let JobEventKind::EndTold { target, problem } = &event.what {
                    all.push((new.id, target.clone(), event.at, problem.clone()));
                }
            }
        }
    }
    all
}

fn count(scene: &StagedScene, outcome: &str) -> u64 {
    scene
        .plane_run
        .plane
        .shared()
        .metrics
        .notifications
        .with_label_values(&[outcome])
        .get()
}

fn is_all_delivered(scene: &StagedScene) -> bool {
    let view = scene.plane_run.plane.view();
    view.jobs.values().all(|job| job.is_final()) && view.untold.is_empty()
}

/// Plays targets that all take messages: each is notified at the end, by one change.
fn play_at_once(chance: &mut StdRng) -> Result<Vec<String>> {
    let targets = names(chance.random_range(1..=3))?;
    let stage = stage(&targets, chance)?;
    let jobs = chance.random_range(1..=12);
    let run_time = DurationMs(1_000 * chance.random_range(1..=60));
    let cancels = chance.random_bool(0.3);
    stage.play_scene(move |scene| async move {
        scene.pass(DurationMs(1_000)).await;
        for _ in 0..jobs {
            submit(&scene, run_time, &targets).await?;
        }
        let silent = submit(&scene, run_time, &[]).await?;
        if cancels {
            scene.pass(DurationMs(500)).await;
            scene
                .ask(ApiRequest::Cancel((1..=jobs).map(JobId).collect()))
                .await?;
        }
        scene.wait_for_change(DAY, is_all_delivered).await?;
        check_at_rest(&scene).await;
        let told = delivered_messages(&scene);
        let messages = jobs as usize * targets.len();
        scene.check_same("messages", told.len(), messages);
        scene.check_same("messages counted", count(&scene, "sent"), messages as u64);
        scene.check_same("failures counted", count(&scene, "failed"), 0);
        for (id, target, at, problem) in told {
            let job = scene.job_record(id)?;
            scene.check_same("when it was told", Some(at), job.ended_at());
            scene.check_same("what kept it", problem, None);
            let heard = scene
                .plane_run
                .call_faults
                .was_end_delivered(id, &format!("mail:{target}"));
            scene.check(heard, || format!("{target} did not hear of job {id}"));
            scene.check_same("of whom nobody wants to know", id == silent, false);
            let should: Vec<TargetName> = targets.clone();
            scene.check_same("who is told", job.told.iter().cloned().collect(), should);
        }
        scene.check_same(
            "idle talk",
            scene.plane_run.call_faults.unwanted_messages(),
            Vec::new(),
        );
        Ok(())
    })
}

/// Returns the pauses between tries: they double, up to five minutes.
fn retry_pauses() -> impl Iterator<Item = u64> {
    (1..).map(|failures: u32| (1_u64 << failures.min(9)).min(300) * 1_000)
}

/// Returns the time after the end at which a message that failed so often is off the list, and true
/// if it is given up: once it fails after its time, or instead of the first try after it.
fn last_try(failed: u64, tell_for: DurationMs) -> (DurationMs, bool) {
    let failure = DurationMs(retry_pauses().take(failed.saturating_sub(1) as usize).sum());
    let next = DurationMs(retry_pauses().take(failed as usize).sum());
    if failed > 0 && failure >= tell_for {
        (failure, true)
    } else {
        (next, failed > 0 && next >= tell_for)
    }
}

/// Loses each second message. A single target is tried at known times, until it gets the message or
/// is given up.
fn play_retries(chance: &mut StdRng) -> Result<Vec<String>> {
    let targets = names(1)?;
    let mut stage = stage(&targets, chance)?;
    // No call ever fails; messages do.
    let faults = BTreeMap::from([(FaultKind::Refused, 0)]);
    stage.fault_rates = FaultRates {
        faults,
        ..FaultRates::default()
    };
    let tell_for = DurationMs(1_000 * chance.random_range(0..=15));
    stage.settings.tell_for = tell_for;
    let jobs: u64 = if chance.random_bool(0.7) {
        1
    } else {
        chance.random_range(2..=3)
    };
    stage.play_scene(move |scene| async move {
        scene.pass(DurationMs(1_000)).await;
        for _ in 0..jobs {
            submit(&scene, DurationMs(5_000), &targets).await?;
        }
        scene.wait_for_change(DAY, is_all_delivered).await?;
        check_at_rest(&scene).await;
        let told = delivered_messages(&scene);
        scene.check_same("messages", told.len() as u64, jobs);
        let lost = told
            .iter()
            .filter(|(.., problem)| problem.is_some())
            .count() as u64;
        scene.check_same("messages that arrived", count(&scene, "sent"), jobs - lost);
        for (id, _, at, problem) in &told {
            let end = scene.job_record(*id)?.ended_at().unwrap_or_default();
            let late = at.since(end);
            let kept = problem.as_deref();
            scene.check(kept.is_none_or(|kept| kept == "not delivered"), || {
                format!("{kept:?}")
            });
            scene.check(kept.is_none() || late >= tell_for, || {
                format!("given up after {late}")
            });
            scene.check_same(
                "heard",
                scene
                    .plane_run
                    .call_faults
                    .was_end_delivered(*id, "mail:desk-0"),
                kept.is_none(),
            );
        }
        if let [(id, _, at, problem)] = &told[..] {
            let end = scene.job_record(*id)?.ended_at().unwrap_or_default();
            let (last, given_up) = last_try(count(&scene, "failed"), tell_for);
            scene.check_same("when the last try was", *at, end + last);
            scene.check_same("whether it is given up", problem.is_some(), given_up);
        }
        scene.check_same(
            "idle talk",
            scene.plane_run.call_faults.unwanted_messages(),
            Vec::new(),
        );
        Ok(())
    })
}

/// Checks that a target that is no longer configured gets nothing, and is not tried.
fn play_removed_target(chance: &mut StdRng) -> Result<Vec<String>> {
    let targets = names(2)?;
    let mut stage = stage(&targets, chance)?;
    let jobs = chance.random_range(1..=AT_ONCE as u64 + 3);
    let run_time = DurationMs(1_000 * chance.random_range(10..=60));
    stage.settings.keep_jobs = DAY;
    let mut set = stage.set_up();
    let asked = targets.clone();
    let (ended, mut found) = set.run_control_plane(BEGINS, move |scene| async move {
        scene.pass(DurationMs(1_000)).await;
        for _ in 0..jobs {
            submit(&scene, run_time, &asked).await?;
        }
        scene.pass(DurationMs(5_000)).await;
        Ok(())
    })?;
    set.settings().targets.remove(&targets[1]);
    let played = set.run_control_plane(ended + DurationMs(1_000), move |scene| async move {
        scene.wait_for_change(DAY, is_all_delivered).await?;
        check_at_rest(&scene).await;
        for (id, target, at, problem) in delivered_messages(&scene) {
            scene.check_same(
                "when it was told",
                Some(at),
                scene.job_record(id)?.ended_at(),
            );
            let gone = "no such target is configured any more";
            let should = (target == targets[1]).then(|| Arc::from(gone));
            scene.check_same("what kept it", problem, should);
        }
        scene.check_same(
            "messages",
            delivered_messages(&scene).len() as u64,
            2 * jobs,
        );
        scene.check_same("messages sent", count(&scene, "sent"), jobs);
        scene.check_same("failures", count(&scene, "failed"), 0);
        Ok(())
    })?;
    found.extend(played.1);
    Ok(found)
}
