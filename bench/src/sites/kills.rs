//! Controllers that are killed right after an acknowledgement, or frozen until their clients give
//! up.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::bench_clusters::{BenchComponent, BenchEnvironment, join_thread, unix_seconds};
use super::clusters::KILLED;
use cospan_sites::slurm_testbed::TestbedCluster;

/// Jobs of a round.
const JOBS: usize = 5;
/// Longer than a client of Slurm waits for its controller.
const FROZEN: Duration = Duration::from_secs(15);

/// The result of the measurement.
#[derive(Debug, Default)]
pub(super) struct KillBenchCounts {
    /// Jobs that were acknowledged and never finished.
    pub(super) lost: usize,
    /// Payloads that ran twice.
    pub(super) doubled: usize,
    /// Payloads that began after their cancel was acknowledged.
    pub(super) undone: usize,
    /// Jobs of others that were touched.
    pub(super) foreign: usize,
    /// Payloads that ran twice although the controller was only frozen.
    pub(super) frozen_doubled: usize,
}

/// Runs this many rounds of each kind, each kind on its own cluster; the controller is away for
/// `settle`.
pub(super) fn measure_controller_kills(
    ground: &BenchEnvironment,
    rounds: u32,
    settle: Duration,
) -> Result<KillBenchCounts> {
    let [submitting, cancelling] = KILLED;
    let (mut kills, undone) = std::thread::scope(|scope| {
        let submissions = scope.spawn(|| kill_rounds(ground, submitting, rounds, settle));
        let cancels = scope.spawn(|| -> Result<usize> {
            (0..rounds).try_fold(0, |undone, round| {
                let text = format!("killed after cancels, round {} of {rounds}", round + 1);
                crate::print_progress(&text);
                Ok(undone + count_begun_after_cancel(ground, cancelling, settle)?)
            })
        });
        Ok::<_, anyhow::Error>((join_thread(submissions)?, join_thread(cancels)?))
    })?;
    kills.undone = undone;
    Ok(kills)
}

fn kill_rounds(
    ground: &BenchEnvironment,
    cluster: TestbedCluster,
    rounds: u32,
    settle: Duration,
) -> Result<KillBenchCounts> {
    let mut kills = KillBenchCounts::default();
    crate::print_progress("slurmctld frozen");
    measure_frozen_controller(ground, cluster, &mut kills)?;
    for round in 0..rounds {
        let text = format!("killed after submissions, round {} of {rounds}", round + 1);
        crate::print_progress(&text);
        kill_after_submissions(ground, cluster, round, settle, &mut kills)?;
    }
    Ok(kills)
}

fn submit_round_jobs(
    ground: &BenchEnvironment,
    cluster: TestbedCluster,
    processors: u32,
    seconds: u32,
    more: &str,
) -> Result<Vec<u64>> {
    let part = BenchComponent {
        site: Some(cluster.name),
        processors,
    };
    (0..JOBS)
        .map(|_| ground.submit(&[part], seconds, more))
        .collect()
}

fn kill_after_submissions(
    ground: &BenchEnvironment,
    cluster: TestbedCluster,
    round: u32,
    settle: Duration,
    kills: &mut KillBenchCounts,
) -> Result<()> {
    // The controller must not forget that the last round's jobs have ended.
    ground.await_state_written(cluster)?;
    let jobs = submit_round_jobs(ground, cluster, 1, 2, "")?;
    // Slurm gave each a number: acknowledged.
    ground.await_jobs("submitted to Slurm", &jobs, |job| {
        job.components[0].lrm_id.is_some()
    })?;
    ground.testbed.kill_controller(cluster.name)?;
    std::thread::sleep(settle);
    ground.testbed.start_cluster(cluster)?;
    ground.resume_node(cluster)?;
    // Slurm gives the numbers of the forgotten jobs out again.
    let foreign = start_foreign_jobs(ground, cluster, round)?;
    kills.doubled += count_doubled(ground, cluster, &jobs, &mut kills.lost)?;
    kills.foreign += foreign
        .iter()
        .filter(|job| !await_foreign_end(ground, cluster, job))
        .count();
    Ok(())
}

/// A job of the same user that Cospan did not submit.
struct ForeignJob {
    number: String,
    /// A file that the job writes when it ends by itself.
    marker: PathBuf,
}

fn start_foreign_jobs(
    ground: &BenchEnvironment,
    cluster: TestbedCluster,
    round: u32,
) -> Result<Vec<ForeignJob>> {
    let place = ground.create_directory("foreign")?;
    (0..JOBS)
        .map(|number| {
            let marker = place.join(format!("{round}-{number}"));
            let work = format!("sleep 6; : > {}", marker.display());
            let words = [
                "sbatch",
                "--parsable",
                "-o",
                "/dev/null",
                "-J",
                "wave",
                "--wrap",
                &work,
            ];
            Ok(ForeignJob {
                number: ground.run_slurm(cluster, &words)?,
                marker,
            })
        })
        .collect()
}

fn await_foreign_end(ground: &BenchEnvironment, cluster: TestbedCluster, job: &ForeignJob) -> bool {
    let number = std::slice::from_ref(&job.number);
    ground
        .wait_until("a foreign job ends", || {
            ground.restore_service(cluster, number);
            Ok(job.marker.exists())
        })
        .is_ok()
}

/// Counts the payloads that ran twice, and adds the lost jobs to `lost`.
fn count_doubled(
    ground: &BenchEnvironment,
    cluster: TestbedCluster,
    jobs: &[u64],
    lost: &mut usize,
) -> Result<usize> {
    let ended = ground.await_ends(jobs, &[cluster])?;
    let payloads = ground.read_payloads()?;
    let came_to: Vec<_> = ended.iter().map(|job| payloads.job_outcome(job)).collect();
    for one in came_to.iter().filter(|one| one.is_lost || one.doubled > 0) {
        crate::print_progress(&one.told);
    }
    *lost += came_to.iter().filter(|one| one.is_lost).count();
    Ok(came_to.iter().map(|one| one.doubled).sum())
}

/// Counts the payloads that began although their cancel had been acknowledged.
fn count_begun_after_cancel(
    ground: &BenchEnvironment,
    cluster: TestbedCluster,
    settle: Duration,
) -> Result<usize> {
    let wide = cluster.processors.to_string();
    let filler = [
        "sbatch",
        "--parsable",
        "-o",
        "/dev/null",
        "-n",
        &wide,
        "--wrap",
        "sleep 300",
    ];
    let filler = ground.run_slurm(cluster, &filler)?;
    let jobs = submit_round_jobs(ground, cluster, 2, 1, "[acquisition]\nmode = \"queued\"")?;
    ground.await_jobs("in Slurm's queue", &jobs, |job| {
        job.components[0].state == "waiting-at-site"
    })?;
    // The controller has written down that they wait, but not yet that they were cancelled.
    ground.await_state_written(cluster)?;
    ground.cancel(&jobs)?;
    ground.await_jobs("cancelled", &jobs, |job| job.phase.state == "cancelled")?;
    let cancelled = unix_seconds();
    ground.testbed.kill_controller(cluster.name)?;
    std::thread::sleep(settle);
    ground.testbed.start_cluster(cluster)?;
    ground.resume_node(cluster)?;
    ground.run_slurm(cluster, &["scancel", &filler])?;
    // Wait until nothing is left that could begin.
    ground.await_empty_queue(cluster)?;
    let payloads = ground.read_payloads()?;
    Ok(jobs
        .iter()
        .map(|id| payloads.count_begun_after(*id, cancelled))
        .sum())
}

fn measure_frozen_controller(
    ground: &BenchEnvironment,
    cluster: TestbedCluster,
    kills: &mut KillBenchCounts,
) -> Result<()> {
    ground.testbed.freeze_controller(cluster.name, true)?;
    let jobs = submit_round_jobs(ground, cluster, 1, 2, "");
    std::thread::sleep(FROZEN);
    ground.testbed.freeze_controller(cluster.name, false)?;
    kills.frozen_doubled += count_doubled(ground, cluster, &jobs?, &mut kills.lost)?;
    Ok(())
}
