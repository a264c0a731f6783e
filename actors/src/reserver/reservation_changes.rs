//! Changes after which a reservation is to be sought, or may be moved, or no longer.

use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::Job;

use crate::commits::ChangedObjects;
use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::supervision::ActorId;

/// Asks the reserver to look, if a change concerns it.
pub(crate) fn follow_commit(
    shared: &SharedState,
    changed: &ChangedObjects<JobId>,
    change: &JournalChange,
) {
    let looks = match change {
        JournalChange::NewJobs(jobs) => {
            let followed = jobs.iter().filter(|job| is_followed(job));
            let followed: Vec<JobId> = followed.map(|job| job.id).collect();
            let looks = !followed.is_empty();
            changed.note(followed);
            looks
        }
        JournalChange::Job { old, new, .. } => {
            let concerns = is_followed(old) || is_followed(new);
            if concerns {
                changed.note([new.id]);
            }
            // Whatever another job gives back may serve one that could start earlier.
            concerns || shared.live.is_earlier_start_awaited()
        }
        JournalChange::Site { .. } | JournalChange::File { .. } => true,
        JournalChange::Copy { .. }
        | JournalChange::JobArchived { .. }
        | JournalChange::IdsReserved { .. }
        | JournalChange::Swept(_)
        | JournalChange::Barrier => false,
    };
    if looks {
        shared.actors.request_look_of(&ActorId::Reserver);
    }
}

/// Returns true for a job that wants a reservation, or has one that may be moved.
fn is_followed(job: &Job) -> bool {
    job.seeks_reservation() || job.is_flexibly_reserved()
}
