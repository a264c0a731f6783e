//! The logical file's record after an event.

use std::collections::BTreeMap;

use crate::catalogue::event::{FileEvent, Happened};
use crate::catalogue::state::{Entry, FileRecord};

/// Applies an event. Total: what was journalled is never refused.
pub fn evolve(record: &mut FileRecord, event: &FileEvent) {
    match (&event.what, &mut record.entry) {
        (
            Happened::FileRegistered {
                content,
                directory,
                replicas,
                by,
            },
            entry,
        ) => {
            *entry = Some(Entry {
                content: *content,
                directory: *directory,
                replicas: replicas.clone(),
                registered_at: event.at,
                registered_by: by.clone(),
                stamps: BTreeMap::new(),
            });
        }
        (Happened::ReplicaAdded { site, place, .. }, Some(entry)) => {
            let replica = (site.clone(), place.clone());
            if let Err(position) = entry.replicas.binary_search(&replica) {
                entry.replicas.insert(position, replica);
            }
        }
        (Happened::ReplicaRemoved { site, place, .. }, Some(entry)) => {
            entry.replicas.retain(|(s, p)| (s, p) != (site, place));
            entry.stamps.remove(&(site.clone(), place.clone()));
        }
        (Happened::ReplicaStamped { site, place, stamp }, Some(entry)) => {
            entry
                .stamps
                .insert((site.clone(), place.clone()), stamp.clone());
        }
        (
            Happened::ReplicaAdded { .. }
            | Happened::ReplicaRemoved { .. }
            | Happened::ReplicaStamped { .. },
            None,
        ) => {}
        (Happened::FileUnregistered { .. }, entry) => *entry = None,
    }
}
