//! Judges whether the times in a finished job's record are those at which things happened.
//!
//! A record uses the time at which its control plane learned of something, and it is not wrong for
//! being late: no time may be before the thing truly happened, and none after the record was
//! durable. Only runs are judged in which one control plane lived throughout, so that there was one
//! clock, and jobs that started once.

use cospan_domain::ids::Attempt;
use cospan_domain::job::accounting::JobAccounting;
use cospan_domain::job::job_state::{Job, SetbackCounts};
use cospan_domain::runner::RestartScope;
use cospan_domain::units::Timestamp;

/// The real times of the round with which a job finished.
#[derive(Debug, Clone, Default)]
pub(super) struct Truth {
    /// First submission of an attempt to its site.
    pub(super) submitted: Timestamp,
    /// Begin of the last payload.
    pub(super) begun: Timestamp,
    /// End of the last payload.
    pub(super) over: Timestamp,
    /// Time at which the record was durable.
    pub(super) durable: Timestamp,
    /// Processors of each component, when its site started it, and when its gate was opened.
    pub(super) parts: Vec<(u32, Timestamp, Timestamp)>,
}

/// Lists impossible statements of the record.
pub(super) fn misstated_times(job: &Job, truth: &Truth) -> Vec<String> {
    if job.setbacks != SetbackCounts::default() || job.spec.run.restart_scope != RestartScope::Job {
        return Vec::new();
    }
    let stated = JobAccounting::from_job(job);
    let instants = &job.instants;
    let Truth {
        submitted,
        begun,
        over,
        durable,
        ..
    } = *truth;
    let placed = instants.placed.unwrap_or(begun);
    let (mut least_gained, mut most_gained) = (0_u64, 0_u64);
    for (processors, started, opened) in &truth.parts {
        least_gained += u64::from(*processors) * started.since(placed).0;
        most_gained += u64::from(*processors) * opened.since(placed).0;
    }
    // A component that had its processors too long for others gave them back, and was claimed
    // again.
    let is_again = job
        .components
        .iter()
        .any(|component| component.attempt > Attempt(1));
    let held_before = if is_again {
        instants.wasted_in_round_ms
    } else {
        0
    };
    let started = instants.started.unwrap_or_default();
    let within = [
        ("submission", job.submitted_at.0, 0, submitted.0),
        ("placement", placed.0, job.submitted_at.0, submitted.0),
        ("start", started.0, begun.0, durable.0),
        (
            "success",
            instants.succeeded.unwrap_or_default().0,
            over.0,
            durable.0,
        ),
        (
            "response time",
            stated.response_time.unwrap_or_default().0,
            over.since(job.submitted_at).0,
            durable.since(job.submitted_at).0,
        ),
        (
            "execution time",
            stated.execution_time.unwrap_or_default().0,
            over.since(started).0,
            durable.since(begun).0,
        ),
        (
            "processor time gained",
            stated.gained_processor_ms,
            least_gained.saturating_sub(held_before),
            most_gained,
        ),
    ];
    let wrong = within
        .into_iter()
        .filter(|(_, stated, low, high)| !(low..=high).contains(&stated));
    wrong
        .map(|(what, stated, low, high)| {
            format!(
                "{what} of job {} is {stated} ms, not {low} to {high}",
                job.id
            )
        })
        .collect()
}
