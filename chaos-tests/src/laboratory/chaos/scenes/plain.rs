//! Jobs at sites that have room for them: each takes its course without a pause, and costs the
//! calls and changes that it must.

use std::collections::BTreeMap;

use anyhow::Result;
use cospan_domain::job::state::Phase;
use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::Stage;
use crate::laboratory::jobs::job;

pub(super) fn wrong(chance: &mut StdRng) -> Result<Vec<String>> {
    let sizes: Vec<u32> =
        (0..chance.random_range(1..=3)).map(|_| chance.random_range(1..=4)).collect();
    let sites = vec![12; sizes.len()];
    let run_time = DurationMs(1_000 * chance.random_range(1..=600));
    let mut stage = Stage::of(&sites, chance.random())?;
    stage.hints = chance.random_bool(0.7);
    let (hints, poll) = (stage.hints, stage.settings.poll_interval);
    stage.play(move |scene| async move {
        scene.pass(DurationMs(100)).await;
        let (begun, before) = (scene.now(), scene.changes().len());
        let spec = job(&sizes, run_time, run_time + DurationMs(60_000), 0)?;
        let id = scene.submit(spec).await?;
        let day = DurationMs::from_secs(86_400);
        let over = scene.until(day, |scene| scene.job(id).is_ok_and(|job| job.is_final())).await?;
        let job = scene.job(id)?;
        scene.check(matches!(job.phase, Phase::Finished { .. }), || format!("{:?}", job.phase));
        let took = over.since(begun);
        let (changes, calls) = (scene.changes().len() - before, scene.call_counts());
        println!(
            "{sizes:?} {hints} {poll} took {took} for {run_time}, {changes} changes, {calls:?}"
        );
        let _: BTreeMap<&str, usize> = calls;
        Ok(())
    })
}
