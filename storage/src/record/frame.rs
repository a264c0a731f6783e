//! The form of a record as values: `<version> <number of values> <JSON>`, cut to size.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

use super::{RecordError, json, keys};
use crate::port::{KeyChange, KeyVersion, StoreError, StoreKey};

/// The version that is written.
const SCHEMA: u32 = 1;
/// Largest part of a record in one value.
const CHUNK_BYTES: usize = 60 * 1024;
/// Prefix of a record that fits into one value: the version, and the number of values.
const ALONE: &[u8] = b"1 1 ";
const _: () = assert!(SCHEMA == 1, "ALONE is of this version");
/// Most values that a record is cut into.
pub(super) const MAX_CHUNKS: usize = 255;

/// Returns true if a record of at most `most_bytes` as JSON surely fits into one value.
pub(super) fn fits_one_value(most_bytes: usize) -> bool {
    most_bytes <= CHUNK_BYTES
}

thread_local! {
    /// Buffer for records whose length is not yet known.
    static DRAFT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Returns the values of a record.
pub(super) fn record_to_values(
    base: &str,
    record: &impl Serialize,
) -> Result<Vec<Box<[u8]>>, RecordError> {
    let mut values = Vec::new();
    make_values(base, record, &mut |value| values.push(value))?;
    Ok(values)
}

/// Makes the values of a record, in order.
fn make_values(
    base: &str,
    record: &impl Serialize,
    take: &mut dyn FnMut(Box<[u8]>),
) -> Result<(), RecordError> {
    DRAFT.with_borrow_mut(|draft| {
        draft.clear();
        draft.extend_from_slice(ALONE);
        json::append_json(draft, record).map_err(|error: serde_json::Error| {
            RecordError::Unwritable {
                what: base.to_string(),
                problem: error.to_string(),
            }
        })?;
        let cut = cut_values(base, draft, take);
        draft.shrink_to(CHUNK_BYTES);
        cut
    })
}

/// Cuts a written record into values.
fn cut_values(
    base: &str,
    alone: &[u8],
    take: &mut dyn FnMut(Box<[u8]>),
) -> Result<(), RecordError> {
    let text = &alone[ALONE.len()..];
    let count = text.len().div_ceil(CHUNK_BYTES);
    if count <= 1 {
        take(alone.into());
        return Ok(());
    }
    if count > MAX_CHUNKS {
        let what = base.to_string();
        return Err(RecordError::TooLarge {
            what,
            changes: count,
            max: MAX_CHUNKS,
        });
    }
    for chunk in text.chunks(CHUNK_BYTES) {
        let mut value = format!("{SCHEMA} {count} ").into_bytes();
        value.extend_from_slice(chunk);
        take(value.into());
    }
    Ok(())
}

/// Adds the changes that write a record in place of one that had `before` values; the first is
/// written if it has the version `expected`.
pub(super) fn write_record(
    to: &mut Vec<KeyChange>,
    base: &str,
    record: &impl Serialize,
    before: usize,
    expected: Option<KeyVersion>,
) -> Result<(), RecordError> {
    let begin = to.len();
    make_values(base, record, &mut |value| {
        let i = to.len() - begin;
        let key = keys::chunk_key(base, i);
        let expected = expected.filter(|_| i == 0);
        to.push(KeyChange {
            key,
            expected,
            value: Some(value),
        });
    })?;
    let stale = to.len() - begin..before;
    to.extend(stale.map(|i| deletion_change(keys::chunk_key(base, i), None)));
    Ok(())
}

/// Removes a record of `count` values.
pub(super) fn removal_changes(
    base: &str,
    count: usize,
    expected: Option<KeyVersion>,
) -> Vec<KeyChange> {
    (0..count)
        .map(|i| deletion_change(keys::chunk_key(base, i), expected.filter(|_| i == 0)))
        .collect()
}

fn deletion_change(key: StoreKey, expected: Option<KeyVersion>) -> KeyChange {
    KeyChange {
        key,
        expected,
        value: None,
    }
}

/// The values of a record that is being read, in their order.
#[derive(Debug, Default)]
pub(super) struct PartialRecord {
    json: Vec<u8>,
    /// Values still to come.
    missing: usize,
}

impl PartialRecord {
    /// Takes the next value. `chunk` is its number.
    pub(super) fn take_value(
        &mut self,
        key: &StoreKey,
        chunk: usize,
        value: &[u8],
    ) -> Result<(), StoreError> {
        let (schema, count, json) = parse_header(value)
            .ok_or_else(|| damaged_key_error(key, "it does not say in which version it is"))?;
        if schema == 0 || schema > SCHEMA {
            let found = schema;
            let known = SCHEMA;
            return Err(StoreError::Newer {
                path: format!("{key:?}"),
                found,
                known,
            });
        }
        if chunk == 0 {
            self.json.clear();
        } else if self.missing == 0 {
            // Left by a longer record that was here before.
            return Ok(());
        } else if count != self.missing + chunk {
            return Err(damaged_key_error(
                key,
                "it is not the value that should be here",
            ));
        }
        self.json.extend_from_slice(json);
        self.missing = count - chunk - 1;
        Ok(())
    }

    /// Returns the text of the record; nothing while some of its values are missing.
    pub(super) fn text(&self) -> &[u8] {
        if self.missing > 0 { &[] } else { &self.json }
    }

    /// Reads the record.
    pub(super) fn read_record<'a, T: Deserialize<'a>>(
        &'a self,
        what: &str,
    ) -> Result<T, StoreError> {
        if self.missing > 0 {
            return Err(damaged_record_error(
                what,
                format!("{} of its values are missing", self.missing),
            ));
        }
        serde_json::from_slice(&self.json)
            .map_err(|error| damaged_record_error(what, error.to_string()))
    }
}

/// Parses version, number of values, and the rest.
fn parse_header(value: &[u8]) -> Option<(u32, usize, &[u8])> {
    let mut fields = value.splitn(3, |byte| *byte == b' ');
    let schema = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let count = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    (1..=MAX_CHUNKS)
        .contains(&count)
        .then_some((schema, count, fields.next()?))
}

fn damaged_key_error(key: &StoreKey, problem: &str) -> StoreError {
    damaged_record_error(&format!("{key:?}"), problem.into())
}

/// Makes the error for a record that cannot be what was written.
pub(super) fn damaged_record_error(what: &str, problem: String) -> StoreError {
    StoreError::Damaged {
        place: what.into(),
        problem,
    }
}
