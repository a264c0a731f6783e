//! The figures of one run.

use std::collections::BTreeMap;

use cospan_domain::units::DurationMs;
use serde::Serialize;

use super::groups::{self, JobGroupSummary};
use super::record::{JobEnding, LoadKind, LoadUseStep, RunJob, RunRecord, SiteTrace};
use super::stats::ValueDistribution;
use super::step_function::time_means;

/// Milliseconds in an hour.
const HOUR_MS: f64 = 3_600_000.0;

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSummary {
    /// Label of the run.
    pub label: String,
    pub seed: u64,
    /// Simulated time in seconds.
    pub duration_s: f64,
    /// Processors of all sites.
    pub processors: u64,
    /// Numbers of jobs by their end.
    pub jobs: JobCounts,
    /// From submission to the start, of all jobs that started.
    pub wait_s: ValueDistribution,
    /// From submission to the last placement, of all jobs that were placed.
    pub placement_s: ValueDistribution,
    /// From submission to the end, of the jobs that were done.
    pub response_s: ValueDistribution,
    /// From the start to the end, of the jobs that were done.
    pub run_s: ValueDistribution,
    /// Bounded slowdown of the jobs that were done, threshold 10 s.
    pub bounded_slowdown: ValueDistribution,
    /// The jobs by their processors.
    pub by_processors: Vec<JobGroupSummary>,
    /// The jobs by their number of components.
    pub by_components: Vec<JobGroupSummary>,
    /// Mean use of all processors.
    pub load: LoadShares,
    /// Each site on its own.
    pub sites: Vec<SiteSummary>,
    /// Mean over time of the number of jobs that wait for placement.
    pub queue_mean: f64,
    /// Most jobs that waited for placement at one time.
    pub queue_max: u32,
    /// Processor-hours held for grid jobs without running.
    pub wasted_processor_hours: f64,
    /// Bytes moved to sites.
    pub transfer_bytes: u64,
    /// Rounds of co-allocation.
    pub rounds: u64,
    /// Attempts of components that were submitted to sites.
    pub attempts: u64,
    /// Errors that sites answered with.
    pub site_errors: u64,
    /// Further counters of the run.
    pub counters: BTreeMap<String, u64>,
}

/// Numbers of jobs by their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct JobCounts {
    /// All jobs.
    pub submitted: u64,
    /// Jobs that ended well.
    pub done: u64,
    /// Jobs that failed for good.
    pub failed: u64,
    /// Jobs that a user cancelled.
    pub cancelled: u64,
    /// Jobs that had not ended when the run did.
    pub unfinished: u64,
    /// Jobs that were placed on more than one site.
    pub over_several_sites: u64,
}

/// Shares of processors, 0 to 1, as means over the time of the run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct LoadShares {
    /// Ran grid jobs.
    pub grid_running: f64,
    /// Were held for grid jobs.
    pub grid_held: f64,
    /// Served local users.
    pub local: f64,
    /// Were down.
    pub down: f64,
}

/// The results of one site.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SiteSummary {
    /// Name of the site.
    pub name: String,
    pub processors: u32,
    /// Mean use of its processors.
    pub load: LoadShares,
}

impl RunSummary {
    /// Sums up this run.
    pub fn of_run(run: &RunRecord) -> Self {
        let done = run.jobs.iter();
        let done = done.filter(|job| job.ending == JobEnding::Done);
        let sum =
            |count: fn(&RunJob) -> u64| run.jobs.iter().map(count).fold(0, u64::saturating_add);
        let held_ms: f64 = run
            .jobs
            .iter()
            .map(|job| job.held_processor_ms as f64)
            .sum();
        Self {
            label: run.label.clone(),
            seed: run.seed,
            duration_s: run.ended.since(run.began).as_secs_f64(),
            processors: run.processors(),
            jobs: JobCounts::count_jobs(&run.jobs),
            wait_s: distribution_of_waits(&run.jobs),
            placement_s: of_seconds(run.jobs.iter().filter_map(RunJob::placement_time)),
            response_s: of_seconds(done.clone().filter_map(RunJob::response)),
            run_s: of_seconds(done.clone().filter_map(RunJob::run_time)),
            bounded_slowdown: ValueDistribution::of_unsorted(
                done.filter_map(RunJob::bounded_slowdown).collect(),
            ),
            by_processors: groups::by_processors(&run.jobs),
            by_components: groups::by_components(&run.jobs),
            load: LoadShares::of_all(run),
            sites: summarize_sites(run),
            queue_mean: time_means(&run.queue, run.span(), |step| [step.waiting])[0],
            queue_max: run.queue.iter().map(|step| step.waiting).max().unwrap_or(0),
            wasted_processor_hours: held_ms / HOUR_MS,
            transfer_bytes: sum(|job| job.transfer_bytes),
            rounds: sum(|job| u64::from(job.rounds)),
            attempts: sum(|job| u64::from(job.attempts)),
            site_errors: sum(|job| u64::from(job.site_errors)),
            counters: run.counters.clone(),
        }
    }

    /// Share of the processors on which grid jobs or local users ran.
    pub fn utilization(&self) -> f64 {
        self.load.grid_running + self.load.local
    }
}

impl JobCounts {
    /// Counts these jobs.
    fn count_jobs(jobs: &[RunJob]) -> Self {
        let mut counts = Self::default();
        for job in jobs {
            counts.submitted += 1;
            counts.over_several_sites += u64::from(job.sites > 1);
            match job.ending {
                JobEnding::Done => counts.done += 1,
                JobEnding::Failed => counts.failed += 1,
                JobEnding::Cancelled => counts.cancelled += 1,
                JobEnding::Unfinished => counts.unfinished += 1,
            }
        }
        counts
    }
}

impl LoadShares {
    /// The shares of processors by kind, in the order of [`LoadKind::STACKED`].
    fn of_stacked(stacked: [f64; LoadKind::STACKED.len()], processors: u64) -> Self {
        let [grid_running, grid_held, local, down] =
            stacked.map(|part| part / processors.max(1) as f64);
        Self {
            grid_running,
            grid_held,
            local,
            down,
        }
    }

    /// The shares over all sites of a run together.
    pub(super) fn of_all(run: &RunRecord) -> Self {
        let mut sums = [0.0; LoadKind::STACKED.len()];
        for site in &run.sites {
            for (sum, part) in
                sums.iter_mut()
                    .zip(time_means(&site.load, run.span(), LoadUseStep::by_kind))
            {
                *sum += part;
            }
        }
        Self::of_stacked(sums, run.processors())
    }
}

/// Sums up every site of a run.
fn summarize_sites(run: &RunRecord) -> Vec<SiteSummary> {
    run.sites
        .iter()
        .map(|site: &SiteTrace| SiteSummary {
            name: site.name.clone(),
            processors: site.processors,
            load: LoadShares::of_stacked(
                time_means(&site.load, run.span(), LoadUseStep::by_kind),
                u64::from(site.processors),
            ),
        })
        .collect()
}

/// Waits of the jobs that started.
fn distribution_of_waits(jobs: &[RunJob]) -> ValueDistribution {
    of_seconds(jobs.iter().filter_map(RunJob::wait))
}

/// The distribution of lengths of time, in seconds.
fn of_seconds(lengths: impl Iterator<Item = DurationMs>) -> ValueDistribution {
    ValueDistribution::of_unsorted(lengths.map(|length| length.as_secs_f64()).collect())
}
