//! A controller that is killed right after it acknowledged something, or frozen until its
//! clients give up.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::ground::{ALPHA, Ground, Part, now};

/// Jobs of a round.
const JOBS: usize = 5;
/// Longer than a client of Slurm waits for its controller.
const FROZEN: Duration = Duration::from_secs(15);
/// How long what was cancelled could still begin.
const COULD_BEGIN: Duration = Duration::from_secs(12);

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Kills {
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

/// So many rounds of each; the controller is away for `settle`.
pub(super) fn measure(ground: &Ground, rounds: u32, settle: Duration) -> Result<Kills> {
    let mut kills = Kills::default();
    for round in 0..rounds {
        crate::cli::progress(&format!("slurmctld killed, round {} of {rounds}", round + 1));
        kill_after_submissions(ground, round, settle, &mut kills)?;
        kill_after_cancel(ground, settle, &mut kills)?;
    }
    crate::cli::progress("slurmctld frozen");
    freeze(ground, &mut kills)?;
    Ok(kills)
}

fn submit_some(ground: &Ground, processors: u32, seconds: u32, more: &str) -> Result<Vec<u64>> {
    let part = Part { site: Some(ALPHA.name), processors };
    (0..JOBS).map(|_| ground.submit(&[part], seconds, more)).collect()
}

fn kill_after_submissions(
    ground: &Ground,
    round: u32,
    settle: Duration,
    kills: &mut Kills,
) -> Result<()> {
    let jobs = submit_some(ground, 1, 2, "")?;
    // Slurm gave each a number: acknowledged.
    ground.await_jobs("submitted to Slurm", &jobs, |job| job.components[0].lrm_id.is_some())?;
    ground.testbed.kill_controller(ALPHA.name)?;
    std::thread::sleep(settle);
    ground.testbed.up(ALPHA)?;
    ground.resume(ALPHA)?;
    // The numbers of what was forgotten are given out again.
    let foreign = foreign_jobs(ground, round)?;
    count(ground, &jobs, &mut kills.lost, &mut kills.doubled)?;
    kills.foreign += foreign.iter().filter(|job| !await_end(ground, job)).count();
    Ok(())
}

/// A job of the same user that has nothing to do with us.
struct Foreign {
    number: String,
    /// A file that it leaves when it ends by itself.
    marker: PathBuf,
}

fn foreign_jobs(ground: &Ground, round: u32) -> Result<Vec<Foreign>> {
    let place = ground.directory("foreign")?;
    (0..JOBS)
        .map(|number| {
            let marker = place.join(format!("{round}-{number}"));
            let work = format!("sleep 6; : > {}", marker.display());
            let words = ["sbatch", "--parsable", "-o", "/dev/null", "-J", "wave", "--wrap", &work];
            Ok(Foreign { number: ground.slurm(ALPHA, &words)?, marker })
        })
        .collect()
}

fn await_end(ground: &Ground, job: &Foreign) -> bool {
    let number = std::slice::from_ref(&job.number);
    let is_over = || {
        ground.keep_in_service(ALPHA, number);
        Ok(job.marker.exists())
    };
    ground.wait("a foreign job ends", is_over).is_ok()
}

fn count(ground: &Ground, jobs: &[u64], lost: &mut usize, doubled: &mut usize) -> Result<()> {
    let ended = ground.await_ends(jobs)?;
    let payloads = ground.payloads()?;
    let whole = |id: u64, components| payloads.is_whole(id, components);
    *lost += ended
        .iter()
        .filter(|job| job.phase.state != "finished" || !whole(job.id, job.components.len()))
        .count();
    *doubled += jobs.iter().map(|id| payloads.doubled(*id)).sum::<usize>();
    Ok(())
}

fn kill_after_cancel(ground: &Ground, settle: Duration, kills: &mut Kills) -> Result<()> {
    let wide = ALPHA.processors.to_string();
    let filler = ["sbatch", "--parsable", "-o", "/dev/null", "-n", &wide, "--wrap", "sleep 300"];
    let filler = ground.slurm(ALPHA, &filler)?;
    let jobs = submit_some(ground, 2, 1, "[acquisition]\nmode = \"queued\"")?;
    let waits = |state: &str| state == "waiting-at-site";
    ground.await_jobs("in Slurm's queue", &jobs, |job| waits(&job.components[0].state))?;
    // Slurm has written down that they wait, and not yet that they were cancelled.
    std::thread::sleep(Duration::from_secs(6));
    ground.cancel(&jobs)?;
    ground.await_jobs("cancelled", &jobs, |job| job.phase.state == "cancelled")?;
    let cancelled = now();
    ground.testbed.kill_controller(ALPHA.name)?;
    std::thread::sleep(settle);
    ground.testbed.up(ALPHA)?;
    ground.resume(ALPHA)?;
    ground.slurm(ALPHA, &["scancel", &filler])?;
    std::thread::sleep(COULD_BEGIN);
    let payloads = ground.payloads()?;
    kills.undone += jobs.iter().map(|id| payloads.begun_after(*id, cancelled)).sum::<usize>();
    Ok(())
}

fn freeze(ground: &Ground, kills: &mut Kills) -> Result<()> {
    ground.testbed.freeze_controller(ALPHA.name, true)?;
    let jobs = submit_some(ground, 1, 2, "");
    std::thread::sleep(FROZEN);
    ground.testbed.freeze_controller(ALPHA.name, false)?;
    count(ground, &jobs?, &mut kills.lost, &mut kills.frozen_doubled)
}
