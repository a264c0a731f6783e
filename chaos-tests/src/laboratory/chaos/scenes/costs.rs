//! What jobs were waited for, held and cost is in the metrics once they have ended, exactly as
//! their events had it.

use std::collections::BTreeSet;

use anyhow::Result;
use cospan_domain::ids::JobId;
use cospan_domain::job::event::Happened;
use cospan_domain::units::DurationMs;
use prometheus::Histogram;
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{Scene, Stage};
use crate::laboratory::jobs::job;

/// What the metrics must come to.
#[derive(Debug, Default)]
struct Sums {
    placement: u64,
    claim: u64,
    start: u64,
    wait: u64,
    run: u64,
    response: u64,
    gained: u64,
    wasted: u64,
    sites: u64,
    started: u64,
    finished: u64,
    failed: u64,
}

pub(super) fn wrong(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = Stage::of(&[6, 6], chance.random())?;
    stage.hints = chance.random_bool(0.5);
    stage.pace.launch_max = DurationMs(chance.random_range(0..=20_000));
    stage.pace.gate_max = DurationMs(chance.random_range(0..=3_000));
    let draw = |_| {
        let sizes: Vec<u32> =
            (0..chance.random_range(1..=2)).map(|_| chance.random_range(1..=6)).collect();
        let time = DurationMs(chance.random_range(1_000..=50_000));
        (sizes, time, i32::from(chance.random_bool(0.3)))
    };
    let jobs: Vec<(Vec<u32>, DurationMs, i32)> = (0..3).map(draw).collect();
    stage.play(move |scene| async move {
        let mut sums = Sums::default();
        for (sizes, time, code) in &jobs {
            let spec = job(sizes, *time, *time + DurationMs(1_000), *code)?;
            let id = scene.submit(spec).await?;
            scene.pass(DurationMs(500)).await;
            scene.same("jobs accepted", scene.job(id).is_ok(), true);
        }
        let ids: Vec<JobId> = scene.reign.plane.view().jobs.keys().copied().collect();
        for (id, (sizes, ..)) in ids.iter().zip(&jobs) {
            scene.ended(*id).await?;
            sums.add(&scene, *id, sizes)?;
        }
        // What a round costs that comes to nothing is not what this is about.
        if scene.metrics().placement_seconds.get_sample_count() > jobs.len() as u64 {
            return Ok(());
        }
        sums.compare(&scene, jobs.len() as u64);
        Ok(())
    })
}

impl Sums {
    /// Adds what the events of a job say.
    fn add(&mut self, scene: &Scene, id: JobId, sizes: &[u32]) -> Result<()> {
        let submitted = scene.job(id)?.submitted_at;
        let (placed, decided) = (scene.told_at(id, "JobPlaced")?, scene.told_at(id, "GoDecided")?);
        // One that fails before all have begun never started.
        let started = scene.told_at(id, "JobStarted").ok();
        self.placement += placed.since(submitted).0;
        self.claim += decided.since(placed).0;
        if let Some(started) = started {
            self.started += 1;
            self.start += started.since(decided).0;
            self.wait += started.since(submitted).0;
        }
        let (mut gained, mut wasted) = (0, 0);
        for (at, events) in scene.told_of(id) {
            for event in events {
                match event.what {
                    Happened::ComponentReady { component, .. } => {
                        let size = u64::from(sizes[component.0 as usize]);
                        gained += size * at.since(placed).0;
                        wasted += size * decided.since(at).0;
                    }
                    Happened::PayloadsSucceeded => {
                        self.run += at.since(started.unwrap_or(at)).0;
                        self.response += at.since(submitted).0;
                        self.finished += 1;
                    }
                    Happened::JobFailed { .. } => self.failed += 1,
                    _ => {}
                }
            }
        }
        self.gained += gained / 1_000;
        self.wasted += wasted / 1_000;
        let job = scene.job(id)?;
        let sites = job.components.iter().filter_map(|c| c.placement.as_ref().map(|p| &p.site));
        let sites: BTreeSet<_> = sites.collect();
        self.sites += sites.len() as u64;
        Ok(())
    }

    fn compare(&self, scene: &Scene, jobs: u64) {
        let metrics = scene.metrics();
        let same = |what: &str, histogram: &Histogram, count: u64, sum: u64| {
            let seen =
                (histogram.get_sample_count(), (histogram.get_sample_sum() * 1_000.0).round());
            scene.same(what, seen, (count, sum as f64));
        };
        same("placement", &metrics.placement_seconds, jobs, self.placement);
        same("claim", &metrics.claim_seconds, jobs, self.claim);
        same("start", &metrics.start_seconds, self.started, self.start);
        same("wait", &metrics.wait_seconds, self.started, self.wait);
        same("run", &metrics.run_seconds, self.finished, self.run);
        same("response", &metrics.response_seconds, self.finished, self.response);
        same("sites", &metrics.costs.sites, jobs, 1_000 * self.sites);
        same("all placement", &metrics.costs.total_placement_seconds, jobs, self.placement);
        same("delay", &metrics.costs.start_delay_seconds, jobs, 0);
        same("transfer", &metrics.costs.transfer_bytes, jobs, 0);
        scene.same("gained", metrics.gained_processor_seconds.get(), self.gained);
        scene.same("wasted", metrics.wasted_processor_seconds.get(), self.wasted);
        let ended = |how| metrics.jobs_ended.with_label_values(&[how]).get();
        scene.same("ended", [ended("finished"), ended("failed")], [self.finished, self.failed]);
        let aborted = metrics.rounds_aborted.with_label_values(&["application"]).get();
        scene.same("aborted by the application", aborted, self.failed);
        scene.same("submitted", metrics.jobs_submitted.get(), jobs);
    }
}
