//! Changes after which somebody is to be notified.

use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::supervision::ActorId;

/// Asks the notifier to look, if a change concerns it.
pub(crate) fn follow_commit(shared: &SharedState, change: &JournalChange) {
    let looks = match change {
        JournalChange::Job { new, .. } => new.has_unsent_messages(),
        // A notification that was sent makes room for those of others.
        JournalChange::Site { old, new } => {
            let owed_any = old.as_ref().is_some_and(|old| !old.owed.is_empty());
            owed_any || !new.owed.is_empty()
        }
        _ => false,
    };
    if looks {
        shared.actors.request_look_of(&ActorId::Notifier);
    }
}
