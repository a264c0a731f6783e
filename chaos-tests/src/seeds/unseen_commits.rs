//! Changes that became durable right before a death, and that nobody but the store saw.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_actors::api::CommittedView;
use cospan_domain::ids::JobId;
use cospan_domain::job::job_event::JobEvent;
use cospan_domain::job::job_state::Job;
use cospan_storage::port::{Journal, StoreError};
use cospan_storage::record::events::read_history;

/// Changes of a job that became durable since it was last seen.
#[derive(Debug)]
pub(super) struct Unseen {
    pub(super) old: Arc<Job>,
    pub(super) new: Arc<Job>,
    pub(super) events: Vec<JobEvent>,
}

/// Reads from the store what became durable since the jobs were last seen. A job that was never
/// seen had no time to be anywhere.
pub(super) fn read_unseen(
    store: &dyn Journal,
    view: &CommittedView,
    last: &BTreeMap<JobId, Arc<Job>>,
) -> Result<Vec<Unseen>, StoreError> {
    let mut found = Vec::new();
    for (id, new) in &view.jobs {
        let Some(old) = last.get(id).filter(|old| old.revision < new.revision) else {
            continue;
        };
        let units = read_history(store, *id)?.into_iter();
        let later = units.filter(|(revision, _)| *revision > old.revision);
        let events = later.flat_map(|(_, events)| events).collect();
        found.push(Unseen {
            old: old.clone(),
            new: new.clone(),
            events,
        });
    }
    Ok(found)
}
