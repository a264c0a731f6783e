use std::io::Write;

use super::*;

fn uploads(home: &Path) -> Uploads {
    Uploads::open(UploadSettings {
        directory: Some(home.join("uploads")),
        max_bytes: 100,
        quota_bytes: 150,
        ..UploadSettings::default()
    })
}

fn announced(owner: &str, name: &str, size: u64) -> UploadRecord {
    let owner = owner.parse().unwrap();
    let name = name.parse().unwrap();
    UploadRecord::new(owner, name, size, Digest([7; 32])).unwrap()
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart_and_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let first = uploads(home.path());
    let upload = first.begin_upload(announced("alice", "mesh", 6)).unwrap();
    assert_eq!(first.append_piece(&upload, 0, b"abc").unwrap(), 3);
    let again = uploads(home.path());
    let found = again.begin_upload(announced("alice", "mesh", 6)).unwrap();
    assert_eq!(
        found.record(),
        upload.record(),
        "the same announcement is the same upload"
    );
    assert_eq!(again.arrived_bytes(&found.record()).unwrap(), 3);
    assert_eq!(again.append_piece(&found, 3, b"def").unwrap(), 6);
    assert_eq!(again.read_piece(&found.record(), 0, 10).unwrap(), b"abcdef");
    assert_eq!(
        again.compute_digest(&found.record()).unwrap().0,
        *blake3::hash(b"abcdef").as_bytes()
    );
}

#[test]
fn a_piece_that_is_not_the_next_or_too_long_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let uploads = uploads(home.path());
    let upload = uploads.begin_upload(announced("alice", "mesh", 4)).unwrap();
    uploads.append_piece(&upload, 0, b"ab").unwrap();
    for offset in [0, 1, 3] {
        let refused = uploads.append_piece(&upload, offset, b"c").unwrap_err();
        assert!(
            matches!(refused, UploadError::Elsewhere { arrived: 2, .. }),
            "{refused}"
        );
    }
    let refused = uploads.append_piece(&upload, 2, b"cde").unwrap_err();
    assert!(
        matches!(refused, UploadError::TooMuch { ends: 5, size: 4 }),
        "{refused}"
    );
    assert_eq!(uploads.read_piece(&upload.record(), 0, 9).unwrap(), b"ab");
}

#[test]
fn a_file_a_key_and_a_disk_have_bounds() {
    let home = tempfile::tempdir().unwrap();
    let uploads = uploads(home.path());
    let refused = |owner: &str, size| {
        uploads
            .begin_upload(announced(owner, "x", size))
            .unwrap_err()
    };
    assert!(matches!(
        refused("alice", 101),
        UploadError::TooLarge { most: 100, .. }
    ));
    let first = uploads.begin_upload(announced("alice", "a", 100)).unwrap();
    assert!(matches!(
        refused("alice", 51),
        UploadError::Quota { has: 100, .. }
    ));
    uploads.begin_upload(announced("bob", "b", 100)).unwrap();
    uploads.forget_upload(&first).unwrap();
    let refused = uploads.append_piece(&first, 0, b"late").unwrap_err();
    assert!(matches!(refused, UploadError::GivenUp), "{refused}");
    uploads.begin_upload(announced("alice", "c", 51)).unwrap();
    let few = UploadSettings {
        directory: Some(home.path().join("few")),
        quota_files: 2,
        ..UploadSettings::default()
    };
    let few = Uploads::open(few);
    for name in ["a", "b"] {
        few.begin_upload(announced("alice", name, 0)).unwrap();
    }
    few.begin_upload(announced("alice", "b", 0)).unwrap();
    let refused = few.begin_upload(announced("alice", "c", 0)).unwrap_err();
    assert!(
        matches!(refused, UploadError::TooMany { most: 2 }),
        "{refused}"
    );
    few.begin_upload(announced("bob", "c", 0)).unwrap();
    let settings = UploadSettings {
        directory: Some(home.path().join("large")),
        max_bytes: u64::MAX,
        quota_bytes: u64::MAX,
        ..UploadSettings::default()
    };
    let large = Uploads::open(settings)
        .begin_upload(announced("alice", "x", 1 << 60))
        .unwrap_err();
    assert!(matches!(large, UploadError::DiskFull { .. }), "{large}");
}

#[test]
fn what_cannot_be_read_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    uploads(home.path())
        .begin_upload(announced("alice", "a", 1))
        .unwrap();
    let strange = home.path().join("uploads/strange.json");
    std::fs::File::create(&strange)
        .unwrap()
        .write_all(b"{\"version\":2}")
        .unwrap();
    let part = home.path().join("uploads/strange.part");
    std::fs::write(&part, "its bytes").unwrap();
    assert_eq!(uploads(home.path()).all_by_id().len(), 1);
    assert!(strange.exists() && part.exists());
}

#[test]
fn what_a_killed_process_left_half_made_is_removed_at_the_next_start() {
    let home = tempfile::tempdir().unwrap();
    let first = uploads(home.path());
    let open = first
        .begin_upload(announced("alice", "open", 3))
        .unwrap()
        .record();
    let placed = first.begin_upload(announced("alice", "placed", 3)).unwrap();
    first
        .record_placed(&placed, "delft".parse().unwrap())
        .unwrap();
    let directory = home.path().join("uploads");
    let left = [
        ".tmpAbCdEf".to_owned(),
        "0123.part".into(),
        format!("{}.part", placed.record().id),
    ];
    for name in &left {
        std::fs::write(directory.join(name), "left").unwrap();
    }
    let again = uploads(home.path());
    assert_eq!(again.all_by_id().len(), 2);
    for name in &left {
        assert!(!directory.join(name).exists(), "{name}");
    }
    assert_eq!(
        again.arrived_bytes(&open).unwrap(),
        0,
        "what goes on is left"
    );
    assert_eq!(
        again.find_upload(&placed.record().id).unwrap().record(),
        placed.record()
    );
}

#[test]
fn only_the_same_announcement_of_the_same_key_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let uploads = uploads(home.path());
    let first = uploads
        .begin_upload(announced("alice", "mesh", 6))
        .unwrap()
        .record();
    let others = [
        announced("bob", "mesh", 6),
        announced("alice", "mesh2", 6),
        announced("alice", "mesh", 7),
        UploadRecord {
            digest: Digest([8; 32]),
            ..announced("alice", "mesh", 6)
        },
        UploadRecord {
            site: Some("delft".parse().unwrap()),
            ..announced("alice", "mesh", 6)
        },
    ];
    for other in others {
        assert_ne!(uploads.begin_upload(other).unwrap().record().id, first.id);
    }
    assert_eq!(
        uploads
            .begin_upload(announced("alice", "mesh", 6))
            .unwrap()
            .record()
            .id,
        first.id
    );
}
