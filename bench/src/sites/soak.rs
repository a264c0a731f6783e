//! Two clusters with jobs of ours and of others, and a fault every 20 seconds.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::bench_clusters::{BenchComponent, BenchEnvironment};
use super::clusters::{ALPHA, BETA};
use cospan_sites::slurm_testbed::TestbedCluster;

/// Time between two faults.
const TROUBLE_EVERY: Duration = Duration::from_secs(20);
/// Duration of a fault.
const BROKEN_FOR: Duration = Duration::from_secs(6);
/// Jobs of ours that are alive at once.
const ALIVE: usize = 4;
/// Payloads of one job begin within this many seconds of each other: `go_grace`.
const SPREAD_MAX: f64 = 10.0;

/// The result of the soak.
#[derive(Debug, Default)]
pub(super) struct SoakCounts {
    /// Jobs of ours.
    pub(super) jobs: usize,
    /// Jobs that did not finish whole, ran twice, or whose components did not begin together.
    pub(super) violations: usize,
}

/// Runs for this long, then waits until all faults are over.
pub(super) fn measure_soak(ground: &BenchEnvironment, length: Duration) -> Result<SoakCounts> {
    let begin = Instant::now();
    let mut jobs = Vec::new();
    let mut alive = Vec::new();
    let mut troubles = 0;
    let mut next = TROUBLE_EVERY;
    while begin.elapsed() < length {
        while alive.len() < ALIVE {
            let number = jobs.len();
            let id = ground.submit(&soak_components(number), 2 + number as u32 % 9, "")?;
            jobs.push(id);
            alive.push(id);
        }
        if begin.elapsed() >= next {
            let passed = begin.elapsed().as_secs();
            let all = length.as_secs();
            crate::print_progress(&format!("soak: {passed} s of {all} s, the next trouble"));
            submit_foreign_job(ground);
            inject_fault(ground, troubles)?;
            troubles += 1;
            next += TROUBLE_EVERY;
        }
        std::thread::sleep(Duration::from_millis(500));
        let mut left = Vec::new();
        for id in alive {
            if !ground.job_report(id)?.phase.is_final() {
                left.push(id);
            }
        }
        alive = left;
    }
    judge_jobs(ground, &jobs)
}

/// Draws one to three components for one site, the other, or any.
fn soak_components(number: usize) -> Vec<BenchComponent> {
    let sites = [ALPHA.name, BETA.name];
    let anywhere = number.is_multiple_of(4);
    (0..=number % 3)
        .map(|at: usize| BenchComponent {
            site: (!anywhere).then_some(sites[(number + at) % sites.len()]),
            processors: 1 + (number + at) as u32 % 4,
        })
        .collect()
}

/// Submits a job of another user. Slurm may refuse it while a fault lasts.
fn submit_foreign_job(ground: &BenchEnvironment) {
    for cluster in [ALPHA, BETA] {
        let work = ["sbatch", "-o", "/dev/null", "-n", "4", "--wrap", "sleep 5"];
        let _refused = ground.run_slurm(cluster, &work);
    }
}

fn inject_fault(ground: &BenchEnvironment, number: usize) -> Result<()> {
    let cluster = if number.is_multiple_of(2) {
        ALPHA
    } else {
        BETA
    };
    match number % 3 {
        0 => {
            ground.testbed.kill_controller(cluster.name)?;
            std::thread::sleep(BROKEN_FOR);
            ground.testbed.start_cluster(cluster)?;
            ground.resume_node(cluster)?;
        }
        1 => {
            ground.testbed.freeze_controller(cluster.name, true)?;
            std::thread::sleep(BROKEN_FOR);
            ground.testbed.freeze_controller(cluster.name, false)?;
        }
        _ => ground.testbed.cut_connections()?,
    }
    Ok(())
}

fn judge_jobs(ground: &BenchEnvironment, jobs: &[u64]) -> Result<SoakCounts> {
    crate::print_progress("soak: all is mended, the last jobs end");
    let ended = ground.await_ends(jobs, &[ALPHA, BETA])?;
    let payloads = ground.read_payloads()?;
    let came_to: Vec<_> = ended.iter().map(|job| payloads.job_outcome(job)).collect();
    let broken: Vec<_> = came_to
        .iter()
        .filter(|one| one.is_lost || one.doubled > 0 || one.spread > SPREAD_MAX)
        .collect();
    broken
        .iter()
        .for_each(|one| crate::print_progress(&one.told));
    if !broken.is_empty() {
        [ALPHA, BETA]
            .into_iter()
            .for_each(|cluster| print_queue(ground, cluster));
    }
    Ok(SoakCounts {
        jobs: jobs.len(),
        violations: broken.len(),
    })
}

/// Prints what a cluster's controller says of its nodes and jobs, for whoever looks for the cause.
fn print_queue(ground: &BenchEnvironment, cluster: TestbedCluster) {
    for words in [
        &["sinfo"][..],
        &["squeue", "-t", "all", "-o", "%i %T %r %C %j"],
    ] {
        let said = ground
            .run_as_operator(cluster, words)
            .unwrap_or_else(|error| error.to_string());
        crate::print_progress(&format!("{}: {}\n{said}", cluster.name, words[0]));
    }
}
