//! Changes as units of the store.

use cospan_storage::port::{JournalUnit, KeyChange, MAX_CHANGES, StoreKey};
use cospan_storage::record::job::SpecTextCache;
use cospan_storage::record::{RecordError, batch, job, small_records};

use super::JournalChange;

/// Encodes a change as units, in order; the change is in force from the last one on.
pub(super) fn units_of_change(
    change: &JournalChange,
    texts: &mut SpecTextCache,
) -> Result<Vec<JournalUnit>, RecordError> {
    match change {
        JournalChange::NewJobs(jobs) => {
            batch::submission_units(jobs.iter().map(AsRef::as_ref), texts)
        }
        JournalChange::Job { old, new, events } => {
            Ok(single_unit(job::update_changes(old, new, events)?))
        }
        JournalChange::JobArchived { job, events } => {
            let units = job::archive_units(job, events)?;
            Ok(units
                .into_iter()
                .map(|changes| JournalUnit { changes })
                .collect())
        }
        JournalChange::Site { new, .. } => {
            Ok(single_unit(vec![small_records::put_site(new, None)?]))
        }
        JournalChange::Copy { key, new, .. } => {
            let (digest, site) = key;
            Ok(single_unit(vec![match new {
                Some(copy) => small_records::put_copy(copy, None)?,
                None => small_records::remove_copy(digest, site, None),
            }]))
        }
        JournalChange::File { name, new, .. } => Ok(single_unit(vec![match new {
            Some(file) => small_records::put_file(file, None)?,
            None => small_records::remove_file(name, None),
        }])),
        JournalChange::IdsReserved { next } => {
            Ok(single_unit(vec![small_records::put_next_job(*next)?]))
        }
        JournalChange::Swept(keys) => Ok(keys.chunks(MAX_CHANGES).map(deletion_unit).collect()),
        JournalChange::Barrier => Ok(vec![JournalUnit::default()]),
    }
}

fn single_unit(changes: Vec<KeyChange>) -> Vec<JournalUnit> {
    vec![JournalUnit { changes }]
}

fn deletion_unit(keys: &[StoreKey]) -> JournalUnit {
    JournalUnit {
        changes: keys
            .iter()
            .map(|key: &StoreKey| KeyChange {
                key: key.clone(),
                expected: None,
                value: None,
            })
            .collect(),
    }
}
