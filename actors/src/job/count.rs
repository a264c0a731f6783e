//! What a change of phase means for the histograms.

use cospan_domain::job::accounting::Accounting;
use cospan_domain::job::state::{AbortCause, Job, Phase};

use crate::metrics::Metrics;

/// Counts a change of phase.
pub(crate) fn count(metrics: &Metrics, old: &Job, new: &Job) {
    if new.is_final() && !old.is_final() {
        let cost = Accounting::of(new);
        metrics.gained_processor_seconds.inc_by(cost.gained_processor_ms / 1_000);
        metrics.wasted_processor_seconds.inc_by(cost.wasted_processor_ms / 1_000);
    }
    match (&old.phase, &new.phase) {
        (Phase::Queued { since, .. }, Phase::Placed { at, .. }) => {
            metrics.placement_seconds.observe(at.since(*since).as_secs_f64());
        }
        (_, Phase::Starting { since }) => {
            if let Some(placed) = new.instants.placed {
                metrics.claim_seconds.observe(since.since(placed).as_secs_f64());
            }
        }
        (Phase::Starting { since: decided }, Phase::Running { since }) => {
            metrics.start_seconds.observe(since.since(*decided).as_secs_f64());
            metrics.wait_seconds.observe(since.since(new.submitted_at).as_secs_f64());
        }
        (_, Phase::Aborting { why, .. }) => {
            metrics.rounds_aborted.with_label_values(&[cause_name(why)]).inc();
        }
        (_, Phase::Finished { at }) => {
            if let Some(started) = new.instants.started {
                metrics.run_seconds.observe(at.since(started).as_secs_f64());
            }
            metrics.response_seconds.observe(at.since(new.submitted_at).as_secs_f64());
            metrics.jobs_ended.with_label_values(&["finished"]).inc();
        }
        (_, Phase::Failed { .. }) => metrics.jobs_ended.with_label_values(&["failed"]).inc(),
        (_, Phase::Cancelled { .. }) => metrics.jobs_ended.with_label_values(&["cancelled"]).inc(),
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
