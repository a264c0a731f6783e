//! A grid where nothing happened for long, so that the control plane no longer knows what its sites
//! have: the first job after that is placed as soon as they have answered, also if they answer what
//! they answered before.

use anyhow::Result;
use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::SceneStage;
use cospan_simulator::jobs::build_job;

/// Sites answer at once on this stage; the control plane takes some turns to ask them.
const SOON: DurationMs = DurationMs(20);
/// Time for which answers of sites are believed: twice the time that they take to expire.
const BELIEVED: u64 = 120;

pub(super) fn play_quiet(chance: &mut StdRng) -> Result<Vec<String>> {
    let sites = vec![8; chance.random_range(1..=3)];
    let quiet = DurationMs(1_000 * chance.random_range(BELIEVED / 2..=BELIEVED * 10));
    let mut stage = SceneStage::with_processors(&sites, chance.random())?;
    stage.hints = chance.random_bool(0.5);
    stage.play_scene(move |scene| async move {
        let spec = build_job(&[4], DurationMs(1_000), DurationMs(60_000), 0)?;
        let first = scene.submit(spec.clone()).await?;
        scene.await_end(first).await?;
        scene.pass(quiet).await;
        let begun = scene.now();
        let second = scene.submit(spec).await?;
        scene.await_end(second).await?;
        let waited = scene.first_event_at(second, "JobPlaced")?.since(begun);
        scene.check(waited <= SOON, || {
            format!("placed {waited} after {quiet} of quiet")
        });
        Ok(())
    })
}
