//! Copies, sites, files, ids.

use cospan_domain::ids::JobId;
use cospan_storage::port::{AppendOutcome, KeyChange, KeyVersion, StoreKey};
use cospan_storage::record::small_records::{
    put_copy, put_file, put_next_job, put_site, remove_copy, remove_file,
};
use proptest::prelude::*;

use crate::draw::Draw;
use crate::place::Place;

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    #[test]
    fn copies_sites_and_files_are_loaded_as_they_were_written(seed: u64) {
        let mut draw = Draw::new(seed);
        let copy = draw.copy();
        let site = draw.site();
        let file = draw.file();
        let place = Place::new();
        place.commit(vec![
            put_copy(&copy, Some(KeyVersion(0))).unwrap(),
            put_site(&site, Some(KeyVersion(0))).unwrap(),
            put_file(&file, Some(KeyVersion(0))).unwrap(),
            put_next_job(JobId(seed)).unwrap(),
        ]);
        let loaded = place.load();
        prop_assert_eq!(&loaded.copies, std::slice::from_ref(&copy));
        prop_assert_eq!(loaded.sites, [site]);
        prop_assert_eq!(&loaded.files, std::slice::from_ref(&file));
        prop_assert_eq!(loaded.next_job, Some(JobId(seed)));
        place.commit(vec![
            remove_copy(&copy.content.digest, &copy.site, Some(KeyVersion(1))),
            remove_file(&file.name, Some(KeyVersion(1))),
        ]);
        let loaded = place.load();
        prop_assert!(loaded.copies.is_empty() && loaded.files.is_empty());
    }
}

#[test]
fn a_record_that_has_moved_on_is_a_conflict() {
    let mut draw = Draw::new(1);
    let site = draw.site();
    let place = Place::new();
    place.commit(vec![put_site(&site, Some(KeyVersion(0))).unwrap()]);
    let outcome = place.run(vec![put_site(&site, Some(KeyVersion(0))).unwrap()]);
    assert_eq!(
        outcome,
        AppendOutcome::Conflict(StoreKey::from(format!("s/{}", site.site).as_str()))
    );
}

#[test]
fn a_key_or_a_version_that_nobody_writes_yet_is_refused_with_the_remedy() {
    for (key, value, expected) in [
        (
            "s/delft",
            "2 1 {}",
            "newer version (format 2, this program knows up to 1)",
        ),
        ("s/delft", "{}", "damaged in s/delft"),
        ("s/delft", "1 1 {\"site\":\"delft\"}", "damaged in s/delft"),
        ("z/what", "1 1 {}", "damaged in z/what"),
        ("j/7/x", "1 1 {}", "damaged in j/7/x"),
    ] {
        let place = Place::new();
        let value = Some(value.as_bytes().into());
        place.commit(vec![KeyChange {
            key: StoreKey::from(key),
            expected: None,
            value,
        }]);
        let mut loader = cospan_storage::record::RecordLoader::default();
        let mut problem = None;
        place
            .opened
            .journal
            .scan(b"", &mut |stored| {
                problem = loader.take_stored_value(stored).err();
                std::ops::ControlFlow::Break(())
            })
            .unwrap();
        let problem = problem.unwrap().to_string();
        assert!(
            problem.contains(expected) && problem.contains("export"),
            "{problem}"
        );
    }
}
