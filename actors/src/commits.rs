//! Committed changes: whoever they concern is asked to look again. The folder of each actor says
//! itself which changes those are.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use cospan_domain::ids::{Digest, JobId, Seq, SiteName};

use crate::actor_context::{SharedState, lock};
use crate::chaos;
use crate::journal::JournalChange;
use crate::{claimer, coallocator, job, notifier, site, transfer};

/// Asks the actors of one folder to look, if a change concerns them.
type CommitFollower = fn(&SharedState, &JournalChange);

/// The followers, a line for each folder. The co-allocator is the last: it looks only if somebody waits for a
/// change, which others may note.
const FOLLOWERS: [CommitFollower; 6] = [
    job::follow_commit,
    claimer::follow_commit,
    notifier::follow_commit,
    transfer::follow_commit,
    site::follow_commit,
    coallocator::follow_commit,
];

/// A committed change with its position, as followers receive it.
#[derive(Debug, Clone)]
pub struct CommittedChange {
    /// The change's position in the journal.
    pub seq: Seq,
    /// The change.
    pub change: Arc<JournalChange>,
}

/// Sets of things to look at again, coalesced.
#[derive(Debug, Default)]
pub struct ChangedObjectSets {
    pub(crate) jobs: Mutex<BTreeSet<JobId>>,
    pub(crate) copies: Mutex<BTreeSet<(Digest, SiteName)>>,
    pub(crate) claims: Mutex<BTreeSet<JobId>>,
    pub(crate) promised: Mutex<BTreeSet<JobId>>,
}

impl ChangedObjectSets {
    /// Takes the jobs whose place in the placement queues may have changed.
    pub fn take_jobs(&self) -> BTreeSet<JobId> {
        std::mem::take(&mut lock(&self.jobs))
    }

    /// Takes the copies whose need may have changed.
    pub fn take_copies(&self) -> BTreeSet<(Digest, SiteName)> {
        std::mem::take(&mut lock(&self.copies))
    }

    /// Takes the jobs whose place in the claiming queue may have changed.
    pub fn take_claiming_jobs(&self) -> BTreeSet<JobId> {
        std::mem::take(&mut lock(&self.claims))
    }

    /// Takes the jobs whose reserved start may be brought forward, or may no longer.
    pub fn take_reschedulable_jobs(&self) -> BTreeSet<JobId> {
        std::mem::take(&mut lock(&self.promised))
    }
}

/// Has everybody follow one committed change.
pub(crate) fn publish_commit(shared: &SharedState, seq: Seq, change: JournalChange) {
    chaos::note_jobs_in_flight(|| {
        let view = shared.view.load();
        view.jobs.values().filter(|job| !job.is_final()).count()
    });
    for follow_commit in FOLLOWERS {
        follow_commit(shared, &change);
    }
    if shared.stream.receiver_count() > 0 {
        let change = Arc::new(change);
        // The last follower may have left since.
        let _ = shared.stream.send(CommittedChange { seq, change });
    }
}
