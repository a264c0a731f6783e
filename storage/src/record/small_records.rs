//! Copies, sites, logical files, and the first free job id as records.
//!
//! Each has one writer. It may guard its record by the version that it has seen.

use cospan_domain::catalogue::file_state::FileRecord;
use cospan_domain::ids::{Digest, JobId, LogicalName, SiteName};
use cospan_domain::site::site_state::SiteRecord;
use cospan_domain::transfer::copy_state::CopyRecord;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::frame::{self, PartialRecord, damaged_record_error};
use super::v1::{self, WireConversion};
use super::{RecordError, keys};
use crate::port::{KeyChange, KeyVersion, StoreError, StoredValue};

#[derive(Serialize, Deserialize)]
struct NextJobRecord {
    next_job: u64,
}

/// Returns the change that stores a copy's record.
///
/// # Errors
/// Fails if it is larger than a value.
pub fn put_copy(copy: &CopyRecord, expected: Option<KeyVersion>) -> Result<KeyChange, RecordError> {
    let record: v1::copy::CopyRecord = copy.to_wire();
    put(
        &keys::copy_key(&copy.content.digest, &copy.site),
        &record,
        expected,
    )
}

/// Returns the change that removes a copy's record.
pub fn remove_copy(digest: &Digest, site: &SiteName, expected: Option<KeyVersion>) -> KeyChange {
    remove(&keys::copy_key(digest, site), expected)
}

/// Returns the change that stores a site's record.
///
/// # Errors
/// Fails if it is larger than a value.
pub fn put_site(site: &SiteRecord, expected: Option<KeyVersion>) -> Result<KeyChange, RecordError> {
    let record: v1::site::SiteRecord = site.to_wire();
    put(&keys::site_key(&site.site), &record, expected)
}

/// Returns the change that stores a logical file's record.
///
/// # Errors
/// Fails if it is larger than a value.
pub fn put_file(file: &FileRecord, expected: Option<KeyVersion>) -> Result<KeyChange, RecordError> {
    let record: v1::catalogue::FileRecord = file.to_wire();
    put(&keys::file_key(&file.name), &record, expected)
}

/// Returns the change that removes a logical file's record.
pub fn remove_file(name: &LogicalName, expected: Option<KeyVersion>) -> KeyChange {
    remove(&keys::file_key(name), expected)
}

/// Returns the change that stores the first job id that was never given out.
///
/// # Errors
/// Never fails in practice: a number fits.
pub fn put_next_job(next: JobId) -> Result<KeyChange, RecordError> {
    put(keys::NEXT_JOB, &NextJobRecord { next_job: next.0 }, None)
}

/// Returns the value that stores it, for a store that is made or mended as a whole.
pub(crate) fn next_job_value(next: JobId) -> Result<Box<[u8]>, StoreError> {
    let values = frame::record_to_values(keys::NEXT_JOB, &NextJobRecord { next_job: next.0 });
    let value = values.ok().and_then(|mut values| values.pop());
    value.ok_or_else(|| damaged_record_error(keys::NEXT_JOB, "it cannot be written".into()))
}

fn put(
    key: &str,
    record: &impl Serialize,
    expected: Option<KeyVersion>,
) -> Result<KeyChange, RecordError> {
    let mut changes = Vec::with_capacity(1);
    frame::write_record(&mut changes, key, record, 0, expected)?;
    let count = changes.len();
    match (changes.pop(), count) {
        (Some(change), 1) => Ok(change),
        _ => Err(RecordError::TooLarge {
            what: key.into(),
            changes: count,
            max: 1,
        }),
    }
}

fn remove(key: &str, expected: Option<KeyVersion>) -> KeyChange {
    KeyChange {
        key: keys::chunk_key(key, 0),
        expected,
        value: None,
    }
}

/// Reads a record that has one value.
pub(super) fn read_object<T: WireConversion<W>, W: DeserializeOwned>(
    stored: &StoredValue,
) -> Result<T, StoreError> {
    let what = format!("{:?}", stored.key);
    let wire = parse_value::<W>(stored, &what)?;
    T::from_wire(wire).map_err(|problem| damaged_record_error(&what, problem))
}

/// Reads the first free job id.
pub(crate) fn read_next_job(stored: &StoredValue) -> Result<JobId, StoreError> {
    Ok(JobId(
        parse_value::<NextJobRecord>(stored, keys::NEXT_JOB)?.next_job,
    ))
}

fn parse_value<W: DeserializeOwned>(stored: &StoredValue, what: &str) -> Result<W, StoreError> {
    let mut parts = PartialRecord::default();
    parts.take_value(&stored.key, 0, &stored.value)?;
    parts.read_record(what)
}
