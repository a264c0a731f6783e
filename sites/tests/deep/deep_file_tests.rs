//! Such trees are refused as content, in words; what is less deep needs few descriptors.

use std::path::Path;

use cospan_domain::ids::RelPath;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_sites::files::{FileArea, FileAreaConfig, InspectionStatus};
use cospan_sites::port::SiteError;

use super::grow::{DEEP, below, grow, leaf, limit_descriptors};

fn area(root: &Path) -> FileArea {
    let agent = vec![env!("CARGO_BIN_EXE_site-agent").into()];
    let stall = std::time::Duration::from_secs(120);
    let config = FileAreaConfig {
        root: root.into(),
        attempts: "attempts".into(),
        agent,
        stall,
    };
    let area = FileArea::new(config).unwrap();
    area.prepare_root().unwrap();
    area
}

fn user(path: &str) -> FilePlace {
    FilePlace::User(RelPath::new(path).unwrap())
}

fn inspect(area: &FileArea, place: &FilePlace) -> InspectionStatus {
    area.start_inspection(place).unwrap();
    loop {
        match area.inspection_status(place).unwrap() {
            InspectionStatus::Running { .. } => std::thread::yield_now(),
            over => return over,
        }
    }
}

#[test]
fn directory_of_ten_thousand_levels_is_refused_as_content() {
    let _few = limit_descriptors();
    let place = tempfile::tempdir().unwrap();
    let area = area(place.path());
    grow(&place.path().join("files/deep"), DEEP);
    let deep = user("deep");
    assert_eq!(area.file_stamp(&deep), Ok(None));
    let Err(SiteError::Refused(why)) = area.list_directory(&deep) else {
        panic!("it is listed")
    };
    assert!(why.contains("more than 128 levels deep; pack it"), "{why}");
    let InspectionStatus::Failed(SiteError::Refused(why)) = inspect(&area, &deep) else {
        panic!("it is content")
    };
    assert!(why.contains("more than 128 levels deep; pack it"), "{why}");
    cospan_sites::remove_tree(&place.path().join("files/deep")).unwrap();
}

#[test]
fn directory_of_as_many_levels_as_may_be_takes_few_descriptors() {
    let _few = limit_descriptors();
    let place = tempfile::tempdir().unwrap();
    let area = area(place.path());
    leaf(&grow(&place.path().join("files/fine"), 128), "leaf");
    let fine = user("fine");
    assert!(area.file_stamp(&fine).unwrap().is_some());
    assert_eq!(
        area.list_directory(&fine).unwrap().unwrap().leaves().len(),
        129
    );
    let done = inspect(&area, &fine);
    let InspectionStatus::Done(found) = done else {
        panic!("{done:?}")
    };
    assert!(found.directory);
}

#[test]
fn directory_whose_paths_would_fill_the_memory_is_refused_as_content() {
    let _few = limit_descriptors();
    let place = tempfile::tempdir().unwrap();
    let area = area(place.path());
    let long = "n".repeat(250);
    let mut at = grow(&place.path().join("files/long"), 0);
    for _ in 0..110 {
        at = below(&at, &long);
    }
    (0..5_000).for_each(|n| leaf(&at, &n.to_string()));
    let Err(SiteError::Refused(why)) = area.list_directory(&user("long")) else {
        panic!("it is listed")
    };
    assert!(why.contains("have more than 134217728 bytes"), "{why}");
    assert_eq!(area.file_stamp(&user("long")), Ok(None));
}
