//! Changes after which jobs may be placed that were not before.

use std::sync::Arc;

use cospan_domain::job::job_state::{Job, JobPhase};

use crate::actor_context::{SharedState, lock};
use crate::journal::JournalChange;

/// Asks the co-allocator to look, if a change concerns it.
pub(crate) fn follow_commit(shared: &SharedState, change: &JournalChange) {
    let looks = match change {
        JournalChange::NewJobs(jobs) => {
            lock(&shared.dirty.jobs).extend(jobs.iter().map(|job| job.id));
            true
        }
        JournalChange::Job { old, new, .. } => follow_job(shared, old, new),
        JournalChange::Site { .. } | JournalChange::File { .. } => {
            shared.live.note_placement_change();
            true
        }
        JournalChange::Copy { .. } => {
            shared.live.note_placement_change();
            false
        }
        JournalChange::JobArchived { .. }
        | JournalChange::IdsReserved { .. }
        | JournalChange::Swept(_)
        | JournalChange::Barrier => false,
    };
    if looks {
        shared.actors.co_allocator.request_look_of(&());
    }
}

/// Notes which job changed; returns true if the co-allocator is to look.
fn follow_job(shared: &SharedState, old: &Arc<Job>, new: &Arc<Job>) -> bool {
    let task = new.spec.run.task.as_ref();
    // The end of a run may give another one of its sweep its turn.
    let is_limited = task.is_some_and(|task| task.at_once.is_some());
    // It may also make room within a reservation.
    let others_wait = is_limited || new.shared_reservation().is_some();
    let was_queued = matches!(old.phase, JobPhase::Queued { .. });
    let is_queued = matches!(new.phase, JobPhase::Queued { .. });
    let queues_change = was_queued || is_queued || (others_wait && new.is_final());
    if queues_change {
        lock(&shared.dirty.jobs).insert(new.id);
    }
    let is_flexible = old.is_flexibly_reserved() || new.is_flexibly_reserved();
    if is_flexible {
        lock(&shared.dirty.promised).insert(new.id);
    }
    // Other changes of a job matter to jobs that wait, if any do.
    is_flexible || queues_change || shared.live.is_placement_awaited()
}
