//! How fast jobs go through the whole control plane under virtual time.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example for people")]

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use cospan_chaos_tests::laboratory::experiment::{Experiment, PlannedJob, run};
use cospan_chaos_tests::laboratory::jobs::shared_job;
use cospan_chaos_tests::laboratory::settings::default_settings;
use cospan_chaos_tests::laboratory::weather::{Climate, Weather};
use cospan_chaos_tests::logs::{self, Reading};
use cospan_chaos_tests::world::batch::Discipline;
use cospan_chaos_tests::world::cluster::ClusterSpec;
use cospan_chaos_tests::world::{Pace, World};
use cospan_domain::ids::SiteName;
use cospan_domain::units::{DurationMs, Timestamp};

fn main() {
    let log = std::env::args().nth(1).unwrap();
    let most: usize = std::env::args().nth(2).map_or(usize::MAX, |n| n.parse().unwrap());
    let nodes: u32 = std::env::args().nth(3).map_or(64, |n| n.parse().unwrap());
    let begins = Timestamp(1_000_000_000);
    let file = std::fs::File::open(&log).unwrap();
    let swf = logs::read_swf(file, Reading::skipping(&log), Some(nodes)).unwrap();
    println!("{}", swf.complaints);
    let jobs: Vec<PlannedJob> = swf
        .jobs
        .iter()
        .take(most)
        .map(|job| PlannedJob {
            at: begins + job.submitted,
            spec: shared_job(
                &[job.processors],
                job.run_time,
                DurationMs(job.run_time.0 + 60_000),
                0,
            )
            .unwrap(),
        })
        .collect();
    let count = jobs.len();
    let site = ClusterSpec {
        name: SiteName::new("delft").unwrap(),
        nodes,
        processors_per_node: 1,
        discipline: Discipline::Easy,
        local_jobs: Vec::new(),
        files: BTreeMap::new(),
    };
    let world = World::new(vec![site], &[], Pace::default(), 1, begins);
    let mut settings = default_settings().unwrap();
    settings.poll_interval = DurationMs::from_secs(600);
    settings.information_expiry = DurationMs::from_secs(600);
    settings.reconcile_interval = DurationMs::from_secs(86_400);
    let climate = Climate { way_max: DurationMs(50), ..Climate::default() };
    let weather = Weather::new(climate, 2);
    let experiment = Experiment { world, settings, jobs, begins, seed: 3, weather };
    let begun = Instant::now();
    let outcome = run(experiment, Rc::new(|_, _| {})).unwrap();
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{count} jobs in {took:.2} s: {:.0} jobs/s; {} changes; virtual {:.1} days; hash {}",
        count as f64 / took,
        outcome.changes,
        outcome.ended.since(begins).as_secs_f64() / 86_400.0,
        outcome.hash
    );
}
