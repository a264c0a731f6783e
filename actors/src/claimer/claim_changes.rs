//! Changes after which processors are to be claimed, or no longer.

use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::{Job, JobPhase};

use super::note_refused_claims;
use crate::commits::ChangedObjects;
use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::supervision::ActorId;

/// Asks the claimer to look, if a change concerns it.
pub(crate) fn follow_commit(
    shared: &SharedState,
    changed: &ChangedObjects<JobId>,
    change: &JournalChange,
) {
    let JournalChange::Job { old, new, events } = change else {
        return;
    };
    if has_unclaimed_components(old) || has_unclaimed_components(new) {
        changed.note([new.id]);
        shared.actors.request_look_of(&ActorId::Claimer);
    }
    note_refused_claims(&shared.live, &shared.settings.job, (old, new), events);
}

fn has_unclaimed_components(job: &Job) -> bool {
    let claims = matches!(
        job.phase,
        JobPhase::Placed { .. } | JobPhase::Claiming { .. }
    );
    job.restarting_components().next().is_some()
        || (claims && job.unclaimed_components().next().is_some())
}
