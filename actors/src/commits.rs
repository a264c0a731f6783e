//! Committed changes: whoever they concern is asked to look again. The folder of each actor says
//! itself which changes those are.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cospan_domain::ids::Seq;
use tokio::sync::broadcast;

use crate::chaos;
use crate::committed::JournalChange;
use crate::context::SharedState;

/// Asks the actors of one folder to look, if a change concerns them.
pub(crate) type CommitFollower = Box<dyn Fn(&SharedState, &JournalChange) + Send>;

/// A committed change with its position, as followers receive it.
#[derive(Debug, Clone)]
pub struct CommittedChange {
    /// The change's position in the journal.
    pub seq: Seq,
    /// The change.
    pub change: Arc<JournalChange>,
}

/// The stream of committed changes, for whoever follows it from outside.
#[derive(Debug, Clone)]
pub(crate) struct CommitStream(broadcast::Sender<CommittedChange>);

/// A set of things that an actor is to look at again, coalesced.
#[derive(Debug, Clone)]
pub(crate) struct ChangedObjects<K>(Arc<Mutex<BTreeSet<K>>>);

impl CommitStream {
    /// Committed changes kept for a slow follower.
    const BOUND: usize = 16_384;

    pub(crate) fn new() -> Self {
        Self(broadcast::channel(Self::BOUND).0)
    }

    /// Follows committed changes from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<CommittedChange> {
        self.0.subscribe()
    }
}

impl<K> Default for ChangedObjects<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Ord> ChangedObjects<K> {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes things that may have changed.
    pub(crate) fn note(&self, changed: impl IntoIterator<Item = K>) {
        self.lock().extend(changed);
    }

    /// Takes all of them.
    pub(crate) fn take(&self) -> BTreeSet<K> {
        std::mem::take(&mut self.lock())
    }
}

/// Has everybody follow one committed change.
pub(crate) fn publish_commit(
    shared: &SharedState,
    followers: &[CommitFollower],
    stream: &CommitStream,
    seq: Seq,
    change: JournalChange,
) {
    chaos::note_jobs_in_flight(|| {
        let view = shared.view.load();
        view.jobs.values().filter(|job| !job.is_final()).count()
    });
    for follow_commit in followers {
        follow_commit(shared, &change);
    }
    if stream.0.receiver_count() > 0 {
        let change = Arc::new(change);
        // The last follower may have left since.
        let _ = stream.0.send(CommittedChange { seq, change });
    }
}
