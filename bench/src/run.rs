//! Local components, from start to finish, beside the bare wrapper; and the cost of an idle server.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use cospan_sites::wrapper::cost::{WrapperCost, measure_cost};

use super::load::{RequestLoad, post_load};
use super::machine_limits;
use super::report::BenchReport;
use super::server::BenchServer;

const JOB: &[u8] = include_bytes!("jobs/true.json");
/// A single site whose processors bound the number of components that run at once.
const SITES: [(&str, u32); 1] = [("here", 64)];
/// Number of times that components are run, with bare wrappers before and after each: machines
/// differ from minute to minute.
const ROUNDS: usize = 3;
/// Clock ticks a second, as Linux counts processor time for every program.
const TICKS_PER_S: f64 = 100.0;

pub(super) fn bench(place: &Path, quick: bool) -> Result<BenchReport> {
    let mut report = BenchReport::new("run");
    let length = Duration::from_millis(if quick { 500 } else { 3_000 });
    let place = place.canonicalize()?;
    report.add_floor(
        "floor_fdatasync_per_s",
        machine_limits::fdatasync_per_s(&place)?,
        "1/s",
    );
    report.add_floor("floor_spawn_per_s", machine_limits::spawn_per_s()?, "1/s");
    let server = BenchServer::start(&place.join("server"), &SITES)?;
    report.add_figure(
        "idle_cpu_percent",
        idle_cpu_percent(&server, length * 3)?,
        "%",
        "< 1",
    );
    let jobs = if quick { 100 } else { 1_000 };
    let mut floors = vec![wrapper_cost(&place, 0, length)?];
    let mut rates = Vec::new();
    for round in 1..=ROUNDS {
        rates.push(run_jobs(&server, jobs, (round - 1) * jobs)?);
        floors.push(wrapper_cost(&place, round, length)?);
    }
    let ratios = rates
        .iter()
        .zip(floors.windows(2))
        .map(|(rate, around)| rate / mean_best_rate(around));
    let ratio = median(ratios.collect());
    let wrapper_ms = median(floors.iter().map(|floor| floor.wrapper_ms).collect());
    report.add_floor("floor_wrappers_best_per_s", mean_best_rate(&floors), "1/s");
    report.add_figure("run_local_per_s", median(rates), "components/s", "");
    report.add_figure("run_local_ratio", ratio, "ratio", ">= 0.9");
    report.add_figure("wrapper_ms", wrapper_ms, "ms", "<= 8");
    Ok(report)
}

fn mean_best_rate(around: &[WrapperCost]) -> f64 {
    around.iter().map(WrapperCost::best_per_s).sum::<f64>() / around.len() as f64
}

/// The median; of an even number, the upper one.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn wrapper_cost(place: &Path, round: usize, length: Duration) -> Result<WrapperCost> {
    crate::print_progress("bare wrappers");
    let root = place.join(format!("wrappers-{round}"));
    std::fs::create_dir(&root)?;
    measure_cost(&root, length, "/bin/sh").map_err(|error| anyhow!("bare wrappers: {error}"))
}

fn idle_cpu_percent(server: &BenchServer, length: Duration) -> Result<f64> {
    crate::print_progress("an idle server");
    let begin = Instant::now();
    let before = server.cpu_ticks()?;
    std::thread::sleep(length);
    let ticks = server.cpu_ticks()? - before;
    Ok(ticks as f64 / TICKS_PER_S / begin.elapsed().as_secs_f64() * 100.0)
}

/// Submits all jobs at once and waits for the last; returns components finished per second. `done`
/// jobs had finished before.
fn run_jobs(server: &BenchServer, jobs: usize, done: usize) -> Result<f64> {
    crate::print_progress("local components");
    let body = [
        b"[".as_slice(),
        &[JOB.trim_ascii(); 100].join(&b","[..]),
        b"]",
    ]
    .concat();
    let begin = Instant::now();
    let port = server.port;
    let token = server.token.clone();
    let requests = jobs.div_ceil(100);
    let path = "/v1/jobs";
    let number = None;
    let insists = false;
    let connections = 1;
    post_load(RequestLoad {
        port,
        path,
        token,
        body,
        number,
        insists,
        connections,
        requests,
    })?;
    loop {
        let ended = ended_jobs(server)?;
        if ended.0 >= (done + jobs) as f64 {
            break;
        }
        if ended.1 > 0.0 {
            bail!("{} of the components failed", ended.1);
        }
        if begin.elapsed() > Duration::from_secs(600) {
            bail!(
                "{} of {} components had finished after 10 minutes",
                ended.0,
                done + jobs
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(jobs as f64 / begin.elapsed().as_secs_f64())
}

/// Jobs that finished, and jobs that ended otherwise, by the server's own count.
fn ended_jobs(server: &BenchServer) -> Result<(f64, f64)> {
    let metrics = server.get_text("/metrics")?;
    Ok((
        count_ended(&metrics, "finished"),
        count_ended(&metrics, "failed") + count_ended(&metrics, "cancelled"),
    ))
}

fn count_ended(metrics: &str, how: &str) -> f64 {
    let name = format!("cospan_jobs_ended_total{{how=\"{how}\"}} ");
    let value = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name.as_str())?.parse().ok());
    value.unwrap_or(0.0)
}
