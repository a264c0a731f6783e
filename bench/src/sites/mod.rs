//! Clusters under Slurm, started on this machine, exposed to every known fault, and timed. Root on
//! Debian; everything of ours runs as an ordinary user.

mod bench_clusters;
mod calls;
mod clusters;
mod killed_payloads;
mod kills;
mod leftovers;
mod payloads;
mod queries;
mod setup;
mod soak;
mod two_clusters;

use std::time::Duration;

use anyhow::{Context, Result};

pub use calls::{CallBenchSettings, CallFigures, measure_calls};

use super::report::{BenchReport, MUST_BE_NONE};
use bench_clusters::{BASE, BenchEnvironment, join_thread};
use clusters::{BETA, BOTH, BenchClusterGroup, JUDGED, KILLED};
use cospan_sites::slurm_testbed::{Testbed, capture_output};
use killed_payloads::KilledPayloadCounts;
use kills::KillBenchCounts;
use soak::SoakCounts;

/// The extent of the work.
struct BenchExtent {
    rounds: u32,
    settle: Duration,
    batches: u32,
    jobs: u32,
    length: Duration,
    pairs: usize,
    attempts: usize,
    soak: Duration,
}

impl BenchExtent {
    fn new(full: bool) -> Self {
        let seconds = Duration::from_secs;
        if full {
            Self {
                rounds: 25,
                settle: seconds(5),
                batches: 5,
                jobs: 40,
                length: seconds(120),
                pairs: 20,
                attempts: 5_000,
                soak: seconds(1_800),
            }
        } else {
            Self {
                rounds: 4,
                settle: seconds(3),
                batches: 1,
                jobs: 8,
                length: seconds(30),
                pairs: 5,
                attempts: 1_000,
                soak: seconds(180),
            }
        }
    }
}

/// Runs the timed sections first and alone; the rest waits more than it works, and runs at once.
pub(super) fn bench(full: bool) -> Result<BenchReport> {
    let extent = BenchExtent::new(full);
    let mut report = BenchReport::new("sites");
    let testbed = Testbed::below(BASE)?;
    testbed.check_free()?;
    let _only_run = leftovers::lock_testbed(&testbed)?;
    leftovers::end_leftovers(&testbed)?;
    leftovers::end_at_interrupt(&testbed);
    let ground = BenchEnvironment::start(&BOTH)?;
    measure_common_starts(&ground, &extent, &mut report)?;
    measure_queries(&ground, &extent, &mut report)?;
    let (judged, kills, soak) = std::thread::scope(|scope| {
        let judged = scope.spawn(|| measure_payload_endings(&extent));
        let kills = scope.spawn(|| measure_kills(&extent));
        let soak = scope.spawn(|| soak::measure_soak(&ground, extent.soak));
        Ok::<_, anyhow::Error>((
            join_thread(judged)?,
            join_thread(kills)?,
            join_thread(soak)?,
        ))
    })?;
    write_report(judged, kills, soak, &mut report);
    Ok(report)
}

fn measure_payload_endings(extent: &BenchExtent) -> Result<KilledPayloadCounts> {
    let ground = BenchEnvironment::start(&BenchClusterGroup {
        name: "judged",
        clusters: &JUDGED,
        ssh: None,
    })?;
    killed_payloads::measure_killed_payloads(&ground, extent.batches)
}

fn measure_kills(extent: &BenchExtent) -> Result<KillBenchCounts> {
    let ground = BenchEnvironment::start(&BenchClusterGroup {
        name: "killed",
        clusters: &KILLED,
        ssh: None,
    })?;
    kills::measure_controller_kills(&ground, extent.rounds, extent.settle)
}

fn measure_common_starts(
    ground: &BenchEnvironment,
    extent: &BenchExtent,
    report: &mut BenchReport,
) -> Result<()> {
    let together = two_clusters::measure_two_clusters(ground, extent.jobs)?;
    report.add_floor("floor_slurm_start_s", together.raw, "s");
    report.add_figure("coalloc_two_slurms_s", together.start, "s", "<= 4");
    report.add_figure("start_spread_p95_s", together.spread, "s", "<= 1");
    report.add_figure("start_seen_p95_s", together.seen, "s", "<= 2");
    Ok(())
}

fn measure_queries(
    ground: &BenchEnvironment,
    extent: &BenchExtent,
    report: &mut BenchReport,
) -> Result<()> {
    let (idle, calls) = std::thread::scope(|scope| {
        let idle = scope.spawn(|| queries::idle_rate(ground, extent.length));
        // Another process calls the other cluster meanwhile.
        let calls = scope.spawn(|| run_calls(ground, extent));
        Ok::<_, anyhow::Error>((join_thread(idle)?, join_thread(calls)?))
    })?;
    let busy = queries::busy_rate(ground, extent.length)?;
    report.add_figure("queries_per_min_idle", idle, "1/min", "<= 2");
    report.add_figure("queries_per_min_busy", busy, "1/min", "<= 30");
    report.add_floor("floor_sbatch_per_s_8way", calls.sbatch_per_s, "1/s");
    report.add_figure(
        "slurm_submit_ratio_8way",
        calls.submit_ratio,
        "ratio",
        ">= 0.6",
    );
    let name = format!("status_{}_ms", extent.attempts);
    report.add_figure(name, calls.status_ms, "ms of processor time", "<= 50");
    report.add_figure("status_wall_ms", calls.status_wall_ms, "ms", "");
    Ok(())
}

fn run_calls(ground: &BenchEnvironment, extent: &BenchExtent) -> Result<CallFigures> {
    crate::print_progress("calls beside bare commands");
    ground.run_as_operator(
        BETA,
        &["scontrol", "update", "partitionname=normal", "state=down"],
    )?;
    let mut command = ground.bench_command();
    command.args(["-o", "json", "site-calls"]);
    command
        .arg("--root")
        .arg(ground.create_directory("calls")?.join("root"));
    command
        .arg("--conf")
        .arg(ground.testbed.config_file_path(BETA.name));
    command
        .arg("--ssh")
        .arg(ground.ssh.as_ref().context("no way by SSH")?);
    command.args(["--pairs", &extent.pairs.to_string()]);
    command.args(["--attempts", &extent.attempts.to_string()]);
    let said = capture_output(&mut command)?
        .map_err(anyhow::Error::msg)
        .context("calls")?;
    ground.cancel_all(BETA)?;
    ground.run_as_operator(
        BETA,
        &["scontrol", "update", "partitionname=normal", "state=up"],
    )?;
    Ok(serde_json::from_str(&said)?)
}

fn write_report(
    judged: KilledPayloadCounts,
    kills: KillBenchCounts,
    soak: SoakCounts,
    report: &mut BenchReport,
) {
    let figures: [(&'static str, usize, &'static str); 8] = [
        ("false_success", judged.false_success, "payloads"),
        ("misjudged", judged.misjudged, "payloads"),
        ("slurm_kill_lost", kills.lost, "jobs"),
        ("slurm_kill_doubled", kills.doubled, "payloads"),
        ("cancel_undone", kills.undone, "payloads"),
        ("slurm_frozen_doubled", kills.frozen_doubled, "payloads"),
        ("foreign_touched", kills.foreign, "jobs"),
        ("soak_violations", soak.violations, "jobs"),
    ];
    for (name, count, unit) in figures {
        report.add_figure(name, count as f64, unit, MUST_BE_NONE);
    }
    report.add_figure(
        "payloads_ended_by_others",
        judged.payloads as f64,
        "payloads",
        "",
    );
    report.add_figure("soak_jobs", soak.jobs as f64, "jobs", "");
}
