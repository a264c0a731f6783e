//! A job that waits has the processors at the moment at which they are free, in order of priority
//! and of time, is shown where it stands, and rises or is given up after exactly so many tries.

use std::sync::Arc;

use anyhow::Result;
use cospan_actors::api::command::{ApiRequest, JobSubmission, OperatorCommand};
use cospan_actors::coallocator::WaitCause;
use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::job::spec::{JobSpec, Priority};
use cospan_domain::queue::WaitingCondition;
use cospan_domain::runner::SweepTask;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::Play;
use super::stage::{SceneStage, StagedScene, site_name};
use super::tidy::check_at_rest;
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::site_faults::SiteFault;

/// Longest time between the end of a job and the placement of the next: its end and the idle
/// processors are asked for on hints, each at most 10 ms after the site was asked before.
const HINTS: DurationMs = DurationMs(20);
/// Longest way to a site, and back, where there is any.
const WAY: DurationMs = DurationMs(400);
const DAY: DurationMs = DurationMs(86_400_000);

/// Plays one of the stories, as drawn.
pub(super) fn play_turns(chance: &mut StdRng) -> Result<Vec<String>> {
    let stories: [Play; 4] = [in_order, play_promotion, play_sweep, play_reopening];
    stories[chance.random_range(0..stories.len())](chance)
}

fn of_class(processors: u32, run_time: DurationMs, priority: Priority) -> Result<JobSpec> {
    let wall_time = run_time + DurationMs(60_000);
    Ok(JobSpec {
        priority,
        ..build_job(&[processors], run_time, wall_time, 0)?
    })
}

fn placed_at(scene: &StagedScene, id: JobId) -> Result<Option<Timestamp>> {
    Ok(scene.job_record(id)?.instants.placed)
}

fn is_over(id: JobId) -> impl Fn(&StagedScene) -> bool {
    move |scene| scene.job_record(id).is_ok_and(|job| job.is_final())
}

/// Plays jobs that need all of the only site, one after the other.
fn in_order(chance: &mut StdRng) -> Result<Vec<String>> {
    let processors = chance.random_range(1..=8);
    let mut stage = SceneStage::with_processors(&[processors], chance.random())?;
    // An answer of the site is on its way for a while, so that it knows nothing of what is
    // submitted then.
    stage.fault_rates.way_max = WAY;
    let mut classes = Priority::ALL.to_vec();
    classes.push(Priority::Low);
    classes.shuffle(chance);
    // Longer than all of them take to be submitted, and asked for where they stand.
    let run_time = DurationMs(1_000 * chance.random_range(5..=50));
    stage.play_scene(move |scene| async move {
        // The site is asked for its description and its state: there and back, twice.
        scene.pass(DurationMs(5 * WAY.0)).await;
        let begun = scene.now();
        let first = scene
            .submit(of_class(processors, run_time, Priority::Low)?)
            .await?;
        let mut jobs: Vec<(Priority, JobId)> = Vec::new();
        for class in classes {
            scene.pass(DurationMs(10)).await;
            jobs.push((
                class,
                scene.submit(of_class(processors, run_time, class)?).await?,
            ));
        }
        scene.pass(DurationMs(10)).await;
        jobs.sort_by_key(|(class, id)| (std::cmp::Reverse(*class), *id));
        check_standings(&scene, &jobs).await?;
        check_at_rest(&scene).await;
        scene.wait_for_change(DAY, all_over).await?;
        check_each_at_an_end(&scene, 1, DurationMs(4 * WAY.0))?;
        for pair in jobs.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            let before = placed_at(&scene, pair[0].1)?;
            let after = placed_at(&scene, pair[1].1)?;
            scene.check(before < after, || {
                format!("{} is overtaken in its class", pair[0].1)
            });
        }
        scene.check_same("who is first", placed_at(&scene, first)?, Some(begun));
        check_at_rest(&scene).await;
        Ok(())
    })
}

fn all_over(scene: &StagedScene) -> bool {
    scene
        .plane_run
        .plane
        .view()
        .jobs
        .values()
        .all(|job| job.is_final())
}

async fn check_standings(scene: &StagedScene, jobs: &[(Priority, JobId)]) -> Result<()> {
    for (class, id) in jobs {
        let standing = scene.plane_run.plane.queue_standing(*id).await;
        let ahead = jobs
            .iter()
            .filter(|(other, before)| other == class && before < id)
            .count();
        let shown = standing.map(|s| (s.priority, s.ahead, s.condition, s.tries));
        scene.check_same(
            "where it stands",
            shown,
            Some((*class, ahead, WaitingCondition::Ready, 0)),
        );
        let wait = scene
            .plane_run
            .plane
            .explain_job(&*scene.job_record(*id)?)
            .wait;
        scene.check_same("what it waits for", wait, WaitCause::Placement);
    }
    let nobody = scene.plane_run.plane.queue_standing(JobId(99_999)).await;
    scene.check(nobody.is_none(), || format!("no job stands at {nobody:?}"));
    Ok(())
}

/// Plays a job for which there is no room and which has one try an interval: after so many it
/// rises, and after so many more it rises again; after too many it fails.
fn play_promotion(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[2], chance.random())?;
    let interval = DurationMs(1_000 * chance.random_range(2..=120));
    let after: u32 = chance.random_range(1..=3);
    let most = 2 * after + chance.random_range(1..=3);
    let own = chance.random_bool(0.5).then_some(most);
    stage.settings.queue.scan_interval = interval;
    stage.settings.queue.promote_after = Some(after);
    stage.settings.queue.max_placement_tries = own.is_none().then_some(most);
    stage.play_scene(move |scene| async move {
        scene.pass(DurationMs(1_000)).await;
        // From when a job waits, scans come once an interval.
        let entered = scene.now();
        let all = scene.submit(of_class(2, DAY, Priority::Low)?).await?;
        scene.pass(DurationMs(1_000)).await;
        let spec = of_class(1, DurationMs(1_000), Priority::Low)?;
        let id = scene
            .submit(JobSpec {
                max_placement_tries: own,
                ..spec
            })
            .await?;
        let is = |class| {
            move |scene: &StagedScene| scene.job_record(id).is_ok_and(|job| job.priority == class)
        };
        let at = scene.wait_for_change(DAY, is(Priority::High)).await?;
        let tried = DurationMs(interval.0 * u64::from(after));
        scene.check_same("when it is high", at, entered + tried);
        scene.check_same("that it was promoted", scene.job_record(id)?.promoted, true);
        check_at_rest(&scene).await;
        let at = scene.wait_for_change(DAY, is(Priority::SuperHigh)).await?;
        let tried = DurationMs(interval.0 * u64::from(2 * after));
        scene.check_same("when it is super-high", at, entered + tried);
        let at = scene.wait_for_change(DAY, is_over(id)).await?;
        let tried = DurationMs(interval.0 * u64::from(most + 1));
        scene.check_same("when it is given up", at, entered + tried);
        let reason = format!("not placed after {} tries (max_placement_tries)", most + 1);
        let should = JobPhase::Failed {
            at,
            reason: reason.into(),
        };
        scene.check_same("how it ends", scene.job_record(id)?.phase.clone(), should);
        check_at_rest(&scene).await;
        scene.ask(ApiRequest::Cancel(vec![all])).await?;
        Ok(())
    })
}

/// Plays a sweep with so many runs at once: the next has its turn when one is over.
fn play_sweep(chance: &mut StdRng) -> Result<Vec<String>> {
    let stage = SceneStage::with_processors(&[16], chance.random())?;
    let limit = chance.random_range(1..=3);
    let count = limit + chance.random_range(1..=3);
    let times: Vec<u64> = (0..count)
        .map(|_| 1_000 * chance.random_range(10..=60))
        .collect();
    stage.play_scene(move |scene| async move {
        scene.pass(DurationMs(1_000)).await;
        let mut all = Vec::new();
        for (index, time) in (0..).zip(&times) {
            let mut spec = of_class(1, DurationMs(*time), Priority::Low)?;
            let group = JobId(0);
            let values = Default::default();
            spec.run.task = Some(SweepTask {
                group,
                index,
                count,
                at_once: Some(limit),
                values,
            });
            all.push(JobSubmission::from_spec(Arc::new(spec)));
        }
        scene.ask(ApiRequest::Submit(all)).await?;
        scene.pass(DurationMs(100)).await;
        check_sweep_turns(&scene, limit, count)?;
        check_at_rest(&scene).await;
        scene.wait_for_change(DAY, all_over).await?;
        check_each_at_an_end(&scene, limit as usize, DurationMs::ZERO)?;
        check_at_rest(&scene).await;
        Ok(())
    })
}

fn check_sweep_turns(scene: &StagedScene, limit: u32, count: u32) -> Result<()> {
    for id in 1..=u64::from(count) {
        let job = scene.job_record(JobId(id))?;
        let has_turn = id <= u64::from(limit);
        scene.check_same(
            "whether it has its turn",
            job.instants.placed.is_some(),
            has_turn,
        );
        let should = if has_turn {
            WaitCause::Phase
        } else {
            WaitCause::Turn(limit)
        };
        scene.check_same(
            "what it waits for",
            scene.plane_run.plane.explain_job(&job).wait,
            should,
        );
    }
    Ok(())
}

/// Checks that each job but the first few is placed when one before it is over.
fn check_each_at_an_end(scene: &StagedScene, at_once: usize, ways: DurationMs) -> Result<()> {
    let view = scene.plane_run.plane.view();
    let mut ends: Vec<Timestamp> = view
        .jobs
        .values()
        .filter_map(|job| job.ended_at())
        .collect();
    let mut places: Vec<Timestamp> = view
        .jobs
        .values()
        .filter_map(|job| job.instants.placed)
        .collect();
    ends.sort();
    places.sort();
    for (placed, end) in places.into_iter().skip(at_once).zip(ends) {
        scene.check(end <= placed && placed <= end + HINTS + ways, || {
            format!(
                "one is placed at {} when another ended at {}",
                placed.0, end.0
            )
        });
    }
    Ok(())
}

/// Plays sites that take nothing for a while: a waiting job is placed at the moment at which one
/// does.
fn play_reopening(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[4, 4], chance.random())?;
    stage.hints = chance.random_bool(0.5);
    let orders = match chance.random_range(0..3) {
        0 => Some((OperatorCommand::Freeze, OperatorCommand::Thaw)),
        1 => Some((OperatorCommand::Drain, OperatorCommand::Undrain)),
        _ => None,
    };
    let length = DurationMs(1_000 * chance.random_range(70..=200));
    stage.play_scene(move |scene| async move {
        scene.pass(DurationMs(5_000)).await;
        let sites = [site_name(0)?, site_name(1)?];
        for site in &sites {
            match &orders {
                Some((close, _)) => drop(
                    scene
                        .ask(ApiRequest::Site(site.clone(), close.clone()))
                        .await?,
                ),
                None => scene.inject_fault(site, SiteFault::Silent(true)),
            }
        }
        let unheard = orders.is_none();
        if unheard {
            // While a job waits sites are asked, and so it is found out that they are silent.
            let waits = JobSubmission::from_spec(Arc::new(of_class(5, DAY, Priority::SuperLow)?));
            let waits = JobSubmission {
                allow_unplaceable: true,
                ..waits
            };
            scene.ask(ApiRequest::Submit(vec![waits])).await?;
            scene
                .wait_until(DAY, |scene| scene.plane_run.plane.is_isolated())
                .await?;
            scene.ask(ApiRequest::Cancel(vec![JobId(1)])).await?;
        }
        let id = scene
            .submit(of_class(3, DurationMs(9_000), Priority::Low)?)
            .await?;
        scene.pass(length).await;
        let job = scene.job_record(id)?;
        scene.check(is_queued(&job), || {
            format!("placed where nothing is taken: {:?}", job.phase)
        });
        check_at_rest(&scene).await;
        let at = scene.now();
        match &orders {
            Some((_, open)) => drop(
                scene
                    .ask(ApiRequest::Site(sites[1].clone(), open.clone()))
                    .await?,
            ),
            None => sites
                .iter()
                .for_each(|site| scene.inject_fault(site, SiteFault::Silent(false))),
        }
        let placed = scene
            .wait_for_change(DAY, |scene| matches!(placed_at(scene, id), Ok(Some(_))))
            .await?;
        // A silent site is asked every quarter of a minute at least, and once a query was given up.
        let late = DurationMs(if unheard { 45_000 } else { 0 });
        scene.check(placed <= at + late, || {
            format!("placed {} late", placed.since(at))
        });
        scene.check_same(
            "whether we are cut off",
            scene.plane_run.plane.is_isolated(),
            false,
        );
        scene.wait_for_change(DAY, is_over(id)).await?;
        check_at_rest(&scene).await;
        Ok(())
    })
}

fn is_queued(job: &Job) -> bool {
    matches!(job.phase, JobPhase::Queued { .. })
}
