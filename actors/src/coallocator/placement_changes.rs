//! Changes after which jobs may be placed that were not before.

use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::{Job, JobPhase};

use crate::commits::ChangedObjects;
use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::supervision::ActorId;

/// Asks the co-allocator to look, if a change concerns it.
pub(crate) fn follow_commit(
    shared: &SharedState,
    jobs: &ChangedObjects<JobId>,
    change: &JournalChange,
) {
    let looks = match change {
        JournalChange::NewJobs(new) => {
            jobs.note(new.iter().map(|job| job.id));
            true
        }
        JournalChange::Job { old, new, .. } => follow_job(shared, jobs, old, new),
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
        shared.actors.request_look_of(&ActorId::CoAllocator);
    }
}

/// Notes which job changed; returns true if the co-allocator is to look.
fn follow_job(shared: &SharedState, jobs: &ChangedObjects<JobId>, old: &Job, new: &Job) -> bool {
    let task = new.spec.run.task.as_ref();
    // The end of a run may give another one of its sweep its turn.
    let is_limited = task.is_some_and(|task| task.at_once.is_some());
    // It may also make room within a reservation.
    let others_wait = is_limited || new.shared_reservation().is_some();
    let was_queued = matches!(old.phase, JobPhase::Queued { .. });
    let is_queued = matches!(new.phase, JobPhase::Queued { .. });
    let queues_change = was_queued || is_queued || (others_wait && new.is_final());
    if queues_change {
        jobs.note([new.id]);
    }
    // Other changes of a job matter to jobs that wait, if any do.
    queues_change || shared.live.is_placement_awaited()
}
