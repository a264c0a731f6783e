//! What version 1 wrote is read for ever.
//!
//! A golden file is written once, when its version is released, and never
//! again: `COSPAN_WRITE_GOLDEN=1` writes the file of a version that has none.
//! Only the names of Rust types in `v1.txt` follow the code when types are
//! renamed; fields, variants and values stay as they were released.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::Job;
use cospan_storage::port::{KeyChange, KeyVersion, StoreKey, StoredValue};
use cospan_storage::record::RecordLoader;
use cospan_storage::record::job::{submission_changes, update_changes};
use cospan_storage::record::small_records::{put_copy, put_file, put_next_job, put_site};
use serde_json::Value;

use crate::draw::Draw;
use crate::place::Place;

/// Seeds whose drawings have most variants of every record among them.
const SEEDS: std::ops::Range<u64> = 0..14;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("golden")
        .join(name)
}

/// A store with one of everything, as this version writes it.
fn written_now() -> BTreeMap<String, (u64, String)> {
    let place = Place::new();
    for seed in SEEDS {
        let mut draw = Draw::new(seed);
        let mut job: Job = draw.submitted(JobId(seed), 1 + seed as usize % 3);
        place.commit(submission_changes(&job).unwrap());
        for _ in 0..seed % 4 {
            let next = draw.next(&job);
            place.commit(update_changes(&job, &next, &draw.events()).unwrap());
            job = next;
        }
        let mut site = draw.site();
        site.site = format!("site{seed}").parse().unwrap();
        let mut file = draw.file();
        file.name = format!("file {seed}").parse().unwrap();
        let objects: Vec<KeyChange> = vec![
            put_copy(&draw.copy(), None).unwrap(),
            put_site(&site, None).unwrap(),
            put_file(&file, None).unwrap(),
            put_next_job(JobId(seed + 1)).unwrap(),
        ];
        place.commit(objects);
    }
    let mut values = BTreeMap::new();
    let journal = &place.opened.journal;
    let visit = &mut |stored: StoredValue| {
        let text = |bytes: Box<[u8]>| String::from_utf8(bytes.into()).unwrap();
        values.insert(text(stored.key.0), (stored.version.0, text(stored.value)));
        std::ops::ControlFlow::Continue(())
    };
    journal.scan(b"", visit).unwrap();
    values
}

fn golden(name: &str) -> BTreeMap<String, (u64, String)> {
    serde_json::from_slice(&std::fs::read(path(name)).unwrap()).unwrap()
}

/// What is loaded from values, as text.
fn loaded(values: &BTreeMap<String, (u64, String)>) -> String {
    let mut loader = RecordLoader::default();
    for (key, (version, value)) in values {
        let key = StoreKey::from(key.as_str());
        let version = KeyVersion(*version);
        let value = value.as_bytes().into();
        loader
            .take_stored_value(StoredValue {
                key,
                version,
                value,
            })
            .unwrap();
    }
    let text = format!("{:#?}", loader.finish().unwrap());
    text.lines()
        .map(|line| format!("{}\n", line.trim_start()))
        .collect()
}

#[test]
fn version_1_is_read_as_it_was_meant() {
    if std::env::var_os("COSPAN_WRITE_GOLDEN").is_some() && !path("v1.json").exists() {
        let values = written_now();
        std::fs::write(
            path("v1.json"),
            serde_json::to_string_pretty(&values).unwrap(),
        )
        .unwrap();
        std::fs::write(path("v1.txt"), loaded(&values)).unwrap();
    }
    let expected = std::fs::read_to_string(path("v1.txt")).unwrap();
    let found = loaded(&golden("v1.json"));
    // The domain may have gained fields since: then there are more lines.
    let mut lines = found.lines();
    let missing = expected
        .lines()
        .enumerate()
        .find(|(_, line)| !lines.any(|found| found == *line));
    assert_eq!(missing, None, "not read, or not where it was");
}

/// A later program of the same version may have added fields anywhere.
#[test]
fn fields_that_are_not_known_are_passed_over() {
    let plain = golden("v1.json");
    let mut more = plain.clone();
    for (_, value) in more.values_mut() {
        let (header, json) = value.split_at(value.find('{').unwrap());
        let mut record: Value = serde_json::from_str(json).unwrap();
        add_fields(&mut record);
        *value = format!("{header}{record}");
    }
    assert!(more != plain);
    assert_eq!(loaded(&more), loaded(&plain));
}

/// Adds a field to every record, but not beside the name of a variant.
fn add_fields(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(add_fields),
        Value::Object(fields) => {
            fields.values_mut().for_each(add_fields);
            if fields
                .keys()
                .all(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
            {
                fields.insert("added_later".into(), serde_json::json!({"a": [1, null]}));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
