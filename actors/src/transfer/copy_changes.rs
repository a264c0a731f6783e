//! Changes after which copies are needed, or no longer.

use std::sync::Arc;

use cospan_domain::job::demands::needed_digests;
use cospan_domain::job::job_state::Job;
use cospan_domain::transfer::copy_state::CopyRecord;

use super::{CopyKey, pinned_copies, source_key, unused_copies_at};
use crate::commits::ChangedObjects;
use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::supervision::ActorId;

/// Asks the manager of copies to look, if a change concerns it.
pub(crate) fn follow_commit(
    shared: &SharedState,
    changed: &ChangedObjects<CopyKey>,
    change: &JournalChange,
) {
    match change {
        JournalChange::Job { old, new, .. } => follow_job(shared, changed, old, new),
        JournalChange::Copy { key, old, new } => {
            follow_copy(shared, changed, key, old.as_deref(), new.as_deref());
        }
        JournalChange::File { old, new, .. } => {
            let files = old.iter().chain(new);
            mark_copies_dirty(
                shared,
                changed,
                files.flat_map(|file| pinned_copies(file)).collect(),
            );
        }
        _ => {}
    }
}

fn follow_job(
    shared: &SharedState,
    changed: &ChangedObjects<CopyKey>,
    old: &Arc<Job>,
    new: &Arc<Job>,
) {
    let before = needed_digests(old);
    let after = needed_digests(new);
    if before != after {
        let copies = before.symmetric_difference(&after).cloned();
        mark_copies_dirty(shared, changed, copies.collect());
    }
}

fn follow_copy(
    shared: &SharedState,
    changed: &ChangedObjects<CopyKey>,
    key: &CopyKey,
    old: Option<&CopyRecord>,
    new: Option<&CopyRecord>,
) {
    // Its own actor knows; the copies that it read from, or reads from, do not.
    let old_source = old.and_then(source_key);
    let new_source = new.and_then(source_key);
    let gone = new.is_none().then(|| key.clone());
    let known_nothing = [old_source, new_source, gone];
    mark_copies_dirty(
        shared,
        changed,
        known_nothing.into_iter().flatten().collect(),
    );
    let old_usage = old.map(|copy| (copy.usage, copy.is_ready()));
    let new_usage = new.map(|copy| (copy.usage, copy.is_ready()));
    if shared.settings.staging.contains_key(&key.1) && old_usage != new_usage {
        // A copy that is kept may have to make room.
        let view = shared.view.load();
        let unused = unused_copies_at(&view, &key.1);
        let unused = unused.map(|(copy, _)| (copy.content.digest, key.1.clone()));
        mark_copies_dirty(shared, changed, unused.collect());
    }
}

fn mark_copies_dirty(shared: &SharedState, changed: &ChangedObjects<CopyKey>, keys: Vec<CopyKey>) {
    if !keys.is_empty() {
        changed.note(keys);
        shared.actors.request_look_of(&ActorId::DataManager);
    }
}
