//! What the events of a job mean for the metrics.

use cospan_domain::job::accounting::Accounting;
use cospan_domain::job::event::{Happened, JobEvent};
use cospan_domain::job::state::{AbortCause, Job, Phase};
use cospan_domain::units::DurationMs;
use prometheus::Histogram;

use crate::metrics::Metrics;

/// Counts what happened to a job in one step. A step may lead through several phases:
/// what counts is each event, not where the job stood before and stands now.
pub(crate) fn count(metrics: &Metrics, old: &Job, new: &Job, events: &[JobEvent]) {
    events.iter().for_each(|event| count_event(metrics, old, new, event));
    if new.is_final() && !old.is_final() {
        let cost = Accounting::of(new);
        metrics.gained_processor_seconds.inc_by(cost.gained_processor_ms / 1_000);
        metrics.wasted_processor_seconds.inc_by(cost.wasted_processor_ms / 1_000);
    }
}

fn count_event(metrics: &Metrics, old: &Job, new: &Job, event: &JobEvent) {
    let observe = |histogram: &Histogram, time: DurationMs| histogram.observe(time.as_secs_f64());
    let ended = |how| metrics.jobs_ended.with_label_values(&[how]).inc();
    match &event.what {
        Happened::JobPlaced { .. } => {
            observe(&metrics.placement_seconds, new.instants.placement_time);
        }
        Happened::GoDecided { .. } => {
            let placed = new.instants.placed.unwrap_or(event.at);
            observe(&metrics.claim_seconds, event.at.since(placed));
        }
        Happened::JobStarted => {
            let decided = if let Phase::Starting { since } = old.phase { since } else { event.at };
            observe(&metrics.start_seconds, event.at.since(decided));
            observe(&metrics.wait_seconds, event.at.since(new.submitted_at));
        }
        Happened::RoundAborted { why, .. } => {
            metrics.rounds_aborted.with_label_values(&[cause_name(why)]).inc();
        }
        Happened::JobFinished => {
            let succeeded = new.instants.succeeded.unwrap_or(event.at);
            let started = new.instants.started.unwrap_or(succeeded);
            observe(&metrics.run_seconds, succeeded.since(started));
            observe(&metrics.response_seconds, event.at.since(new.submitted_at));
            ended("finished");
        }
        Happened::JobFailed { .. } => ended("failed"),
        Happened::JobCancelled { .. } => ended("cancelled"),
        _ => {}
    }
}

/// The name of a cause in metrics and reports.
pub fn cause_name(why: &AbortCause) -> &'static str {
    match why {
        AbortCause::ClaimLost { .. } => "claim-lost",
        AbortCause::InputLost { .. } => "input-lost",
        AbortCause::SiteError { .. } => "site-error",
        AbortCause::StartMissed { .. } => "start-missed",
        AbortCause::Unreachable { .. } => "unreachable",
        AbortCause::Application { .. } => "application",
        AbortCause::Cancelled => "cancelled",
        AbortCause::Preempted { .. } => "preempted",
        AbortCause::Drained { .. } => "drained",
    }
}
