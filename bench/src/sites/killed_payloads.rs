//! Payloads that others end: none may count as success, and each gets the attempt end of the book's
//! table of ends.

use std::collections::BTreeMap;

use anyhow::Result;

use super::bench_clusters::{BenchComponent, BenchEnvironment, run_side_by_side};
use super::clusters::JUDGED;
use cospan_api::v1::job::JobReport;
use cospan_sites::slurm_testbed::TestbedCluster;

/// Payloads of one batch: all of them run at once.
const BATCH: u32 = 12;
/// Exits with 0 on SIGTERM, and so looks like success.
const PAYLOAD: &str = "trap : TERM; sleep 400; exit 0";

/// The result of the measurement.
#[derive(Debug, Default)]
pub(super) struct KilledPayloadCounts {
    /// The number of payloads that were ended.
    pub(super) payloads: usize,
    /// Killed, but reported as success.
    pub(super) false_success: usize,
    /// Charged to another party, or reported otherwise, than the table says.
    pub(super) misjudged: usize,
}

/// A way to end a payload from outside.
#[derive(Debug, Clone, Copy)]
enum ForcedEnding {
    Cancelled,
    Preempted,
    TimedOut,
    NodeFailed,
    Deleted,
}

const DEEDS: [ForcedEnding; 5] = [
    ForcedEnding::Cancelled,
    ForcedEnding::Preempted,
    ForcedEnding::TimedOut,
    ForcedEnding::NodeFailed,
    ForcedEnding::Deleted,
];

/// Runs this many batches of each kind; each kind on its own cluster, all at once.
pub(super) fn measure_killed_payloads(
    ground: &BenchEnvironment,
    batches: u32,
) -> Result<KilledPayloadCounts> {
    let kinds: Vec<(ForcedEnding, TestbedCluster)> = DEEDS.into_iter().zip(JUDGED).collect();
    let all = run_side_by_side(&kinds, |(deed, cluster)| {
        let mut judged = KilledPayloadCounts::default();
        for batch in 0..batches {
            crate::print_progress(&format!("{deed:?}, {} of {batches}", batch + 1));
            judge_batch(ground, *deed, *cluster, &mut judged)?;
        }
        Ok(judged)
    })?;
    Ok(all
        .into_iter()
        .fold(KilledPayloadCounts::default(), |all, one| {
            KilledPayloadCounts {
                payloads: all.payloads + one.payloads,
                false_success: all.false_success + one.false_success,
                misjudged: all.misjudged + one.misjudged,
            }
        }))
}

fn judge_batch(
    ground: &BenchEnvironment,
    deed: ForcedEnding,
    cluster: TestbedCluster,
    judged: &mut KilledPayloadCounts,
) -> Result<()> {
    let part = BenchComponent {
        site: Some(cluster.name),
        processors: 1,
    };
    let jobs: Vec<u64> = (0..BATCH)
        .map(|_| ground.submit_script_job(&[part], PAYLOAD, ""))
        .collect::<Result<_>>()?;
    let running = ground.await_jobs("running", &jobs, |job| job.phase.state == "running")?;
    let numbers: Vec<String> = running
        .iter()
        .filter_map(|job| job.components[0].lrm_id.clone())
        .collect();
    end_payloads(ground, deed, cluster, &numbers)?;
    // An attempt that was withdrawn before it ran is not judged here.
    let before: BTreeMap<u64, &JobReport> = running.iter().map(|job| (job.id, job)).collect();
    ground.await_jobs("judged", &jobs, |job: &JobReport| {
        job.components[0].attempt > before[&job.id].components[0].attempt
            || job.phase.state != "running"
    })?;
    ground.cancel(&jobs)?;
    let ended = ground.await_ends(&jobs, &[])?;
    judged.payloads += ended.len();
    judged.false_success += ended
        .iter()
        .filter(|job| job.phase.state == "finished")
        .count();
    for job in ended
        .iter()
        .filter(|job| !is_judged_correctly(job, before[&job.id], deed))
    {
        judged.misjudged += 1;
        let id = job.id;
        let setbacks = &job.setbacks;
        crate::print_progress(&format!(
            "{deed:?}: job {id} was judged otherwise: {setbacks:?}"
        ));
    }
    if matches!(deed, ForcedEnding::NodeFailed) {
        ground.resume_node(cluster)?;
    }
    ground.reset_site(cluster)
}

fn end_payloads(
    ground: &BenchEnvironment,
    deed: ForcedEnding,
    cluster: TestbedCluster,
    numbers: &[String],
) -> Result<()> {
    let list = numbers.join(",");
    let all = numbers.iter().map(String::as_str);
    match deed {
        ForcedEnding::Cancelled => {
            let words: Vec<&str> = ["scancel"].into_iter().chain(all).collect();
            ground.run_as_operator(cluster, &words)?;
        }
        ForcedEnding::Deleted => {
            let words = ["scancel", "--full", "--signal=KILL"];
            let words: Vec<&str> = words.into_iter().chain(all).collect();
            ground.run_as_operator(cluster, &words)?;
        }
        ForcedEnding::Preempted => {
            let wide = cluster.processors.to_string();
            let work = [
                "-p",
                "urgent",
                "-o",
                "/dev/null",
                "-n",
                &wide,
                "--wrap",
                "sleep 3",
            ];
            let words: Vec<&str> = ["sbatch"].into_iter().chain(work).collect();
            ground.run_slurm(cluster, &words)?;
        }
        ForcedEnding::TimedOut => {
            let job = format!("jobid={list}");
            ground.run_as_operator(cluster, &["scontrol", "update", &job, "timelimit=1"])?;
        }
        ForcedEnding::NodeFailed => {
            let node = format!("nodename={}0", cluster.name);
            let words = ["scontrol", "update", &node, "state=down", "reason=bench"];
            ground.run_as_operator(cluster, &words)?;
        }
    }
    Ok(())
}

/// Compares whose error it was, and how it is reported, with the table of ends. A component that
/// restarted meanwhile reports another attempt.
fn is_judged_correctly(job: &JobReport, before: &JobReport, deed: ForcedEnding) -> bool {
    let (sites, says) = match deed {
        ForcedEnding::Cancelled | ForcedEnding::Deleted => (false, "CANCELLED"),
        ForcedEnding::Preempted => (false, "PREEMPTED"),
        ForcedEnding::TimedOut => (false, "TIMEOUT"),
        ForcedEnding::NodeFailed => (true, "NODE_FAIL"),
    };
    let now = &job.setbacks;
    let then = &before.setbacks;
    let part = &job.components[0];
    let old = &before.components[0];
    let told = part
        .detail
        .as_ref()
        .is_some_and(|detail| detail.contains(says));
    now.own_errors == then.own_errors
        && (now.site_errors > then.site_errors) == sites
        && (told || part.attempt != old.attempt)
}
