//! Jobs through the whole control plane under virtual time: speed, memory, and the growth of both.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use actix_web::rt::System;
use anyhow::Result;
use cospan_domain::ids::SiteName;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_simulator::call_faults::{CallFaultModel, FaultRates};
use cospan_simulator::experiment::{
    ExperimentInput, ExperimentOutcome, ExperimentSurroundings, TimedSubmission, TimedSubmissions,
    run_experiment,
};
use cospan_simulator::jobs::build_shared_job;
use cospan_simulator::settings::default_settings;
use cospan_simulator::world::batch::QueueDiscipline;
use cospan_simulator::world::world_site::ClusterSpec;
use cospan_simulator::world::{SimulatedWorld, WrapperDelays};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::{mpsc, oneshot};

use super::ClusterLog;
use super::report::BenchReport;
use cospan_simulator::simulate::workload::{
    EstimateSource, WorkloadJob, WorkloadOptions, WorkloadSource,
};

const BEGINS: Timestamp = Timestamp(1_000_000_000);
const SITES: [&str; 5] = ["amsterdam", "delft", "leiden", "twente", "utrecht"];
const NODES: u32 = 64;
/// Share of all processors that the jobs keep busy.
const LOAD: f64 = 0.7;
const RUN_TIME_MAX_S: u64 = 1_800;
const PROCESSORS_MAX: u32 = 16;

pub(super) fn bench(quick: bool, log: Option<&ClusterLog>) -> Result<BenchReport> {
    let mut report = BenchReport::new("simulate");
    report.add_floor("floor_messages_per_s", messages_per_s(), "1/s");
    let most = if quick { 2_000 } else { 20_000 };
    let mut points = Vec::new();
    for share in [8, 4, 2, 1] {
        crate::print_progress(&format!("{} jobs", most / share));
        let jobs = most / share;
        let begun = Instant::now();
        let outcome = simulate_jobs(jobs)?;
        points.push((jobs as f64, begun.elapsed().as_secs_f64()));
        if share == 1 {
            let rate = jobs as f64 / begun.elapsed().as_secs_f64();
            report.add_figure("simulate_jobs_per_s", rate, "jobs/s", ">= 10000");
            let per_job = outcome.changes as f64 / jobs as f64;
            report.add_figure("simulate_changes_per_job", per_job, "changes", "");
            let per_job = outcome.messages as f64 / jobs as f64;
            report.add_figure("simulate_messages_per_job", per_job, "messages", "");
            let per_job = outcome.calls as f64 / jobs as f64;
            report.add_figure("simulate_site_calls_per_job", per_job, "calls", "");
            let days = outcome.ended.since(BEGINS).as_secs_f64() / 86_400.0;
            report.add_figure("simulate_days", days, "days", "");
        }
    }
    report.add_figure("simulate_growth_exponent", slope(&points), "", "<= 1.1");
    if let Some(log) = log {
        simulate_year(log, &mut report)?;
    }
    let large = if quick { most } else { 243_306 };
    crate::print_progress(&format!("{large} jobs"));
    let begun = Instant::now();
    simulate_jobs(large)?;
    report.add_figure("simulate_250k_s", begun.elapsed().as_secs_f64(), "s", "");
    report.add_figure("simulate_250k_rss_mb", peak_mb(), "MB", "<= 500");
    Ok(report)
}

/// Runs the jobs of a log on their own cluster.
fn simulate_year(log: &ClusterLog, report: &mut BenchReport) -> Result<()> {
    crate::print_progress(&format!("{}", log.file.display()));
    let begun = Instant::now();
    let mut options = WorkloadOptions::new(WorkloadSource::Log(log.file.clone()), 1);
    options.estimates = EstimateSource::Exact;
    let jobs = options.plan_workload(&[log.processors], BEGINS)?.jobs;
    let count = jobs.len();
    let jobs = Box::new(jobs.into_iter().map(|job: WorkloadJob| {
        let estimate = job.estimate.max(job.run_time);
        let spec = build_shared_job(&job.components, job.run_time, estimate, 0)?;
        Ok(TimedSubmission { at: job.at, spec })
    }));
    run_through(jobs, count, vec![cluster_of(SITES[0], log.processors)?])?;
    report.add_figure(
        "simulate_das2_year_s",
        begun.elapsed().as_secs_f64(),
        "s",
        "< 10",
    );
    report.add_figure("simulate_log_jobs", count as f64, "jobs", "");
    Ok(())
}

/// Messages per second that a bare task answers one after the other: no more than this could pass
/// between actors.
fn messages_per_s() -> f64 {
    const COUNT: u32 = 200_000;
    let begun = Instant::now();
    System::new().block_on(async {
        let (ask, mut asked) = mpsc::unbounded_channel::<oneshot::Sender<()>>();
        actix_web::rt::spawn(async move {
            while let Some(reply) = asked.recv().await {
                // The caller waits for it.
                let _ = reply.send(());
            }
        });
        for _ in 0..COUNT {
            let (reply, answer) = oneshot::channel();
            let _ = ask.send(reply);
            let _ = answer.await;
        }
    });
    f64::from(COUNT) / begun.elapsed().as_secs_f64()
}

/// Runs jobs of one component that arrive at random at five EASY sites without local users.
fn simulate_jobs(count: usize) -> Result<ExperimentOutcome<()>> {
    let mut chance = StdRng::seed_from_u64(1);
    let work_ms = f64::from(PROCESSORS_MAX + 1) / 2.0 * (RUN_TIME_MAX_S * 1_000) as f64 / 2.0;
    let gap = work_ms / (LOAD * f64::from(NODES) * SITES.len() as f64);
    let mut at = BEGINS;
    let sites = SITES
        .iter()
        .map(|name| cluster_of(name, NODES))
        .collect::<Result<_>>()?;
    run_through(
        Box::new((0..count).map(move |_| {
            let wait = -(1.0 - chance.random::<f64>()).ln() * gap;
            at = at + DurationMs(wait as u64);
            let run_time = DurationMs(chance.random_range(1_000..=RUN_TIME_MAX_S * 1_000));
            let processors = chance.random_range(1..=PROCESSORS_MAX);
            let spec = build_shared_job(&[processors], run_time, DurationMs(2_000_000), 0)?;
            Ok(TimedSubmission { at, spec })
        })),
        count,
        sites,
    )
}

fn cluster_of(name: &str, nodes: u32) -> Result<ClusterSpec> {
    Ok(ClusterSpec {
        name: SiteName::new(name)?,
        nodes,
        processors_per_node: 1,
        discipline: QueueDiscipline::Easy,
        local_jobs: Vec::new(),
        queues: false,
        reserves: false,
        files: BTreeMap::new(),
    })
}

fn run_through(
    jobs: TimedSubmissions,
    count: usize,
    sites: Vec<ClusterSpec>,
) -> Result<ExperimentOutcome<()>> {
    let mut settings = default_settings();
    settings.poll_interval = DurationMs::from_secs(600);
    settings.information_expiry = DurationMs::from_secs(600);
    let experiment = ExperimentInput {
        world: SimulatedWorld::new(sites, &[], WrapperDelays::default(), 1, BEGINS),
        settings,
        jobs,
        count,
        begins: BEGINS,
        seed: 1,
        call_faults: CallFaultModel::new(FaultRates::default(), 1),
    };
    run_experiment(
        experiment,
        ExperimentSurroundings::default(),
        |_| (),
        Rc::new(|_, _| {}),
    )
}

/// The growth of time with jobs: the slope of a line through the logarithms.
pub(super) fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let x = logs.iter().map(|point| point.0).sum::<f64>() / count;
    let y = logs.iter().map(|point| point.1).sum::<f64>() / count;
    let above: f64 = logs.iter().map(|(a, b)| (a - x) * (b - y)).sum();
    let below: f64 = logs.iter().map(|(a, _)| (a - x).powi(2)).sum();
    above / below
}

/// Peak memory of this process.
fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kb.unwrap_or(f64::NAN) / 1_000.0
}
