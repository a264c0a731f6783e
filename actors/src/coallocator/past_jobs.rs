//! Jobs that ended lately, as far as they tell how long those take that wait.

use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::job::run_times::{RunTimeHistory, RunTimeTraits};
use cospan_domain::units::{DurationMs, Timestamp};

use crate::committed::CommittedView;

/// The most jobs that are looked at, the latest submitted first.
const MOST_JOBS: usize = 1_000;
/// The time of a claim as long as no job has started.
const USUAL_CLAIM: DurationMs = DurationMs::from_secs(3);

/// The times that ended jobs took.
#[derive(Debug, Clone)]
pub(super) struct PastJobs {
    pub(super) run_times: RunTimeHistory,
    /// The usual time from the arrival of a job's input to its start: the median.
    pub(super) claim_time: DurationMs,
}

impl PastJobs {
    /// Collects the jobs of a view.
    pub(super) fn of_view(view: &CommittedView) -> Self {
        let mut run_times = RunTimeHistory::default();
        let mut claim_times = Vec::new();
        let ended = view.jobs.values().rev().filter_map(|job| {
            let times = times_of_ended(job)?;
            Some((job, times))
        });
        for (job, (placed, started, ended)) in ended.take(MOST_JOBS) {
            run_times.record_run(&traits_of(job), ended.since(started));
            // A job that started earlier than its input was expected had copies of it.
            let estimate = job.instants.start_estimate;
            let ready = estimate.filter(|at| (placed..=started).contains(at));
            let ready = ready.unwrap_or(placed);
            claim_times.push(started.since(ready));
        }
        claim_times.sort_unstable();
        let median = claim_times.get(claim_times.len() / 2).copied();
        Self {
            run_times,
            claim_time: median.unwrap_or(USUAL_CLAIM),
        }
    }
}

/// Returns when a job was placed, started and ended, if it has ended.
fn times_of_ended(job: &Job) -> Option<(Timestamp, Timestamp, Timestamp)> {
    let ended = match &job.phase {
        JobPhase::Finished { at } | JobPhase::Failed { at, .. } => *at,
        _ => return None,
    };
    let instants = &job.instants;
    Some((
        instants.placed?,
        instants.started?,
        instants.succeeded.unwrap_or(ended),
    ))
}

/// Returns the part of a job by which its run time is guessed.
pub(super) fn traits_of(job: &Job) -> RunTimeTraits<'_> {
    RunTimeTraits {
        owner: &job.owner,
        wall_time: job.spec.wall_time,
        processors: job.spec.total_resources().processors,
    }
}
