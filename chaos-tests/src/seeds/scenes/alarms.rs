//! Administrators get one message about a site that falls silent or refuses us, at that moment;
//! where a message is lost, all are sent again after 2, 4, 8 ... seconds. A user with a job there
//! can see what it waits for, and may give it up.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use cospan_actors::api::command::{ApiAnswer, ApiRequest, JobCommandOutcome, OperatorCommand};
use cospan_actors::job::SilentSiteComponent;
use cospan_actors::journal::JournalChange;
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::job_state::PhaseKind;
use cospan_domain::job::spec::JobSpec;
use cospan_domain::site::contact::SiteContact;
use cospan_domain::site::site_state::{SiteNotificationId, SiteNotificationKind};
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::Play;
use super::stage::{SceneStage, StagedScene, site_name};
use super::tidy::check_at_rest;
use cospan_simulator::call_faults::FaultRates;
use cospan_simulator::fault_kinds::FaultKind;
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::site_faults::SiteFault;

const DAY: DurationMs = DurationMs(86_400_000);

/// Plays one of the stories, as drawn.
pub(super) fn play_alarms(chance: &mut StdRng) -> Result<Vec<String>> {
    let stories: [Play; 3] = [alarm_messages, given_up, site_commands];
    stories[chance.random_range(0..stories.len())](chance)
}

/// Sets up sites; each second message about them is lost, if `loses`.
fn stage(chance: &mut StdRng, loses: bool) -> Result<SceneStage> {
    let mut stage = SceneStage::with_processors(&[4, 4, 4], chance.random())?;
    if loses {
        let faults = BTreeMap::from([(FaultKind::Refused, 0)]);
        stage.fault_rates = FaultRates {
            faults,
            ..FaultRates::default()
        };
    }
    Ok(stage)
}

/// Submits a job to the first site.
async fn submit_at_first(scene: &StagedScene, run_time: DurationMs) -> Result<JobId> {
    let mut spec: JobSpec = build_job(&[3], run_time, DAY, 0)?;
    spec.request = cospan_domain::job::spec::RequestType::Fixed;
    spec.components[0].site = Some(site_name(0)?);
    spec.on_unreachable = cospan_domain::job::spec::UnreachableAction::Wait;
    scene.submit(spec).await
}

/// A message, when it came to be owed, and when it was owed no more.
type OwedMessage = (
    SiteNotificationId,
    SiteNotificationKind,
    Timestamp,
    Option<Timestamp>,
);

/// Lists when a site's record came to owe a message, and when it owed it no more.
fn owed_messages(scene: &StagedScene, site: &SiteName) -> Vec<OwedMessage> {
    let mut all: Vec<OwedMessage> = Vec::new();
    for (at, change) in scene.changes() {
        let JournalChange::Site { new, .. } = &*change else {
            continue;
        };
        if new.site != *site {
            continue;
        }
        for owed in &new.owed {
            if all.iter().all(|(id, ..)| *id != owed.id) {
                all.push((owed.id, owed.kind, at, None));
            }
        }
        for (id, _, _, sent) in &mut all {
            let owes = new.owed.iter().any(|owed| owed.id == *id);
            *sent = sent.or((!owes).then_some(at));
        }
    }
    all
}

fn alarm_messages(chance: &mut StdRng) -> Result<Vec<String>> {
    let loses = chance.random_bool(0.6);
    let mut stage = stage(chance, loses)?;
    let hooks = chance.random_range(0..=2);
    let revoked = chance.random_bool(0.5);
    let names = [Some(site_name(0)?), None, Some(site_name(1)?)];
    for (number, of) in names.into_iter().enumerate().take(hooks) {
        let hook: Arc<str> = format!("hook-{number}").into();
        stage.settings.webhooks.insert(of, vec![hook]);
    }
    // Messages about the second site go to another receiver.
    stage
        .settings
        .webhooks
        .insert(Some(site_name(1)?), vec!["hook-9".into()]);
    stage.play_scene(move |scene| async move {
        let site = site_name(0)?;
        scene.pass(DurationMs(1_000)).await;
        submit_at_first(&scene, DAY).await?;
        scene.pass(DurationMs(10_000)).await;
        let trouble = if revoked {
            SiteFault::Revoked(true)
        } else {
            SiteFault::Silent(true)
        };
        scene.inject_fault(&site, trouble);
        let struck = scene.now();
        scene
            .wait_for_change(DAY, |scene| !owed_messages(scene, &site).is_empty())
            .await?;
        scene
            .wait_for_change(DAY, |scene: &StagedScene| {
                owed_messages(scene, &site)
                    .iter()
                    .all(|(.., sent)| sent.is_some())
            })
            .await?;
        check_at_rest(&scene).await;
        let metrics = &scene.plane_run.plane.shared().metrics.notifications;
        let sent = metrics.with_label_values(&["sent"]).get();
        let failed = metrics.with_label_values(&["failed"]).get();
        let all = owed_messages(&scene, &site);
        scene.check_same("messages owed", all.len(), 1);
        scene.check_same("messages sent", sent, 1);
        scene.check(loses && hooks > 0 || failed == 0, || {
            format!("{failed} messages were lost")
        });
        let pauses =
            (1..=failed as u32).map(|failures| (1_u64 << failures.min(9)).min(300) * 1_000);
        let waited = DurationMs(pauses.sum());
        for (id, kind, at, out) in all {
            scene.check(at > struck, || format!("{kind:?} is told at {}", at.0));
            scene.check_same("when it was out", out, Some(at + waited));
            let arrived = scene.plane_run.call_faults.arrived_at(&site, id);
            scene.check_same(
                "when it arrived",
                arrived,
                (hooks > 0).then_some(at + waited),
            );
        }
        scene.pass(DurationMs(60_000)).await;
        scene.check_same(
            "messages sent later",
            metrics.with_label_values(&["sent"]).get(),
            1,
        );
        check_at_rest(&scene).await;
        Ok(())
    })
}

fn outcome_of(
    id: JobId,
    outcome: JobCommandOutcome,
) -> Result<ApiAnswer, cospan_actors::api::command::ApiRefusal> {
    Ok(ApiAnswer::Jobs(vec![(id, outcome)]))
}

/// Cancels a job at a site that falls silent; its user gives it up.
fn given_up(chance: &mut StdRng) -> Result<Vec<String>> {
    let stage = stage(chance, false)?;
    let pause = DurationMs(chance.random_range(100..=4_000));
    let cancels = chance.random_bool(0.5);
    stage.play_scene(move |scene| async move {
        let site = site_name(0)?;
        scene.pass(DurationMs(1_000)).await;
        let id = submit_at_first(&scene, DAY).await?;
        scene.pass(pause + DurationMs(5_000)).await;
        scene.inject_fault(&site, SiteFault::Silent(true));
        scene.pass(DurationMs(1)).await;
        if !cancels {
            check_too_soon(&scene, id, &site).await?;
        }
        scene
            .wait_until(DAY, |scene: &StagedScene| {
                let standing = scene.plane_run.plane.site_overview(&site);
                standing.is_some_and(|site| {
                    matches!(site.report.contact, SiteContact::Unreachable { .. })
                })
            })
            .await?;
        let explained = scene
            .plane_run
            .plane
            .explain_job(&*scene.job_record(id)?)
            .silence;
        let why = "which does not answer";
        let attempt = SilentSiteComponent {
            component: "part-0".into(),
            site: site.clone(),
            why,
        };
        scene.check_same("what may run unheard", explained.attempts, vec![attempt]);
        scene.check_same("whether we are cut off", explained.isolated, false);
        let waits = JobCommandOutcome::Waits(format!(
            "component part-0 may still run at {site}, which does not answer; it is ended once \
             that site answers; if that site is gone for good, give it up with `cospan cancel \
             --abandon {id}`"
        ));
        if cancels {
            let answer = scene.ask(ApiRequest::Cancel(vec![id])).await;
            scene.check_same("a cancellation", answer, outcome_of(id, waits.clone()));
        }
        let answer = scene.ask(ApiRequest::Cancel(vec![id])).await;
        scene.check_same("another cancellation", answer, outcome_of(id, waits));
        check_at_rest(&scene).await;
        let answer = scene.ask(ApiRequest::Abandon(vec![id])).await;
        scene.check_same(
            "giving it up",
            answer,
            outcome_of(id, JobCommandOutcome::Done),
        );
        scene.check_same(
            "how it ends",
            scene.job_record(id)?.phase.kind(),
            PhaseKind::Cancelled,
        );
        let answer = scene.ask(ApiRequest::Abandon(vec![id])).await;
        let should = JobCommandOutcome::Unchanged("it is cancelled".into());
        scene.check_same("giving it up again", answer, outcome_of(id, should));
        check_at_rest(&scene).await;
        Ok(())
    })
}

/// Checks that a site that answered just now is not given up.
async fn check_too_soon(scene: &StagedScene, id: JobId, site: &SiteName) -> Result<()> {
    let contact = scene
        .plane_run
        .plane
        .site_overview(site)
        .map(|site| site.report.contact);
    let Some(SiteContact::Answering { last_at }) = contact else {
        scene.check(false, || format!("{contact:?} just after it fell silent"));
        return Ok(());
    };
    let heard = scene.now().since(last_at);
    let answer = scene.ask(ApiRequest::Abandon(vec![id])).await;
    let should = JobCommandOutcome::Waits(format!(
        "not given up: component part-0 at {site}, which answered {heard} ago; repeat in a minute \
         if it is not over then"
    ));
    scene.check_same("giving up too soon", answer, outcome_of(id, should));
    Ok(())
}

/// Checks that commands about sites are carried out, or refused with a reason; a job that has not
/// begun leaves a site that is drained, one that runs does not, and no other is touched.
fn site_commands(chance: &mut StdRng) -> Result<Vec<String>> {
    use cospan_actors::api::command::ApiRefusal;
    let mut stage = stage(chance, false)?;
    let file = stage.add_file(chance.random_range(50_000_000..=90_000_000), &[2])?;
    stage.play_scene(move |scene| async move {
        let first = site_name(0)?;
        let nowhere = SiteName::new("nowhere")?;
        scene.pass(DurationMs(1_000)).await;
        let answer = scene
            .ask(ApiRequest::Site(nowhere, OperatorCommand::Drain))
            .await;
        let known = format!("{first}, {}, {}", site_name(1)?, site_name(2)?);
        let text = format!("no site is called nowhere; there are: {known}");
        scene.check_same(
            "an order about no site",
            answer,
            Err(ApiRefusal::NotFound(text)),
        );
        let runs = submit_at_first(&scene, DAY).await?;
        let mut placed = Vec::new();
        for _ in 0..2 {
            let spec = build_job(&[1], DurationMs(1_000), DAY, 0)?;
            placed.push(scene.submit(super::stage::with_input(spec, file)?).await?);
        }
        let mut fixed =
            super::stage::with_input(build_job(&[1], DurationMs(1_000), DAY, 0)?, file)?;
        fixed.request = cospan_domain::job::spec::RequestType::Fixed;
        fixed.components[0].site = Some(first.clone());
        let fixed = scene.submit(fixed).await?;
        scene.pass(DurationMs(500)).await;
        scene.check_same(
            "where it stands",
            scene.job_record(fixed)?.phase.kind(),
            PhaseKind::Placed,
        );
        let before = scene.changes().len();
        for (order, undone) in [
            (OperatorCommand::Freeze, OperatorCommand::Thaw),
            (OperatorCommand::Drain, OperatorCommand::Undrain),
        ] {
            let leaves = order == OperatorCommand::Drain;
            let answer = scene
                .ask(ApiRequest::Site(first.clone(), order.clone()))
                .await;
            scene.check_same("an order", answer, Ok(ApiAnswer::Done));
            scene.pass(DurationMs(10)).await;
            let kind = if leaves {
                PhaseKind::Queued
            } else {
                PhaseKind::Placed
            };
            scene.check_same(
                "one that has not begun",
                scene.job_record(fixed)?.phase.kind(),
                kind,
            );
            let answer = scene.ask(ApiRequest::Site(first.clone(), order)).await;
            let text = format!("site {first}: it is so already");
            scene.check_same("the same order", answer, Err(ApiRefusal::Conflict(text)));
            let answer = scene.ask(ApiRequest::Site(first.clone(), undone)).await;
            scene.check_same("its opposite", answer, Ok(ApiAnswer::Done));
            scene.pass(DurationMs(10)).await;
        }
        scene.check_same(
            "one that runs",
            scene.job_record(runs)?.phase.kind(),
            PhaseKind::Running,
        );
        scene.check(scene.changes().len() - before <= 16, || {
            "orders write too much".into()
        });
        scene.check_same(
            "one that came back",
            scene.job_record(fixed)?.phase.kind(),
            PhaseKind::Placed,
        );
        scene
            .wait_for_change(DAY, |scene: &StagedScene| {
                placed
                    .iter()
                    .all(|id| scene.job_record(*id).is_ok_and(|job| job.is_final()))
            })
            .await?;
        check_at_rest(&scene).await;
        Ok(())
    })
}
