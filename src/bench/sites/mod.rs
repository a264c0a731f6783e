//! Clusters under Slurm, started on this machine, hurt in every way that is known of them, and
//! timed. Root on Debian; everything of ours runs as an ordinary user.

mod calls;
mod ground;
mod judged;
mod kills;
mod payloads;
mod queries;
mod soak;
mod together;

use std::time::Duration;

use anyhow::{Context, Result};

pub use calls::{Calls, CallsPlan, measure_calls};

use super::report::Report;
use crate::testbed::{Cluster, said};
use ground::{ALPHA, Ground};

/// How much is done.
struct Extent {
    rounds: u32,
    settle: Duration,
    batches: u32,
    jobs: u32,
    length: Duration,
    pairs: usize,
    attempts: usize,
    soak: Duration,
}

impl Extent {
    fn new(full: bool) -> Self {
        let seconds = Duration::from_secs;
        match full {
            true => Self {
                rounds: 25,
                settle: seconds(5),
                batches: 5,
                jobs: 40,
                length: seconds(120),
                pairs: 20,
                attempts: 5_000,
                soak: seconds(1_800),
            },
            false => Self {
                rounds: 4,
                settle: seconds(3),
                batches: 1,
                jobs: 10,
                length: seconds(40),
                pairs: 5,
                attempts: 1_000,
                soak: seconds(180),
            },
        }
    }
}

pub(super) fn bench(full: bool) -> Result<Report> {
    let extent = Extent::new(full);
    let mut report = Report::new("sites");
    let ground = Ground::start()?;
    together(&ground, &extent, &mut report)?;
    asked(&ground, &extent, &mut report)?;
    calls(&ground, &extent, &mut report)?;
    judged(&ground, &extent, &mut report)?;
    hurt(&ground, &extent, &mut report)?;
    Ok(report)
}

fn together(ground: &Ground, extent: &Extent, report: &mut Report) -> Result<()> {
    let together = together::measure(ground, extent.jobs)?;
    report.floor("floor_slurm_start_s", together.raw, "s");
    report.figure("coalloc_two_slurms_s", together.start, "s", "<= 4");
    report.figure("start_spread_p95_s", together.spread, "s", "<= 1");
    report.figure("start_seen_p95_s", together.seen, "s", "<= 2");
    Ok(())
}

fn asked(ground: &Ground, extent: &Extent, report: &mut Report) -> Result<()> {
    let (idle, busy) = queries::measure(ground, extent.length)?;
    report.figure("queries_per_min_idle", idle, "1/min", "<= 2");
    report.figure("queries_per_min_busy", busy, "1/min", "<= 30");
    Ok(())
}

fn calls(ground: &Ground, extent: &Extent, report: &mut Report) -> Result<()> {
    crate::cli::progress("calls beside bare commands");
    ground.operate(ALPHA, &["scontrol", "update", "partitionname=normal", "state=down"])?;
    let mut command = ground.program();
    command.args(["-o", "json", "bench", "site-calls"]);
    command.arg("--root").arg(ground.directory("calls")?.join("root"));
    command.arg("--conf").arg(ground.testbed.conf(ALPHA.name)).arg("--ssh").arg(&ground.ssh);
    command.args(["--pairs", &extent.pairs.to_string()]);
    command.args(["--attempts", &extent.attempts.to_string()]);
    let said = said(&mut command)?.map_err(anyhow::Error::msg).context("calls")?;
    let calls: Calls = serde_json::from_str(&said)?;
    ground.clear(ALPHA)?;
    ground.operate(ALPHA, &["scontrol", "update", "partitionname=normal", "state=up"])?;
    report.floor("floor_sbatch_per_s_8way", calls.sbatch_per_s, "1/s");
    report.figure("slurm_submit_ratio_8way", calls.submit_ratio, "ratio", ">= 0.6");
    let name = format!("status_{}_ms", extent.attempts);
    report.figure(name, calls.status_ms, "ms of processor time", "<= 50");
    report.figure("status_wall_ms", calls.status_wall_ms, "ms", "");
    Ok(())
}

fn judged(ground: &Ground, extent: &Extent, report: &mut Report) -> Result<()> {
    let judged = judged::measure(ground, extent.batches)?;
    report.figure("payloads_ended_by_others", judged.payloads as f64, "payloads", "");
    report.figure("false_success", judged.false_success as f64, "payloads", "0");
    report.figure("misjudged", judged.misjudged as f64, "payloads", "0");
    Ok(())
}

fn hurt(ground: &Ground, extent: &Extent, report: &mut Report) -> Result<()> {
    let kills = kills::measure(ground, extent.rounds, extent.settle)?;
    report.figure("slurm_kill_lost", kills.lost as f64, "jobs", "0");
    report.figure("slurm_kill_doubled", kills.doubled as f64, "payloads", "0");
    report.figure("cancel_undone", kills.undone as f64, "payloads", "0");
    report.figure("slurm_frozen_doubled", kills.frozen_doubled as f64, "payloads", "0");
    report.figure("foreign_touched", kills.foreign as f64, "jobs", "0");
    let soak = soak::measure(ground, extent.soak)?;
    report.figure("soak_jobs", soak.jobs as f64, "jobs", "");
    report.figure("soak_violations", soak.violations as f64, "jobs", "0");
    Ok(())
}
