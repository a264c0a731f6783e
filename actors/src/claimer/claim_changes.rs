//! Changes after which processors are to be claimed, or no longer.

use cospan_domain::job::job_state::{Job, JobPhase};

use super::note_refused_claims;
use crate::actor_context::{SharedState, lock};
use crate::journal::JournalChange;

/// Asks the claimer to look, if a change concerns it.
pub(crate) fn follow_commit(shared: &SharedState, change: &JournalChange) {
    let JournalChange::Job { old, new, events } = change else {
        return;
    };
    if has_unclaimed_components(old) || has_unclaimed_components(new) {
        lock(&shared.dirty.claims).insert(new.id);
        shared.actors.claimer.request_look_of(&());
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
