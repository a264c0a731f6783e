//! Most sites fall silent at about the same time, and one goes on answering: then it is not we who
//! are cut off, and soon jobs are placed again where sites answer.

use anyhow::Result;
use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::SceneStage;
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::site_faults::SiteFault;

/// Two polls: one may have been under way already.
const SOON: u64 = 2;

pub(super) fn play_half(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[4, 4, 8], chance.random())?;
    let lost_after = DurationMs(chance.random_range(20_000..=60_000));
    stage.settings.contact.unreachable_after = lost_after;
    let poll = stage.settings.poll_interval;
    let apart = DurationMs(chance.random_range(0..=5_000));
    stage.play_scene(move |scene| async move {
        let time = DurationMs::from_secs(86_400);
        let second = DurationMs(1_000);
        // One at each site, so that each of them is asked.
        for processors in [8, 4, 4] {
            scene
                .submit(build_job(&[processors], time, time, 0)?)
                .await?;
            scene.pass(second).await;
        }
        for (site, after) in [(0, DurationMs(1)), (1, apart + DurationMs(1))] {
            scene.plan_fault(after, site, SiteFault::Silent(true))?;
        }
        let most = apart + lost_after + lost_after + DurationMs(60_000);
        scene
            .wait_until(most, |scene: &super::stage::StagedScene| {
                scene.metrics().isolated.get() == 1
            })
            .await?;
        scene.pass(DurationMs(SOON * poll.0)).await;
        scene.check_same(
            "isolated although a site answers",
            scene.metrics().isolated.get(),
            0,
        );
        Ok(())
    })
}
