//! A job whose actor dies again and again is held, and nothing else is: it keeps its place, is
//! shown as held, takes commands at once, also after a restart, and goes on when it is released.
//! Actors die in a chaos build only.

use anyhow::Result;
use rand::rngs::StdRng;

#[cfg(not(cospan_chaos))]
pub(super) fn wrong(_: &mut StdRng) -> Result<Vec<String>> {
    Ok(Vec::new())
}

#[cfg(cospan_chaos)]
pub(super) use dying::wrong;

#[cfg(cospan_chaos)]
mod dying {
    use cospan_actors::api::command::{ApiAnswer, ApiRequest, JobCommandOutcome};
    use cospan_actors::chaos::{CrashPoint, set_panic_hook};
    use cospan_actors::coallocator::{StartEstimate, WaitCause};
    use cospan_actors::supervision::ActorKind;
    use cospan_domain::ids::JobId;
    use cospan_domain::job::job_state::{JobPhase, PhaseKind};
    use cospan_domain::queue::WaitingCondition;
    use cospan_domain::units::DurationMs;
    use rand::Rng;

    use super::super::stage::{BEGINS, SceneStage, StagedScene};
    use super::super::tidy::check_at_rest;
    use super::*;
    use cospan_simulator::jobs::build_job;

    const DAY: DurationMs = DurationMs(86_400_000);
    /// Number of deaths within a minute that is too many.
    const DEATHS: u32 = 3;

    pub(in super::super) fn wrong(chance: &mut StdRng) -> Result<Vec<String>> {
        let stage = SceneStage::with_processors(&[4], chance.random())?;
        let run_time = DurationMs(1_000 * chance.random_range(60..=200));
        let waits = chance.random_bool(0.5);
        let set = stage.set_up();
        let (ended, mut found) = set.run_control_plane(BEGINS, move |scene| async move {
            scene.pass(DurationMs(1_000)).await;
            let first = scene.submit(build_job(&[4], run_time, DAY, 0)?).await?;
            let second = scene.submit(build_job(&[4], run_time, DAY, 0)?).await?;
            scene.pass(DurationMs(1_000)).await;
            let id = if waits { second } else { first };
            kill_job_actors(DEATHS);
            let answer = scene.ask(ApiRequest::Freeze(vec![id])).await;
            scene.check_same("an order", answer, Ok(done(id)));
            let reason = scene.job_record(id)?.held.clone();
            let text = "the actor that works on it died again and again; see the log, then `cospan \
                        release` or `cospan cancel`";
            scene.check_same("why it is held", reason.as_deref(), Some(text));
            check_held(&scene, id, waits).await
        })?;
        let later = ended + DurationMs(chance.random_range(1_000..=50_000));
        let again = set.run_control_plane(later, move |scene| async move {
            scene.pass(DurationMs(2_000)).await;
            let id = JobId(if waits { 2 } else { 1 });
            check_held(&scene, id, waits).await?;
            check_released(&scene, id).await
        })?;
        found.extend(again.1);
        Ok(found)
    }

    /// Lets actors of jobs die so many times at their next message.
    fn kill_job_actors(mut times: u32) {
        set_panic_hook(Some(Box::new(move |effect, point| {
            let strikes =
                times > 0 && point == CrashPoint::HandlerEntry && effect == ActorKind::Job.as_str();
            times -= u32::from(strikes);
            strikes
        })));
    }

    fn done(id: JobId) -> ApiAnswer {
        ApiAnswer::Jobs(vec![(id, JobCommandOutcome::Done)])
    }

    async fn check_held(scene: &StagedScene, id: JobId, waits: bool) -> Result<()> {
        check_at_rest(scene).await;
        let plane = &scene.plane_run.plane;
        let job = scene.job_record(id)?;
        let Some(reason) = &job.held else {
            scene.check(false, || "it is not held".into());
            return Ok(());
        };
        let explained = plane.explain_job(&job);
        scene.check_same(
            "what it waits for",
            explained.wait,
            WaitCause::Held(reason.to_string()),
        );
        let should = StartEstimate::Unknown("it is held".into());
        scene.check_same("when it starts", explained.estimate, should);
        let kind = if waits {
            PhaseKind::Queued
        } else {
            PhaseKind::Running
        };
        scene.check_same("where it stands", job.phase.kind(), kind);
        if waits {
            let standing = plane
                .queue_standing(id)
                .await
                .map(|standing| standing.condition);
            scene.check_same(
                "whether it is tried",
                standing,
                Some(WaitingCondition::Frozen),
            );
        }
        let at = scene.now();
        let answer = scene.ask(ApiRequest::Thaw(vec![id])).await;
        scene.check_same("a thaw", answer, Ok(done(id)));
        let answer = scene.ask(ApiRequest::Freeze(vec![id])).await;
        scene.check_same("a freeze", answer, Ok(done(id)));
        scene.check_same("when a held one was thawed", scene.now(), at);
        Ok(())
    }

    async fn check_released(scene: &StagedScene, id: JobId) -> Result<()> {
        let answer = scene.ask(ApiRequest::Release(vec![id])).await;
        scene.check_same("a release", answer, Ok(done(id)));
        scene.check_same("why it is held", scene.job_record(id)?.held.clone(), None);
        let answer = scene.ask(ApiRequest::Release(vec![id])).await;
        let so = JobCommandOutcome::Unchanged("it is so already".into());
        scene.check_same(
            "another release",
            answer,
            Ok(ApiAnswer::Jobs(vec![(id, so)])),
        );
        scene.ask(ApiRequest::Thaw(vec![id])).await?;
        check_at_rest(scene).await;
        scene
            .wait_for_change(DAY, move |scene: &StagedScene| {
                let mut jobs = [JobId(1), JobId(2)].into_iter();
                jobs.all(|id| {
                    scene
                        .job_record(id)
                        .is_ok_and(|job| matches!(job.phase, JobPhase::Finished { .. }))
                })
            })
            .await?;
        check_at_rest(scene).await;
        Ok(())
    }
}
