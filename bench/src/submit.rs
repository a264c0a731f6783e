//! Durable submissions over HTTP, beside the floor of a bare POST to the same store.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::load::{LoadResult, RequestLoad, post_load};
use super::machine_limits;
use super::report::BenchReport;
use super::server::{BenchServer, free_port};

pub(super) const JOB: &[u8] = include_bytes!("jobs/one-kilobyte.json");
/// Sites that exist and are full for a job of this size, but could hold it. The larger one comes
/// first: a job that fits both would go there.
pub(super) const SITES: [(&str, u32); 2] = [("south", 72), ("north", 64)];
/// The job's number in its study.
const NUMBER: &str = "0017";
/// Jobs in one request of the bulk figure.
pub(super) const BULK: usize = 1_000;

pub(super) fn bench(place: &Path, quick: bool) -> Result<BenchReport> {
    let mut report = BenchReport::new("submit");
    let requests = if quick { 5_000 } else { 100_000 };
    let syncs = machine_limits::fdatasync_per_s(place)?;
    report.add_floor("floor_fdatasync_per_s", syncs, "1/s");
    report.add_floor("floor_append_ms", 1_000.0 / syncs, "ms");
    let floor = BaselineServer::start(&place.join("floor"))?;
    let mut server = BenchServer::start(&place.join("server"), &SITES)?;
    fill_sites(&server)?;
    let (http, bare) = post_in_turns(&server, &floor, requests)?;
    drop(floor);
    let target = ">= 20000 and >= 0.7 x floor_post_per_s";
    report.add_figure("submit_http_per_s", http.per_second(), "jobs/s", target);
    report.add_figure("submit_http_p99_ms", http.quantile_ms(0.99), "ms", "<= 25");
    report.add_floor("floor_post_per_s", bare.per_second(), "requests/s");
    let ratio = http.per_second() / bare.per_second();
    report.add_figure("submit_http_over_floor", ratio, "ratio", ">= 0.7");
    let resident = server.resident_bytes()? as f64 / 1e6;
    crate::print_progress("submissions that all differ, 256 connections");
    let distinct = RequestLoad {
        number: Some(NUMBER),
        ..server_load(&server, JOB.to_vec(), 256, requests / 4)
    };
    let distinct = post_load(distinct)?;
    report.add_figure(
        "submit_http_distinct_per_s",
        distinct.per_second(),
        "jobs/s",
        "",
    );
    let target = if quick { "" } else { "<= 400" };
    report.add_figure("rss_100k_queued_mb", resident, "MB", target);
    crate::print_progress("submissions, one connection");
    let single = post_load(server_load(&server, JOB.to_vec(), 1, requests / 50))?;
    report.add_figure(
        "submit_single_p50_ms",
        single.quantile_ms(0.5),
        "ms",
        "<= 1.5 and <= 4 x floor_append_ms",
    );
    crate::print_progress("submissions in bulk");
    let bulk = post_load(server_load(
        &server,
        bulk_body(|_| numbered_document(17)),
        4,
        if quick { 8 } else { 60 },
    ))?;
    let jobs_per_s = bulk.per_second() * BULK as f64;
    report.add_figure("submit_bulk_jobs_per_s", jobs_per_s, "jobs/s", ">= 35000");
    crate::print_progress("kill -9, and every acknowledged id read back");
    let acknowledged = collect_ids([&http, &distinct, &single, &bulk])?;
    server.kill()?;
    server.restart()?;
    server.wait_ready()?;
    check_jobs_listed(&server, acknowledged)?;
    drop(server);
    let resident = distinct_jobs_memory(&place.join("distinct"), requests)?;
    report.add_figure("rss_100k_distinct_mb", resident, "MB", target);
    Ok(report)
}

/// Posts submissions and bare bodies in turns, as machines differ from minute to minute.
fn post_in_turns(
    server: &BenchServer,
    floor: &BaselineServer,
    requests: usize,
) -> Result<(LoadResult, LoadResult)> {
    let mut ours = Vec::new();
    let mut bare = Vec::new();
    for is_ours in [false, true, true, false, false, true] {
        if is_ours {
            crate::print_progress("submissions, 256 connections");
            ours.push(post_load(server_load(
                server,
                JOB.to_vec(),
                256,
                requests.div_ceil(3),
            ))?);
        } else {
            crate::print_progress("bare posts");
            bare.push(post_load(floor.floor_load(requests.div_ceil(3)))?);
        }
    }
    Ok((LoadResult::join_turns(ours), LoadResult::join_turns(bare)))
}

/// Resident memory in MB with this many queued jobs of which no two are equal.
fn distinct_jobs_memory(place: &Path, jobs: usize) -> Result<f64> {
    crate::print_progress("jobs that all differ");
    let server = BenchServer::start(place, &SITES)?;
    fill_sites(&server)?;
    for request in 0..jobs / BULK {
        let first = request * BULK;
        post_load(server_load(
            &server,
            bulk_body(|index| numbered_document(first + index)),
            1,
            1,
        ))?;
    }
    Ok(server.resident_bytes()? as f64 / 1e6)
}

/// The job with its number in the study in place of the first one's.
pub(super) fn numbered_document(number: usize) -> String {
    String::from_utf8_lossy(JOB.trim_ascii()).replace(NUMBER, &format!("{number:04}"))
}

pub(super) fn server_load(
    server: &BenchServer,
    body: Vec<u8>,
    connections: usize,
    requests: usize,
) -> RequestLoad {
    let port = server.port;
    let token = server.token.clone();
    let path = "/v1/jobs";
    let number = None;
    let insists = false;
    RequestLoad {
        port,
        path,
        token,
        body,
        number,
        insists,
        connections,
        requests,
    }
}

pub(super) fn bulk_body(job: impl Fn(usize) -> String) -> Vec<u8> {
    let jobs: Vec<String> = (0..BULK).map(job).collect();
    format!("[{}]", jobs.join(",")).into_bytes()
}

/// Takes processors for ten minutes at most, and no longer than the bench's directory exists.
const FILLER: &str = "for i in $(seq 120); do test -d \\\"$PWD\\\" || exit; sleep 5; done";

/// Fills each site with one long job, so that nothing else fits.
pub(super) fn fill_sites(server: &BenchServer) -> Result<()> {
    for (_, processors) in SITES {
        let body = format!(
            r#"{{"wall_time":"1h","component":[{{"name":"full","processors":{processors},"executable":"/bin/sh","arguments":["-c","{FILLER}"]}}]}}"#
        );
        post_load(server_load(server, body.into_bytes(), 1, 1))?;
    }
    let begin = std::time::Instant::now();
    while server.get_json("/v1/jobs?state=running")?["jobs"]
        .as_array()
        .map_or(0, Vec::len)
        < SITES.len()
    {
        if begin.elapsed().as_secs() > 60 {
            bail!("the sites could not be filled within a minute");
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Ok(())
}

/// A server that makes each body durable and does nothing else.
struct BaselineServer {
    child: Child,
    port: u16,
}

impl BaselineServer {
    fn start(directory: &Path) -> Result<Self> {
        let port = free_port()?;
        let child = Command::new(std::env::current_exe()?)
            .args(["floor-server", "--port", &port.to_string(), "--directory"])
            .arg(directory)
            .stdin(Stdio::null())
            .spawn()
            .context("the floor's server could not be started")?;
        let floor = Self { child, port };
        wait_for_port(port)?;
        Ok(floor)
    }

    fn floor_load(&self, requests: usize) -> RequestLoad {
        let port = self.port;
        let token = "none".to_owned();
        let body = JOB.to_vec();
        let path = "/";
        let number = None;
        let insists = false;
        let connections = 256;
        RequestLoad {
            port,
            path,
            token,
            body,
            number,
            insists,
            connections,
            requests,
        }
    }
}

impl Drop for BaselineServer {
    fn drop(&mut self) {
        // A server that is gone already is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for_port(port: u16) -> Result<()> {
    let begin = std::time::Instant::now();
    while ureq::get(&format!("http://127.0.0.1:{port}/readyz"))
        .call()
        .is_err()
    {
        if begin.elapsed().as_secs() > 30 {
            bail!("the floor's server was not ready after 30 s");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Ok(())
}

fn collect_ids(loads: [&LoadResult; 4]) -> Result<BTreeSet<u64>> {
    let mut ids = BTreeSet::new();
    for answer in loads.into_iter().flat_map(|load| &load.answers) {
        let answer: Value = serde_json::from_slice(answer)?;
        match answer.get("jobs").and_then(Value::as_array) {
            Some(jobs) => ids.extend(jobs.iter().filter_map(|job| job["id"].as_u64())),
            None => ids.extend(answer["id"].as_u64()),
        }
    }
    Ok(ids)
}

fn check_jobs_listed(server: &BenchServer, mut missing: BTreeSet<u64>) -> Result<()> {
    let acknowledged = missing.len();
    let mut after = 0;
    loop {
        let page = server.get_json(&format!("/v1/jobs?limit=1000&after={after}"))?;
        let jobs = page["jobs"].as_array().cloned().unwrap_or_default();
        let Some(last) = jobs.last().and_then(|job| job["id"].as_u64()) else {
            break;
        };
        for id in jobs.iter().filter_map(|job| job["id"].as_u64()) {
            missing.remove(&id);
        }
        after = last;
    }
    match missing.first() {
        None => Ok(()),
        Some(first) => {
            bail!(
                "{} of {acknowledged} acknowledged jobs are lost, the first is {first}",
                missing.len()
            )
        }
    }
}
