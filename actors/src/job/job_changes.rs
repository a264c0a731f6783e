//! Changes that are counted, and those after which the actors of jobs are to look.

use std::sync::Arc;

use cospan_domain::job::job_event::JobEvent;
use cospan_domain::job::job_state::Job;

use super::{count_job_step, count_live_reservations};
use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::metrics::ControlPlaneMetrics;
use crate::supervision::ActorId;

/// Counts a change, and asks the actors of jobs to look, if it concerns them.
pub(crate) fn follow_commit(shared: &SharedState, change: &JournalChange) {
    let metrics = &shared.metrics;
    match change {
        JournalChange::NewJobs(jobs) => {
            metrics.jobs_submitted.inc_by(jobs.len() as u64);
            for job in jobs {
                count_phase(metrics, job, 1);
            }
        }
        JournalChange::Job { old, new, events } => count_job_change(metrics, old, new, events),
        JournalChange::JobArchived { job, .. } => {
            count_phase(metrics, job, -1);
            count_live_reservations(&metrics.reservations, job, -1);
        }
        JournalChange::Copy { key, .. } => {
            let view = shared.view.load();
            for job in view.needs.get(key).into_iter().flatten() {
                shared.actors.request_look_of(&ActorId::Job(*job));
            }
        }
        _ => {}
    }
}

fn count_job_change(
    metrics: &ControlPlaneMetrics,
    old: &Arc<Job>,
    new: &Arc<Job>,
    events: &[JobEvent],
) {
    let was_held = i64::from(old.held.is_some());
    let is_held = i64::from(new.held.is_some());
    metrics.held.add(is_held - was_held);
    count_live_reservations(&metrics.reservations, old, -1);
    count_live_reservations(&metrics.reservations, new, 1);
    if old.phase.kind() != new.phase.kind() {
        count_phase(metrics, old, -1);
        count_phase(metrics, new, 1);
    }
    count_job_step(metrics, old, new, events);
}

fn count_phase(metrics: &ControlPlaneMetrics, job: &Job, change: i64) {
    let phase = job.phase.kind().as_str();
    metrics.jobs.with_label_values(&[phase]).add(change);
}
