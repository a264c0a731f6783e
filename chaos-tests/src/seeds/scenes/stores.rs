//! The most that copies may take of a site, the copies that are kept for later jobs, the order in
//! which they go, and what happens when a store was emptied by somebody else.

use anyhow::Result;
use cospan_actors::actor_settings::StagingLimits;
use cospan_actors::transfer::unlisted_copy_sites;
use cospan_domain::ids::{Digest, JobId};
use cospan_domain::units::{Bytes, DurationMs};
use rand::Rng;
use rand::rngs::StdRng;

use super::copies::{copy_calls, look_times};
use super::log::{OF_COPIES, TimedItem};
use super::stage::{SceneStage, StagedScene, file_name, fixed_at, site_name, with_input};
use cospan_simulator::jobs::build_job;

/// Bandwidth of a link, in bytes a millisecond.
const RATE: u64 = 1_000;
/// The files of a story.
const FILES: usize = 4;

pub(super) fn play_stores(chance: &mut StdRng) -> Result<Vec<String>> {
    match chance.random_range(0..3) {
        0 => play_budget(chance),
        1 => replicas(chance),
        _ => play_emptied(chance),
    }
}

fn stage(chance: &mut StdRng, size: u64) -> Result<SceneStage> {
    let mut stage = SceneStage::with_processors(&[12, 12], chance.random())?;
    stage.hints = chance.random_bool(0.7);
    stage.settings.information_expiry = DurationMs::from_secs(86_400);
    for _ in 0..FILES {
        stage.add_file(size, &[0])?;
    }
    Ok(stage)
}

async fn submit_reader(scene: &StagedScene, file: usize, run: DurationMs) -> Result<JobId> {
    scene
        .submit(with_input(
            fixed_at(build_job(&[1], run, run, 0)?, 1)?,
            file,
        )?)
        .await
}

fn placed_after(
    scene: &StagedScene,
    id: JobId,
    since: cospan_domain::units::Timestamp,
) -> Option<u64> {
    let lived = scene.job_events(id, since);
    lived
        .iter()
        .find(|(_, what)| *what == "JobPlaced")
        .map(|(at, _)| *at)
}

/// Checks that jobs are placed while their input has room beside what others need, and the next one
/// at the very moment at which there is room again.
fn play_budget(chance: &mut StdRng) -> Result<Vec<String>> {
    let size = RATE * chance.random_range(200..3_000);
    let mut stage = stage(chance, size)?;
    let room = chance.random_range(1..=3);
    let budget = Some(Bytes(room as u64 * size + chance.random_range(0..size)));
    let replicas = Bytes(chance.random_range(0..2 * size));
    stage
        .settings
        .staging
        .insert(site_name(1)?, StagingLimits { budget, replicas });
    let run = DurationMs(chance.random_range(1_000..20_000));
    stage.play_from_start(move |scene| async move {
        scene.pass(DurationMs(100)).await;
        let begun = scene.now();
        let mut jobs = Vec::new();
        for file in 0..FILES {
            jobs.push(submit_reader(&scene, file, run).await?);
        }
        // A further job that reads what is there or on its way already takes no room.
        let shares = submit_reader(&scene, 0, run).await?;
        scene.pass(DurationMs(1)).await;
        let now: Vec<_> = jobs
            .iter()
            .map(|id| placed_after(&scene, *id, begun))
            .collect();
        let fits = (0..FILES)
            .map(|number| (number < room).then_some(0))
            .collect::<Vec<_>>();
        scene.check_same("placed at once", now, fits);
        scene.check_same("shares", placed_after(&scene, shares, begun), Some(0));
        let mut all = jobs.clone();
        all.push(shares);
        scene.until_ended(&all).await?;
        check_follows(&scene, &jobs, shares, room, begun);
        Ok(())
    })
}

/// Checks that each job that waited was placed when so many of those before it had ended that there
/// was room.
fn check_follows(
    scene: &StagedScene,
    jobs: &[JobId],
    shares: JobId,
    room: usize,
    begun: cospan_domain::units::Timestamp,
) {
    let mut free: Vec<u64> = vec![0; room];
    for (number, id) in jobs.iter().enumerate() {
        free.sort_unstable();
        let at = free.remove(0);
        scene.check_same("placed in turn", placed_after(scene, *id, begun), Some(at));
        let mut end = end_of(scene, *id, begun);
        if number == 0 {
            end = end.max(end_of(scene, shares, begun));
        }
        free.push(end);
    }
}

fn end_of(scene: &StagedScene, id: JobId, begun: cospan_domain::units::Timestamp) -> u64 {
    scene
        .job_events(id, begun)
        .last()
        .map(|(at, _)| *at)
        .unwrap_or_default()
}

/// Checks that of unneeded copies the latest are kept, as far as there is room for replicas; the
/// rest goes when it is old enough, or at once where it does not fit.
fn replicas(chance: &mut StdRng) -> Result<Vec<String>> {
    let size = RATE * chance.random_range(200..2_000);
    let mut stage = stage(chance, size)?;
    let room = chance.random_range(0..=3_u64);
    let replicas = Bytes(room * size + chance.random_range(0..size));
    let fits = chance
        .random_bool(0.5)
        .then(|| chance.random_range(1..=3_u64));
    let budget = fits.map(|fits| Bytes(fits * size + chance.random_range(0..size)));
    stage
        .settings
        .staging
        .insert(site_name(1)?, StagingLimits { budget, replicas });
    let keeps = DurationMs(1_000 * chance.random_range(5..60));
    stage.settings.transfer.ready_keep = keeps;
    let run = DurationMs(100);
    stage.play_from_start(move |scene| async move {
        scene.pass(DurationMs(100)).await;
        let begun = scene.now();
        let mut left = Vec::new();
        let mut whole = Vec::new();
        for file in 0..FILES {
            let id = submit_reader(&scene, file, run).await?;
            let end = scene.until_ended(&[id]).await?;
            let arrived = scene
                .job_events(id, begun)
                .into_iter()
                .find(|(_, w)| *w == "InputsArrived");
            whole.push(arrived.map(|(at, _)| at).unwrap_or_default());
            left.push(end.since(begun).0);
        }
        scene.pass(DurationMs(100_000)).await;
        let gone: Vec<_> = (0..FILES)
            .map(|file| gone_after(&scene, file, begun))
            .collect();
        let rule = StoreRule {
            room,
            fits,
            keeps: keeps.0,
        };
        let expected: Vec<_> = (0..FILES)
            .map(|file| rule.time_of_removal(&left, file))
            .collect();
        scene.check_same("gone", gone, expected.clone());
        check_listed(&scene, &expected)?;
        check_reads_replica(&scene, &expected, run).await
    })
}

/// Returns when a copy of a file was gone.
fn gone_after(
    scene: &StagedScene,
    file: usize,
    since: cospan_domain::units::Timestamp,
) -> Option<u64> {
    let name = format!("{} gone", file + 1);
    let copied = scene.copy_states(&site_name(1).ok()?, since);
    copied
        .into_iter()
        .find(|(_, what)| *what == name)
        .map(|(at, _)| at)
}

struct StoreRule {
    /// Number of copies that are kept.
    room: u64,
    /// Number of copies that have room beside what jobs need, if that is bounded.
    fits: Option<u64>,
    keeps: u64,
}

impl StoreRule {
    /// Works out when the copy of a file goes: all were left one after the other at these times,
    /// the next one needed from the moment on at which the last was left.
    fn time_of_removal(&self, left: &[u64], file: usize) -> Option<u64> {
        let own = left[file];
        // As it is left no other is needed; then each of the later ones, which takes its place.
        let steps = std::iter::once((own, 1)).chain((file + 1..left.len()).flat_map(|later| {
            let before = (later - file) as u64;
            [(left[later - 1], before + 1), (left[later], before + 1)]
        }));
        let mut steps: Vec<(u64, u64, u64)> = steps.map(|(at, all)| (at, all, 0)).collect();
        for (number, step) in steps.iter_mut().enumerate() {
            // Copies that nobody needs, its own and later ones.
            step.2 = if number == 0 {
                1
            } else {
                (number as u64).div_ceil(2) + u64::from(number % 2 == 0)
            };
        }
        for (number, (at, all, unneeded)) in steps.iter().enumerate() {
            if self.fits.is_some_and(|fits| *all > fits) {
                return Some(*at);
            }
            let until = steps.get(number + 1).map_or(u64::MAX, |next| next.0);
            let aged = (own + self.keeps).max(*at);
            if *unneeded > self.room && aged < until {
                return Some(aged);
            }
        }
        None
    }
}

/// Checks that the catalogue shows where else a file is kept.
fn check_listed(scene: &StagedScene, gone: &[Option<u64>]) -> Result<()> {
    let view = scene.plane_run.plane.view();
    for (file, gone) in gone.iter().enumerate() {
        let entry = view
            .files
            .get(&file_name(file)?)
            .and_then(|file| file.entry.clone());
        let listed = entry
            .iter()
            .flat_map(|entry| unlisted_copy_sites(&view, entry))
            .count();
        scene.check_same("listed", listed, usize::from(gone.is_none()));
    }
    Ok(())
}

/// Checks that a job that reads a replica needs no copy, once its site said that it is still there.
async fn check_reads_replica(
    scene: &StagedScene,
    gone: &[Option<u64>],
    run: DurationMs,
) -> Result<()> {
    let file = FILES - 1;
    if gone[file].is_some() {
        return Ok(());
    }
    let begun = scene.now();
    let id = submit_reader(scene, file, run).await?;
    scene.until_ended(&[id]).await?;
    let heard = scene.calls_at(&site_name(1)?, &OF_COPIES, begun);
    scene.check_same("replica", heard, vec![(0, "has-content")]);
    let arrived = scene
        .job_events(id, begun)
        .into_iter()
        .find(|(_, what)| *what == "InputsArrived");
    scene.check_same("arrived", arrived, Some((0, "InputsArrived")));
    Ok(())
}

/// Checks a store that somebody else emptied: the next job that needs the copy finds out, and has a
/// new one.
fn play_emptied(chance: &mut StdRng) -> Result<Vec<String>> {
    let takes = chance.random_range(500..5_000);
    let stage = stage(chance, RATE * takes)?;
    let run = DurationMs(8_000);
    let quiet = DurationMs(chance.random_range(100..40_000));
    stage.play_from_start(move |scene| async move {
        scene.pass(DurationMs(100)).await;
        let here = site_name(1)?;
        let first = submit_reader(&scene, 0, run).await?;
        scene.until_ended(&[first]).await?;
        scene.pass(quiet).await;
        let begun = scene.now();
        scene.plane_run.world.act_at(begun, |world| {
            if let Some(site) = world.index_of(&here) {
                world.delete_content(site, Digest([1; 32]));
            }
        });
        let second = submit_reader(&scene, 0, run).await?;
        scene.until_ended(&[second]).await?;
        let whole = look_times(takes).last().copied().unwrap_or_default();
        let from = (0, "1 copying from amsterdam".to_owned());
        let waits = [(0, "1 ready".into()), (0, "1 waiting".into())];
        // Once requested, once started, and once what there was of the old one is gone.
        let copies = [from.clone(), from.clone(), from, (whole, "1 ready".into())];
        let mut copied: Vec<TimedItem<String>> = scene.copy_states(&here, begun);
        copied.truncate(6);
        scene.check_same("emptied", copied, [&waits[..], &copies[..]].concat());
        let mut calls = copy_calls(0, &look_times(takes));
        // A job that needs the copy asked for it before, and does not ask again.
        calls.retain(|(_, call)| *call != "has-content");
        calls.extend([(0, "has-content"), (0, "stop-copy")]);
        calls.sort_unstable();
        scene.check_same("asked", scene.calls_at(&here, &OF_COPIES, begun), calls);
        Ok(())
    })
}
