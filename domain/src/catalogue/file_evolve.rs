//! The record of a logical file after an event.

use std::collections::BTreeMap;

use crate::catalogue::file_event::{FileEvent, FileEventKind};
use crate::catalogue::file_state::{CatalogueEntry, FileRecord};

/// Applies an event. Total: what was journalled is never refused.
pub fn evolve(record: &mut FileRecord, event: &FileEvent) {
    match (&event.what, &mut record.entry) {
        (
            FileEventKind::FileRegistered {
                content,
                directory,
                replicas,
                by,
            },
            entry,
        ) => {
            *entry = Some(CatalogueEntry {
                content: *content,
                directory: *directory,
                replicas: replicas.clone(),
                registered_at: event.at,
                registered_by: by.clone(),
                stamps: BTreeMap::new(),
            });
        }
        (FileEventKind::ReplicaAdded { site, place, .. }, Some(entry)) => {
            let replica = (site.clone(), place.clone());
            if let Err(position) = entry.replicas.binary_search(&replica) {
                entry.replicas.insert(position, replica);
            }
        }
        (FileEventKind::ReplicaRemoved { site, place, .. }, Some(entry)) => {
            entry.replicas.retain(|(s, p)| (s, p) != (site, place));
            entry.stamps.remove(&(site.clone(), place.clone()));
        }
        (FileEventKind::ReplicaStamped { site, place, stamp }, Some(entry)) => {
            entry
                .stamps
                .insert((site.clone(), place.clone()), stamp.clone());
        }
        (
            FileEventKind::ReplicaAdded { .. }
            | FileEventKind::ReplicaRemoved { .. }
            | FileEventKind::ReplicaStamped { .. },
            None,
        ) => {}
        (FileEventKind::FileUnregistered { .. }, entry) => *entry = None,
    }
}
