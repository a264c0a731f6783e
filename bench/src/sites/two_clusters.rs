//! A single job over both clusters: the time until it starts, the spread of its payloads, and the
//! time until the start is seen.

use anyhow::{Context, Result};

use super::bench_clusters::{BenchComponent, BenchEnvironment, unix_seconds};
use super::clusters::{ALPHA, BETA};
use cospan_api::v1::job::JobReport;
use cospan_sites::slurm_testbed::TestbedCluster;

/// The result of the measurement, in seconds.
#[derive(Debug, Default)]
pub(super) struct CommonStartFigures {
    /// From submission until the last payload began, less the time of Slurm alone: the median.
    pub(super) start: f64,
    /// Time of Slurm alone from submission to the beginning: the median.
    pub(super) raw: f64,
    /// Between the beginnings of one job: p95.
    pub(super) spread: f64,
    /// From the last beginning until it is seen: p95.
    pub(super) seen: f64,
}

/// Runs this many jobs of three components, one after the other, and as many jobs of Slurm alone.
pub(super) fn measure_two_clusters(
    ground: &BenchEnvironment,
    jobs: u32,
) -> Result<CommonStartFigures> {
    let parts = [ALPHA, BETA, ALPHA].map(|cluster: TestbedCluster| BenchComponent {
        site: Some(cluster.name),
        processors: 4,
    });
    let mut start = vec![];
    let mut raw = vec![];
    let mut spread = vec![];
    let mut seen = vec![];
    for number in 0..jobs {
        crate::print_progress(&format!(
            "one job over two clusters, {} of {jobs}",
            number + 1
        ));
        raw.push(slurm_start_seconds(ground, number)?);
        let submitted = unix_seconds();
        let id = ground.submit(&parts, 2, "")?;
        // The next job finds enough processors while this one ends.
        let job = ground.await_jobs("started", &[id], |job: &JobReport| {
            job.instants.started.is_some() || job.phase.is_final()
        })?;
        let payloads = ground.read_payloads()?;
        let last = payloads
            .begin_times(id)
            .into_iter()
            .fold(f64::NEG_INFINITY, f64::max);
        start.push(last - submitted);
        spread.push(payloads.begin_spread(id));
        let started = job[0]
            .instants
            .started
            .with_context(|| format!("job {id} never started"))?;
        seen.push(started.0.0 as f64 / 1_000.0 - last);
    }
    let raw = quantile(&mut raw, 0.5);
    Ok(CommonStartFigures {
        start: quantile(&mut start, 0.5) - raw,
        raw,
        spread: quantile(&mut spread, 0.95),
        seen: quantile(&mut seen, 0.95),
    })
}

fn slurm_start_seconds(ground: &BenchEnvironment, number: u32) -> Result<f64> {
    let marker = ground.create_directory("raw")?.join(number.to_string());
    let work = format!("date +%s.%N > {0}.part; mv {0}.part {0}", marker.display());
    let submitted = unix_seconds();
    ground.run_slurm(ALPHA, &["sbatch", "-o", "/dev/null", "--wrap", &work])?;
    ground.wait_until("Slurm's own job", || Ok(marker.exists()))?;
    let began: f64 = std::fs::read_to_string(&marker)?.trim().parse()?;
    Ok(began - submitted)
}

/// The value below which this part of the values lies.
pub(super) fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = ((values.len() as f64 - 1.0) * part).round() as usize;
    values.get(at).copied().unwrap_or(f64::NAN)
}
