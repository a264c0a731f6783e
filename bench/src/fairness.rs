//! The time that others wait until a submission is durable while one user asks for as much as
//! possible: 200,000 jobs, or dry runs of the largest job that is allowed, four at a time. And the
//! time of a start after the server accepted as much as there is room for.

use std::path::Path;
use std::thread;

use anyhow::{Result, anyhow, bail};

use super::load::{LoadResult, RequestLoad, post_load};
use super::report::BenchReport;
use super::server::BenchServer;
use super::submit::{BULK, JOB, SITES, bulk_body, fill_sites, numbered_document, server_load};

/// Jobs that the busy user submits.
const JOBS: usize = 200_000;
/// Requests that the busy user has under way at once.
const AT_ONCE: usize = 4;
/// Submissions of the other user between two checks on the crowd.
const TURN: usize = 20;
/// Components of the largest job, and bytes of its document: the defaults of
/// `limits.max_components` and `server.max_body`, with some room.
const COMPONENTS: usize = 1_000;
const BYTES: usize = 3_900_000;

pub(super) fn bench(place: &Path, quick: bool) -> Result<BenchReport> {
    let mut report = BenchReport::new("crowd");
    let server = BenchServer::start(place, &SITES)?;
    fill_sites(&server)?;
    let other = server.add_key("other")?;
    crate::print_progress("submissions of one, nobody else there");
    let alone = post_load(single_load(
        &server,
        &other,
        if quick { 200 } else { 2_000 },
    ))?;
    report.add_floor("floor_submit_p99_ms", alone.quantile_ms(0.99), "ms");
    crate::print_progress("submissions of one beside many of another");
    let jobs = if quick { JOBS / 20 } else { JOBS };
    let many = server_load(&server, bulk_body(numbered_document), AT_ONCE, jobs / BULK);
    let waited = post_beside_crowd(&server, &other, many)?;
    report.add_figure("other_submit_p50_ms", waited.quantile_ms(0.5), "ms", "");
    report.add_figure(
        "other_submit_p99_ms",
        waited.quantile_ms(0.99),
        "ms",
        "<= 100",
    );
    crate::print_progress("submissions of one beside the largest dry runs of another");
    let path = "/v1/jobs?dry_run=true&allow_unplaceable=true";
    let largest = server_load(
        &server,
        largest_document(),
        AT_ONCE,
        if quick { 8 } else { 80 },
    );
    let waited = post_beside_crowd(
        &server,
        &other,
        RequestLoad {
            path,
            insists: true,
            ..largest
        },
    )?;
    report.add_figure("other_dry_run_p50_ms", waited.quantile_ms(0.5), "ms", "");
    report.add_figure(
        "other_dry_run_p99_ms",
        waited.quantile_ms(0.99),
        "ms",
        "<= 100",
    );
    drop(server);
    let (memory, target) = if quick {
        ("100MB", "<= 100")
    } else {
        ("1GB", "<= 1000")
    };
    let most = peak_memory_when_full(&place.join("full"), memory, &mut report)?;
    report.add_figure("full_start_most_mb", most, "MB", target);
    Ok(report)
}

/// Fills a server with distinct jobs until it refuses more, and returns the peak memory, in MB, of
/// its next start.
fn peak_memory_when_full(place: &Path, memory: &str, report: &mut BenchReport) -> Result<f64> {
    crate::print_progress("a server that is full, and its start");
    let mut server = BenchServer::start_within(place, &SITES, memory)?;
    fill_sites(&server)?;
    let mut jobs = 0;
    while let Some(more) = submit_if_room(&server, jobs)? {
        jobs += more;
    }
    report.add_floor("full_jobs", jobs as f64, "jobs");
    server.kill()?;
    server.restart()?;
    server.wait_ready()?;
    let most = server.peak_resident_bytes()? as f64 / 1e6;
    let kept = server.get_json("/v1/store")?["jobs"].as_u64();
    if kept != Some((jobs + SITES.len()) as u64) {
        bail!("of {jobs} jobs {kept:?} are there again");
    }
    Ok(most)
}

/// Submits some more jobs; returns their number if there was room for them.
fn submit_if_room(server: &BenchServer, from: usize) -> Result<Option<usize>> {
    match post_load(server_load(
        server,
        bulk_body(|index| numbered_document(from + index)),
        1,
        1,
    )) {
        Ok(_) => Ok(Some(BULK)),
        Err(refused) if refused.to_string().contains("answered 429") => Ok(None),
        Err(problem) => Err(problem),
    }
}

fn single_load(server: &BenchServer, other: &str, requests: usize) -> RequestLoad {
    RequestLoad {
        token: other.to_owned(),
        ..server_load(server, JOB.to_vec(), 1, requests)
    }
}

/// Submits for the other user, one job after another, as long as the crowd lasts.
fn post_beside_crowd(server: &BenchServer, other: &str, crowd: RequestLoad) -> Result<LoadResult> {
    let crowd = thread::spawn(move || post_load(crowd));
    let mut turns = Vec::new();
    while turns.is_empty() || !crowd.is_finished() {
        turns.push(post_load(single_load(server, other, TURN))?);
    }
    crowd
        .join()
        .map_err(|_| anyhow!("the crowd's thread panicked"))??;
    Ok(LoadResult::join_turns(turns))
}

fn largest_document() -> Vec<u8> {
    let text = "x".repeat(BYTES / COMPONENTS - 100);
    let components: Vec<String> = (0..COMPONENTS).map(|number: usize| {
        format!(
            r#"{{"name":"c{number}","processors":1,"executable":"/bin/true","arguments":["{text}"]}}"#
        )
    }).collect();
    format!(
        r#"{{"wall_time":"1h","component":[{}]}}"#,
        components.join(",")
    )
    .into_bytes()
}
