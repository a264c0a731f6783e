//! Processors of a job whose input is on its way are claimed at the planned times, and not
//! otherwise: where others have them then, at the next one, elsewhere, or from a less urgent job. A
//! site that did not start a claim is believed to have less.

use anyhow::Result;
use cospan_actors::api::command::ApiRequest;
use cospan_actors::journal::JournalChange;
use cospan_domain::ids::JobId;
use cospan_domain::job::job_event::JobEventKind;
use cospan_domain::job::job_state::{Job, JobPhase, PhaseKind};
use cospan_domain::job::spec::{JobSpec, Priority};
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::Play;
use super::stage::{BANDWIDTH, BEGINS, SceneStage, StagedScene, site_name, with_input};
use super::tidy::check_at_rest;
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::site_faults::SiteFault;
use cospan_simulator::world::world_site::LocalJob;

const DAY: DurationMs = DurationMs(86_400_000);
/// Time at which a job of a scene is submitted.
const SUBMITTED: Timestamp = Timestamp(BEGINS.0 + 2_000);
/// A hint, and the answer to what is asked because of it.
const HINTS: DurationMs = DurationMs(20);

/// Plays one of the stories, as drawn.
pub(super) fn play_claims(chance: &mut StdRng) -> Result<Vec<String>> {
    let stories: [Play; 4] = [on_time, taken_by_others, taken_by_others, never_started];
    stories[chance.random_range(0..stories.len())](chance)
}

/// The drawn settings of one transfer.
#[derive(Clone, Copy)]
struct ToldTransfer {
    size: u64,
    time: DurationMs,
}

fn draw_transfer(chance: &mut StdRng) -> ToldTransfer {
    let size = chance.random_range(20_000_000..=200_000_000_u64);
    ToldTransfer {
        size,
        time: DurationMs((size * 8_000).div_ceil(BANDWIDTH.0)),
    }
}

/// Returns the planned tries: L of what is left, but no less than the least step, up to the start.
fn planned_tries(transfer: DurationMs, l: PerMillion) -> Vec<Timestamp> {
    let start = SUBMITTED + transfer;
    let least = transfer.0.div_ceil(64).max(1_000);
    let mut all = vec![(SUBMITTED + transfer.scaled_by(l)).min(start)];
    while let Some(last) = all.last().copied().filter(|last| *last < start) {
        let step = start.since(last).scaled_by(l).0.max(least);
        all.push((last + DurationMs(step)).min(start));
    }
    all
}

async fn submit(scene: &StagedScene, spec: JobSpec) -> Result<JobId> {
    scene.plane_run.sleep_until(SUBMITTED).await;
    scene.submit(spec).await
}

/// Lists the events of a job, and when each became known.
fn timed_events(scene: &StagedScene, id: JobId) -> Vec<(Timestamp, JobEventKind)> {
    let mut all = Vec::new();
    for (at, change) in scene.changes() {
        if let JournalChange::Job { new, events, .. } = &*change
            && new.id == id
        {
            all.extend(events.iter().map(|event| (at, event.what.clone())));
        }
    }
    all
}

fn claim_time(scene: &StagedScene, id: JobId) -> Option<Timestamp> {
    timed_events(scene, id)
        .into_iter()
        .find(|(_, what)| {
            matches!(
                what,
                JobEventKind::ClaimBegun | JobEventKind::ComponentsClaimed { .. }
            )
        })
        .map(|(at, _)| at)
}

fn is_over(id: JobId) -> impl Fn(&StagedScene) -> bool {
    move |scene| scene.job_record(id).is_ok_and(|job| job.is_final())
}

/// Plays a job alone: one claim, at the first planned time, for which each site is asked once what
/// is idle, and which waits at the gate until the input is there.
fn on_time(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[1, 9], chance.random())?;
    let transfer = draw_transfer(chance);
    let file = stage.add_file(transfer.size, &[0])?;
    let l = PerMillion(1_000 * chance.random_range(100..=1_000));
    stage.settings.job.claim.l = l;
    let jobs = chance.random_range(1..=3);
    stage.hints = chance.random_bool(0.5);
    // Without hints the end of a copy and a gate are seen when each is asked for by itself.
    let seen = DurationMs(
        1_000
            + if stage.hints {
                0
            } else {
                2 * stage.settings.poll_interval.0
            },
    );
    stage.play_scene(move |scene| async move {
        let run_time = DurationMs(10_000);
        let spec = with_input(build_job(&[2], run_time, DurationMs(60_000), 0)?, file)?;
        let mut ids = vec![submit(&scene, spec.clone()).await?];
        for _ in 1..jobs {
            ids.push(scene.submit(spec.clone()).await?);
        }
        let planned = planned_tries(transfer.time, l)[0];
        scene.plane_run.sleep_until(planned - DurationMs(2)).await;
        for id in &ids {
            let explained = scene.plane_run.plane.explain_job(&*scene.job_record(*id)?);
            scene.check_same("when it is claimed", explained.next_claim, Some(planned));
        }
        scene.check_same(
            "claims before that",
            scene.call_counts().get("submit").copied(),
            None,
        );
        check_at_rest(&scene).await;
        scene
            .wait_for_change(DAY, |scene| ids.iter().all(|id| is_over(*id)(scene)))
            .await?;
        let here = SUBMITTED + transfer.time;
        for id in &ids {
            scene.check_same(
                "when it was claimed",
                claim_time(&scene, *id),
                Some(planned),
            );
            let job = scene.job_record(*id)?;
            scene.check_same("claims in vain", job.setbacks.claims, 0);
            let began = job.instants.started.unwrap_or_default();
            scene.check(here <= began && began <= here + seen, || {
                format!("it began at {} with its input due at {}", began.0, here.0)
            });
        }
        scene.check_same(
            "submissions",
            scene.call_counts().get("submit").copied(),
            Some(ids.len()),
        );
        check_at_rest(&scene).await;
        Ok(())
    })
}

/// The outcome of a claim whose processors a local user has by then.
#[derive(Clone, Copy, PartialEq)]
enum ClaimCase {
    /// It is tried again until they are free again.
    Waits,
    /// Another site has the file too.
    Moves,
    /// A less urgent job gives way.
    Preempts,
}

fn taken_by_others(chance: &mut StdRng) -> Result<Vec<String>> {
    let way = [ClaimCase::Waits, ClaimCase::Moves, ClaimCase::Preempts][chance.random_range(0..3)];
    // At the site that is named first there is never room for it.
    let mut stage = SceneStage::with_processors(&[1, 8, 6], chance.random())?;
    let transfer = draw_transfer(chance);
    let at: &[usize] = if way == ClaimCase::Moves {
        &[0, 2]
    } else {
        &[0]
    };
    let file = stage.add_file(transfer.size, at)?;
    if way == ClaimCase::Waits {
        // Then sites are asked at each try whether there is room.
        stage.hints = chance.random_bool(0.5);
    } else {
        stage.settings.job.claim.threshold = PerMillion(0);
    }
    let l = stage.settings.job.claim.l;
    let planned = planned_tries(transfer.time, l);
    // A site's answer says nothing two minutes later.
    let early = planned[0].since(SUBMITTED).0 - 5_000;
    let came = planned[0] - DurationMs(5_000 + chance.random_range(0..=early.min(60_000) - 100));
    // Until a moment between the first and the last try, or longer.
    let until = planned[0] + DurationMs(chance.random_range(500..=transfer.time.0 / 5));
    let stays = if way == ClaimCase::Waits {
        until.since(came)
    } else {
        DAY
    };
    let victims = if way == ClaimCase::Preempts { 3 } else { 0 };
    let local = LocalJob {
        at: came,
        processors: 6 - victims,
        run_time: stays,
        estimate: stays,
    };
    stage.locals = vec![(1, local)];
    // The third site has room for it only where it is to move there.
    if way != ClaimCase::Moves {
        let fills = LocalJob {
            at: BEGINS,
            processors: 6,
            run_time: DAY,
            estimate: DAY,
        };
        stage.locals.push((2, fills));
    } else {
        let early = DurationMs(came.since(BEGINS).0 + 1_000);
        stage.locals.push((
            2,
            LocalJob {
                at: BEGINS,
                processors: 6,
                run_time: early,
                estimate: early,
            },
        ));
    }
    stage.play_scene(move |scene| async move {
        scene.pass(DurationMs(1_000)).await;
        let victim = match way {
            ClaimCase::Preempts => Some(scene.submit(build_job(&[3], DAY, DAY, 0)?).await?),
            ClaimCase::Waits | ClaimCase::Moves => None,
        };
        let spec = with_input(
            build_job(&[4], DurationMs(10_000), DurationMs(60_000), 0)?,
            file,
        )?;
        let id = submit(
            &scene,
            JobSpec {
                priority: Priority::High,
                ..spec
            },
        )
        .await?;
        scene.pass(DurationMs(50)).await;
        let placed = scene.job_record(id)?;
        scene.check_same(
            "where it is placed",
            at_site(&placed),
            Some(site_name(1)?.to_string()),
        );
        scene.wait_for_change(DAY, is_over(id)).await?;
        match way {
            ClaimCase::Waits => check_waited(&scene, id, &planned, until)?,
            ClaimCase::Moves => check_moved(&scene, id, planned[0])?,
            ClaimCase::Preempts => check_preempted(&scene, id, victim, planned[0])?,
        }
        let over = scene.job_record(id)?;
        scene.check_same("how it ends", over.phase.kind(), PhaseKind::Finished);
        check_at_rest(&scene).await;
        Ok(())
    })
}

fn at_site(job: &Job) -> Option<String> {
    Some(job.components.first()?.placement.as_ref()?.site.to_string())
}

/// Checks that each try before the processors were free again failed, and the next one did not.
fn check_waited(
    scene: &StagedScene,
    id: JobId,
    planned: &[Timestamp],
    until: Timestamp,
) -> Result<()> {
    let missed = timed_events(scene, id)
        .into_iter()
        .filter_map(|(at, what)| match what {
            JobEventKind::ClaimMissed { next_claim, .. } => Some((at, next_claim)),
            _ => None,
        });
    let missed: Vec<(Timestamp, Timestamp)> = missed.collect();
    let before = planned.iter().take_while(|at| **at < until).count();
    let should: Vec<_> = planned
        .windows(2)
        .take(before)
        .map(|two| (two[0], two[1]))
        .collect();
    scene.check_same("claims in vain", missed, should);
    scene.check_same(
        "when it was claimed",
        claim_time(scene, id),
        planned.get(before).copied(),
    );
    scene.check_same(
        "counted",
        scene.job_record(id)?.setbacks.claims as usize,
        before,
    );
    Ok(())
}

fn check_moved(scene: &StagedScene, id: JobId, planned: Timestamp) -> Result<()> {
    scene.check_same("when it was claimed", claim_time(scene, id), Some(planned));
    scene.check_same(
        "where it went",
        at_site(&*scene.job_record(id)?),
        Some(site_name(2)?.to_string()),
    );
    let calls = scene.calls();
    let submits: Vec<_> = calls
        .iter()
        .filter(|called| called.call == "submit")
        .collect();
    scene.check_same("submissions", submits.len(), 1);
    scene.check(submits.iter().all(|called| called.at == planned), || {
        format!("{submits:?}")
    });
    Ok(())
}

fn check_preempted(
    scene: &StagedScene,
    id: JobId,
    victim: Option<JobId>,
    planned: Timestamp,
) -> Result<()> {
    let Some(victim) = victim else { return Ok(()) };
    scene.check_same("when it was claimed", claim_time(scene, id), Some(planned));
    let gave_way = timed_events(scene, victim).into_iter();
    let gave_way: Vec<Timestamp> = gave_way
        .filter(|(_, what)| matches!(what, JobEventKind::RoundAborted { .. }))
        .map(|(at, _)| at)
        .collect();
    scene.check_same("when the other gave way", gave_way, vec![planned]);
    scene.check_same(
        "whom it preempted",
        scene.job_record(id)?.preempting.clone(),
        vec![victim],
    );
    let job = scene.job_record(victim)?;
    scene.check_same("how often it gave way", job.setbacks.preemptions, 1);
    Ok(())
}

/// Plays a claim that a site takes and does not start: it is given up in time, the site is believed
/// to have less until it is asked again, and the job comes back to its queue.
fn never_started(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[8], chance.random())?;
    let processors = chance.random_range(2..=8);
    let timeout = DurationMs(1_000 * chance.random_range(30..=200));
    stage.settings.job.claim_timeout = timeout;
    stage.hints = chance.random_bool(0.5);
    stage.play_scene(move |scene| async move {
        scene.pass(DurationMs(1_000)).await;
        let site = site_name(0)?;
        scene.inject_fault(&site, SiteFault::Drained(true));
        scene.plane_run.sleep_until(SUBMITTED).await;
        let id = scene
            .submit(build_job(&[processors], DurationMs(5_000), DAY, 0)?)
            .await?;
        scene.pass(DurationMs(1)).await;
        scene.check_same(
            "when it was claimed",
            claim_time(&scene, id),
            Some(SUBMITTED),
        );
        let lost = scene
            .wait_for_change(DAY, |scene: &StagedScene| {
                scene
                    .job_record(id)
                    .is_ok_and(|job| !matches!(job.phase, JobPhase::Claiming { .. }))
            })
            .await?;
        scene.check(
            lost.since(SUBMITTED) >= timeout && lost <= SUBMITTED + timeout + HINTS,
            || format!("given up after {}, not {timeout}", lost.since(SUBMITTED)),
        );
        let live = &scene.plane_run.plane.shared().live;
        let report = live.site_report(&site).unwrap_or_default();
        let asked = report.idle.as_ref().map(|(at, _)| *at).unwrap_or_default();
        let most = live.most_processors_left(&site, SUBMITTED);
        scene.check(asked >= lost || most == Some(processors - 1), || {
            format!("asked at {} it is believed to have {most:?}", asked.0)
        });
        scene.inject_fault(&site, SiteFault::Drained(false));
        scene.wait_for_change(DAY, is_over(id)).await?;
        scene.check_same(
            "what is believed later",
            live.most_processors_left(&site, scene.now()),
            None,
        );
        let setbacks = scene.job_record(id)?.setbacks;
        scene.check_same("rounds lost", setbacks.rounds, 1);
        scene.ask(ApiRequest::Cancel(vec![id])).await?;
        check_at_rest(&scene).await;
        Ok(())
    })
}
