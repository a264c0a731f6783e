//! Errors of a site pile up until it is unusable. It is tried out when its time has come, with
//! as many jobs at once as are allowed, and is usable again when these have succeeded.

use std::sync::Arc;

use anyhow::{Result, bail};
use cospan_actors::api::command::{ApiAnswer, ApiRequest, JobSubmission};
use cospan_domain::ids::JobId;
use cospan_domain::site::site_state::Breaker;
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{SceneStage, StagedScene, site_name};
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::site_faults::SiteFault;

/// Run time of a job that ends by itself.
const SHORT: DurationMs = DurationMs(1_000);
const LONG: DurationMs = DurationMs(80_000_000);
/// More than can be let in, as often as they are.
const JOBS: u32 = 6;

pub(super) fn play_probes(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[4], chance.random())?;
    let settings = &mut stage.settings;
    let threshold = chance.random_range(1..=4);
    settings.site.site_error_threshold = threshold;
    settings.site.probe_limit = chance.random_range(1..=4);
    settings.site.probe_interval = DurationMs(chance.random_range(1_000..=20_000));
    settings.site.probe_spread = PerMillion(chance.random_range(0..=1) * 500_000);
    settings.information_expiry = DurationMs::from_secs(7_200);
    let parameters = settings.site.clone();
    // A success in between sets the count to zero.
    let succeeds_after = chance.random_range(0..threshold);
    let fails_probe = chance.random_bool(0.4);
    stage.play_scene(move |scene| async move {
        for _ in 0..succeeds_after {
            fail_by_dead_nodes(&scene).await?;
        }
        scene.check_same("errors in a row", site_error_count(&scene)?, succeeds_after);
        if succeeds_after > 0 {
            run_to_end(&scene, SHORT).await?;
        }
        scene.check_same("errors after a success", site_error_count(&scene)?, 0);
        let mut failed_at = scene.now();
        for count in 0..threshold {
            scene.check_shown_state("usable so far", 0, "usable")?;
            failed_at = fail_by_dead_nodes(&scene).await?;
            scene.check_same("errors in a row", site_error_count(&scene)?, count + 1);
        }
        scene.check_shown_state("unusable", 0, "unusable")?;
        let counted = u64::from(threshold + succeeds_after);
        let metric = scene
            .metrics()
            .site_errors
            .with_label_values(&[site_name(0)?.as_str()]);
        scene.check_same("errors that were counted", metric.get(), counted);
        let mut probe_at = probe_time(&scene, failed_at, 1, &parameters)?;
        if fails_probe {
            let failed_at = fail_probe(&scene, probe_at).await?;
            probe_at = probe_time(&scene, failed_at, 2, &parameters)?;
        }
        scene.check_same("told", messages_sent(&scene), 1 + u64::from(fails_probe));
        try_out(&scene, probe_at, parameters.probe_limit).await?;
        scene.check_same("told", messages_sent(&scene), 2 + u64::from(fails_probe));
        scene.check_shown_state("usable again", 0, "usable")?;
        scene.check_same("errors at the end", site_error_count(&scene)?, 0);
        Ok(())
    })
}

fn messages_sent(scene: &StagedScene) -> u64 {
    scene
        .metrics()
        .notifications
        .with_label_values(&["sent"])
        .get()
}

fn site_error_count(scene: &StagedScene) -> Result<u32> {
    let name = site_name(0)?;
    let record = scene.plane_run.plane.view().sites.get(&name).cloned();
    Ok(record.map_or(0, |record| record.consecutive_errors))
}

/// Submits for two users by turns: errors of one alone would be looked into first.
async fn submit(scene: &StagedScene, time: DurationMs) -> Result<JobId> {
    let key = if scene.metrics().jobs_submitted.get().is_multiple_of(2) {
        "alice"
    } else {
        "bob"
    };
    submit_as(scene, key, time).await
}

async fn submit_as(scene: &StagedScene, key: &str, time: DurationMs) -> Result<JobId> {
    let submission = JobSubmission::from_spec(Arc::new(build_job(&[1], time, time, 0)?));
    match scene
        .ask_as(key, ApiRequest::Submit(vec![submission]))
        .await?
    {
        ApiAnswer::Submitted(jobs) if jobs.len() == 1 => Ok(jobs[0].id),
        other => bail!("a submission came to {other:?}"),
    }
}

async fn run_to_end(scene: &StagedScene, time: DurationMs) -> Result<()> {
    let id = submit(scene, time).await?;
    scene.await_end(id).await?;
    scene.pass(DurationMs(1)).await;
    Ok(())
}

/// Lets all nodes die under a job that runs, which is reported at once; it is not run again.
/// Returns when.
async fn fail_by_dead_nodes(scene: &StagedScene) -> Result<Timestamp> {
    let id = submit(scene, LONG).await?;
    lose_job(scene, id).await
}

/// Loses the jobs of one user one after the other. A probe of our own is sent at once: it finds the
/// site well, and only that user's jobs stay away.
pub(super) fn play_accused_user(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[4], chance.random())?;
    let settings = &mut stage.settings;
    let threshold = chance.random_range(2..=4);
    settings.site.site_error_threshold = threshold;
    settings.site.probe_interval = DurationMs(chance.random_range(5_000..=60_000));
    settings.site.probe_spread = PerMillion(0);
    settings.information_expiry = DurationMs::from_secs(7_200);
    let interval = settings.site.probe_interval;
    stage.play_scene(move |scene| async move {
        for _ in 0..threshold {
            let id = submit_as(&scene, "mallory", LONG).await?;
            lose_job(&scene, id).await?;
            scene.check_shown_state("usable", 0, "usable")?;
        }
        let sent_at = scene.now();
        let told = scene
            .wait_until(DurationMs(4_000), |scene| barred_until(scene).is_some())
            .await?;
        scene.check_same("errors in a row", site_error_count(&scene)?, 0);
        scene.check_same("told", messages_sent(&scene), 0);
        let until = barred_until(&scene).unwrap_or_default();
        scene.check(
            told + interval >= until && until >= sent_at + interval,
            || format!("they stay away until {}", until.0),
        );
        let waits = submit_as(&scene, "mallory", SHORT).await?;
        let goes = submit_as(&scene, "alice", SHORT).await?;
        scene.await_end(goes).await?;
        scene.check(scene.now() < until, || "another user's job waited".into());
        scene.check_shown_state("usable", 0, "usable")?;
        scene.await_end(waits).await?;
        let placed_at = scene.first_event_at(waits, "JobPlaced")?;
        scene.check(placed_at >= until, || {
            format!("it came back at {}", placed_at.0)
        });
        Ok(())
    })
}

/// Returns when the jobs of the one user may go to the site again, once that is known.
fn barred_until(scene: &StagedScene) -> Option<Timestamp> {
    let record = scene
        .plane_run
        .plane
        .view()
        .sites
        .get(&site_name(0).ok()?)
        .cloned()?;
    record.kept_off.first().map(|kept_off| kept_off.until)
}

async fn lose_job(scene: &StagedScene, id: JobId) -> Result<Timestamp> {
    scene.await_start(id).await?;
    scene.plan_fault(
        DurationMs(20),
        0,
        SiteFault::SiteDown {
            repair: DurationMs(1),
        },
    )?;
    scene.pass(DurationMs(20)).await;
    let at = scene.now();
    scene.pass(DurationMs(15)).await;
    scene.check_same(
        "lost at once",
        scene.first_event_at(id, "RoundAborted")?,
        at,
    );
    scene.ask(ApiRequest::Cancel(vec![id])).await?;
    scene.pass(DurationMs(15)).await;
    Ok(at)
}

/// Returns when it is probed next: after an interval that doubles, and is spread by chance.
fn probe_time(
    scene: &StagedScene,
    failed_at: Timestamp,
    trips: u32,
    parameters: &cospan_domain::site::site_parameters::SiteParameters,
) -> Result<Timestamp> {
    let name = site_name(0)?;
    let record = scene.plane_run.plane.view().sites.get(&name).cloned();
    let Some(Breaker::Open { probe_at, .. }) = record.map(|record| record.breaker.clone()) else {
        anyhow::bail!("the site is not unusable");
    };
    let least = failed_at + parameters.time_to_probe(trips, PerMillion(0));
    let most = failed_at + parameters.time_to_probe(trips, PerMillion::ONE);
    scene.check((least..=most).contains(&probe_at), || {
        format!(
            "probed at {} and not from {} to {}",
            probe_at.0, least.0, most.0
        )
    });
    if parameters.probe_spread > PerMillion(0) {
        scene.check(probe_at > least, || "nothing was spread".into());
    }
    Ok(probe_at)
}

async fn fail_probe(scene: &StagedScene, probe_at: Timestamp) -> Result<Timestamp> {
    let id = submit(scene, LONG).await?;
    let failed_at = lose_job(scene, id).await?;
    scene.check_same("probed", scene.first_event_at(id, "JobPlaced")?, probe_at);
    Ok(failed_at)
}

/// Lets jobs wait until then; one is let in, then two, and then all.
async fn try_out(scene: &StagedScene, probe_at: Timestamp, limit: u32) -> Result<()> {
    let mut jobs = Vec::new();
    for _ in 0..JOBS {
        jobs.push(submit(scene, DurationMs(2_000)).await?);
    }
    scene.plane_run.sleep_until(probe_at).await;
    scene.pass(DurationMs(20)).await;
    let mut allowed = 1;
    let mut expected = 0;
    loop {
        expected += allowed;
        scene.check_same(
            "let in",
            scene.call_times_since(probe_at, 0, "submit")?.len() as u32,
            expected,
        );
        scene.check_shown_state("tried out", 0, "probing")?;
        // Two that succeed at the same time double it twice, as far as it goes.
        if allowed == limit.min(2) {
            break;
        }
        allowed = 2;
        scene.pass(DurationMs(2_100)).await;
    }
    for id in &jobs {
        scene.await_end(*id).await?;
    }
    scene.pass(DurationMs(20)).await;
    Ok(())
}
