//! Recovery: from kill -9 with 100,000 live jobs to the first placement of the next epoch.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::load::{RequestLoad, post_load};
use super::report::BenchReport;
use super::server::BenchServer;
use super::{forged_store, machine_limits};

/// Too small for the many jobs, so that none is placed early.
const SITES: [(&str, u32); 3] = [("north", 32), ("south", 32), ("spare", 4)];
/// The files that are restored together: a store behind its floor is refused.
const STORE: [&str; 2] = ["store", "store.floor"];
/// Restarts of each kind; the median counts.
const ROUNDS: usize = 3;
const JOB: &[u8] = include_bytes!("jobs/one-kilobyte.json");

pub(super) fn bench(place: &Path, quick: bool) -> Result<BenchReport> {
    let mut report = BenchReport::new("recover");
    report.add_floor(
        "floor_fdatasync_per_s",
        machine_limits::fdatasync_per_s(place)?,
        "1/s",
    );
    let jobs = if quick { 5_000 } else { 100_000 };
    let directory = place.join("server");
    let mut server = BenchServer::start(&directory, &SITES)?;
    crate::print_progress("a store full of live jobs");
    submit_jobs(&server, jobs)?;
    server.kill()?;
    let data = directory.join("data");
    let kept = directory.join("kept");
    let forged = forged_store::forge_in_subprocess(&data.join(STORE[0]))?;
    report.add_floor("live_jobs", forged.live as f64, "jobs");
    replace_store(&data, &kept)?;
    for (name, cold, target) in [
        ("recover_100k_s", false, "<= 1"),
        ("recover_100k_cold_s", true, "<= 2"),
    ] {
        crate::print_progress(name);
        let mut taken = Vec::new();
        for _ in 0..ROUNDS {
            replace_store(&kept, &data)?;
            if cold && std::fs::write("/proc/sys/vm/drop_caches", "1").is_err() {
                crate::print_progress("only root can empty the cache: no cold figure");
                return Ok(report);
            }
            taken.push(await_first_placement(&mut server, forged.fits)?);
            let live = live_jobs(&server)?;
            if live != forged.live {
                bail!("of {} live jobs {live} are there again", forged.live);
            }
            server.kill()?;
        }
        taken.sort_unstable();
        report.add_figure(name, taken[ROUNDS / 2].as_secs_f64(), "s", target);
    }
    Ok(report)
}

fn submit_jobs(server: &BenchServer, jobs: usize) -> Result<()> {
    let body = [
        b"[".as_slice(),
        &[JOB.trim_ascii(); 1_000].join(&b","[..]),
        b"]",
    ]
    .concat();
    let port = server.port;
    let token = server.token.clone();
    let path = "/v1/jobs?allow_unplaceable=true";
    let requests = jobs.div_ceil(1_000);
    let number = None;
    let insists = false;
    let connections = 2;
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
    Ok(())
}

/// Replaces the store of one directory by that of the other.
fn replace_store(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for name in STORE {
        let from = from.join(name);
        let to = to.join(name);
        let removed = Command::new("rm").arg("-rf").arg(&to).status()?;
        if !removed.success()
            || !Command::new("cp")
                .arg("-a")
                .arg(&from)
                .arg(&to)
                .status()?
                .success()
        {
            bail!("{} could not be copied to {}", from.display(), to.display());
        }
    }
    // The copy must be on disk before anything is measured.
    Command::new("sync").status()?;
    Ok(())
}

/// Jobs that have not ended, by the server's count.
fn live_jobs(server: &BenchServer) -> Result<usize> {
    let metrics = server.get_text("/metrics")?;
    let ended = ["finished", "failed", "cancelled"].map(|phase| format!("\"{phase}\""));
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with("cospan_jobs{"));
    let live = lines.filter(|line| !ended.iter().any(|phase| line.contains(phase.as_str())));
    let counts = live.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
    Ok(counts.sum())
}

fn await_first_placement(server: &mut BenchServer, job: u64) -> Result<Duration> {
    let begin = Instant::now();
    server.restart()?;
    loop {
        if let Ok(job) = server.get_json(&format!("/v1/jobs/{job}"))
            && job["phase"]["state"]
                .as_str()
                .is_some_and(|state| state != "queued")
        {
            return Ok(begin.elapsed());
        }
        if begin.elapsed() > Duration::from_secs(120) {
            bail!("nothing was placed within two minutes of the restart");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
