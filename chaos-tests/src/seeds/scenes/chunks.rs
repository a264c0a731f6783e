//! A file that is read in chunks goes to each component by its share; over each link goes what is
//! needed there and no more. Chunks serve one job only: none is kept as a replica, and none is used
//! to measure a link.

use anyhow::Result;
use cospan_actors::actor_settings::StagingLimits;
use cospan_domain::job::spec::InputPortion;
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::copies::{copy_calls, look_times};
use super::log::{OF_COPIES, TimedItem};
use super::stage::{SceneStage, StagedScene, fixed_at, site_name, with_input};
use cospan_simulator::jobs::build_job;

/// Bandwidth of the links, in bytes a millisecond.
const RATE: u64 = 1_000;

pub(super) fn play_chunks(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[12, 12, 12], chance.random())?;
    stage.hints = chance.random_bool(0.7);
    let keeps = DurationMs(1_000 * chance.random_range(1..20));
    stage.settings.transfer.ready_keep = keeps;
    for site in 1..3 {
        let staging = StagingLimits {
            budget: None,
            replicas: Bytes(u64::MAX),
        };
        stage.settings.staging.insert(site_name(site)?, staging);
    }
    let shares = [chance.random_range(1..=3_u32), chance.random_range(1..=3)];
    // Time that the part of one processor takes.
    let part = chance.random_range(100..2_000);
    let size = RATE * part * u64::from(shares[0] + shares[1]);
    stage.add_file(size, &[0])?;
    let run = DurationMs(chance.random_range(100..5_000));
    stage.play_from_start(move |scene| async move {
        scene.pass(DurationMs(100)).await;
        let begun = scene.now();
        let mut spec = with_input(fixed_at(build_job(&shares, run, run, 0)?, 1)?, 0)?;
        spec.components[1].site = Some(site_name(2)?);
        let inputs = spec
            .components
            .iter_mut()
            .flat_map(|component| &mut component.inputs);
        inputs.for_each(|input| input.feed = InputPortion::Chunk);
        let id = scene.submit(spec).await?;
        let over = scene.until_ended(&[id]).await?.since(begun).0;
        scene.pass(keeps + DurationMs(1_000)).await;
        let mut whole = 0;
        for (site, share) in [1, 2].into_iter().zip(shares) {
            let looks = look_times(part * u64::from(share));
            check_chunk_life(&scene, site, &looks, begun, (over, over + keeps.0))?;
            whole = whole.max(looks.last().copied().unwrap_or_default());
        }
        let arrived = scene
            .job_events(id, begun)
            .into_iter()
            .find(|(_, w)| *w == "InputsArrived");
        scene.check_same("arrived", arrived, Some((whole, "InputsArrived")));
        let metrics = &scene.plane_run.plane.shared().metrics;
        scene.check_same("bytes", metrics.transferred_bytes.get(), size);
        scene.check_same("cuts", scene.plane_run.plane.view().cuts.len(), 0);
        Ok(())
    })
}

/// Checks a chunk at a site with these looks at it, unneeded at the first of two times and gone at
/// the second.
fn check_chunk_life(
    scene: &StagedScene,
    site: usize,
    looks: &[u64],
    begun: Timestamp,
    (left, gone): (u64, u64),
) -> Result<()> {
    let whole = looks.last().copied().unwrap_or_default();
    let mut calls = copy_calls(0, looks);
    calls.extend([(gone, "delete-content"), (gone, "stop-copy")]);
    calls.sort_unstable();
    let here = site_name(site)?;
    scene.check_same(
        "calls for a chunk",
        scene.calls_at(&here, &OF_COPIES, begun),
        calls,
    );
    // Each chunk has a name of its own.
    let word =
        |(at, what): TimedItem<String>| (at, what.split(' ').skip(1).collect::<Vec<_>>().join(" "));
    let copied: Vec<TimedItem<String>> = scene
        .copy_states(&here, begun)
        .into_iter()
        .map(word)
        .collect();
    let steps = [
        (0, "waiting"),
        (0, "copying from amsterdam"),
        (0, "copying from amsterdam"),
        (whole, "ready"),
        (left, "ready unneeded"),
        (gone, "deleting unneeded"),
        (gone, "deleting unneeded"),
        (gone, "gone"),
    ];
    let steps = steps.map(|(at, what)| (at, what.to_owned())).to_vec();
    scene.check_same("life of a chunk", copied, steps);
    let measured = scene
        .plane_run
        .plane
        .links_to(&here)
        .iter()
        .any(|link| link.measured.is_some());
    scene.check_same("measured", measured, false);
    Ok(())
}
