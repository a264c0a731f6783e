//! Sources of run time estimates.

use cospan_domain::units::DurationMs;
use rand::rngs::StdRng;

use super::job_source::LogEstimate;
use super::{JobSourceNotes, RawJob, SHORTEST_RUN_TIME};
use crate::models::tsafrir::{
    EstimateCount, EstimateError, EstimateModel, LONGEST_MIN, assign_estimates,
};

const HOUR_MS: u64 = 3_600_000;

/// A source of run time estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EstimateSource {
    /// As the log says; the run time if the log has none, or if the jobs come from a model.
    AsGiven,
    /// The run time.
    Exact,
    /// Drawn from the model of Tsafrir, Etsion and Feitelson; never below the run time. The longest
    /// estimate allowed is the longest run time rounded up to a whole hour; it also replaces others
    /// if too few of the drawn ones are long enough.
    Tsafrir,
}

impl EstimateSource {
    pub const ALL: [EstimateSource; 3] = [Self::AsGiven, Self::Exact, Self::Tsafrir];

    /// The name in grid files and reports.
    pub fn describe(self) -> &'static str {
        match self {
            Self::AsGiven => "as-given",
            Self::Exact => "exact",
            Self::Tsafrir => "tsafrir",
        }
    }

    /// The name, with the factor of the estimates.
    pub(crate) fn describe_times(self, times: f64) -> String {
        let longer = if times == 1.0 {
            String::new()
        } else {
            format!(" x {times}")
        };
        format!("{}{longer}", self.describe())
    }
}

/// The run time of a job, and its estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunTimeAndEstimate {
    /// At least [`SHORTEST_RUN_TIME`].
    pub(crate) run_time: DurationMs,
    /// Above zero.
    pub(crate) estimate: DurationMs,
}

/// The times of all jobs that are used; records where they differ from the given ones.
pub(crate) fn settle_times<'j>(
    jobs: impl Iterator<Item = &'j RawJob>,
    estimates: EstimateSource,
    notes: &mut JobSourceNotes,
    rng: &mut StdRng,
) -> Result<Vec<RunTimeAndEstimate>, EstimateError> {
    match estimates {
        EstimateSource::Exact => Ok(jobs.map(|job| settle_exactly(job, notes)).collect()),
        EstimateSource::AsGiven => Ok(jobs
            .map(|job| times_as_given(job, settle_exactly(job, notes), notes))
            .collect()),
        EstimateSource::Tsafrir => {
            draw_estimates(jobs.map(|job| settle_exactly(job, notes)).collect(), rng)
        }
    }
}

fn settle_exactly(job: &RawJob, notes: &mut JobSourceNotes) -> RunTimeAndEstimate {
    notes.run_times_raised += u64::from(job.run_time < SHORTEST_RUN_TIME);
    let run_time = job.run_time.max(SHORTEST_RUN_TIME);
    RunTimeAndEstimate {
        run_time,
        estimate: run_time,
    }
}

/// Multiplies all estimates, as users who know their jobs less well do.
pub(crate) fn stretch_estimates(
    times: Vec<RunTimeAndEstimate>,
    by: f64,
) -> Vec<RunTimeAndEstimate> {
    if by == 1.0 {
        return times;
    }
    let longer = times.into_iter().map(|times: RunTimeAndEstimate| {
        let estimate = DurationMs((times.estimate.0 as f64 * by).round() as u64);
        RunTimeAndEstimate {
            estimate: estimate.max(SHORTEST_RUN_TIME),
            ..times
        }
    });
    longer.collect()
}

fn times_as_given(
    job: &RawJob,
    exact: RunTimeAndEstimate,
    notes: &mut JobSourceNotes,
) -> RunTimeAndEstimate {
    match job.estimate {
        LogEstimate::Given(estimate) if estimate > DurationMs::ZERO => {
            notes.estimates_too_short += u64::from(estimate < exact.run_time);
            RunTimeAndEstimate { estimate, ..exact }
        }
        LogEstimate::Given(_) | LogEstimate::Missing => {
            notes.estimates_missing += 1;
            exact
        }
        LogEstimate::NotModelled => exact,
    }
}

fn draw_estimates(
    mut times: Vec<RunTimeAndEstimate>,
    rng: &mut StdRng,
) -> Result<Vec<RunTimeAndEstimate>, EstimateError> {
    let run_times: Vec<DurationMs> = times.iter().map(|times| times.run_time).collect();
    let Some(longest) = run_times.iter().max() else {
        return Ok(times);
    };
    let hours = longest.0.div_ceil(HOUR_MS);
    let longest = DurationMs(hours.saturating_mul(HOUR_MS)).max(LONGEST_MIN);
    let counts = EstimateModel::new(run_times.len() as u64, longest).draw_counts(rng)?;
    let estimates = lengthen_estimates(&counts, &run_times, longest);
    for (times, estimate) in times
        .iter_mut()
        .zip(assign_estimates(&estimates, &run_times, rng)?)
    {
        times.estimate = estimate;
    }
    Ok(times)
}

/// By chance there may be too few long estimates for the jobs. So the n-th shortest estimate is
/// compared with the n-th shortest run time, and where it is below, the longest one replaces it:
/// then each job can have one.
fn lengthen_estimates(
    by_length: &[EstimateCount],
    run_times: &[DurationMs],
    longest: DurationMs,
) -> Vec<EstimateCount> {
    let mut run_times = run_times.to_vec();
    run_times.sort();
    let drawn = by_length
        .iter()
        .flat_map(|count| (0..count.jobs).map(|_| count.estimate));
    let raised = drawn.zip(run_times).map(|(estimate, run_time)| {
        if estimate < run_time {
            longest
        } else {
            estimate
        }
    });
    raised
        .map(|estimate| EstimateCount { estimate, jobs: 1 })
        .collect()
}
