//! Directories: whatever they contain arrives as it was.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use cospan_domain::units::Bytes;
use cospan_sites::files::InspectionStatus;
use cospan_sites::port::{CopyBlame, CopyRequest, CopyStatus, SiteError};
use proptest::prelude::*;

use crate::world::{World, inspect, inspected, noise, order, user};

/// What is below a path, in the test's own words.
pub(crate) type Snapshot = BTreeMap<PathBuf, Node>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Directory,
    File { bytes: Vec<u8>, executable: bool },
    Link(PathBuf),
}

/// Reads a file or directory, following nothing. A file by itself has no mode of its own.
pub(crate) fn snapshot(path: &Path) -> Snapshot {
    let mut found = Snapshot::new();
    let meta = std::fs::symlink_metadata(path).unwrap();
    if meta.is_dir() {
        collect(path, path, &mut found);
    } else {
        let bytes = std::fs::read(path).unwrap();
        found.insert(
            PathBuf::new(),
            Node::File {
                bytes,
                executable: false,
            },
        );
    }
    found
}

fn collect(root: &Path, directory: &Path, found: &mut Snapshot) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let meta = std::fs::symlink_metadata(&path).unwrap();
        let node = if meta.is_dir() {
            collect(root, &path, found);
            Node::Directory
        } else if meta.is_symlink() {
            Node::Link(std::fs::read_link(&path).unwrap())
        } else {
            let executable = meta.permissions().mode() & 0o111 != 0;
            Node::File {
                bytes: std::fs::read(&path).unwrap(),
                executable,
            }
        };
        found.insert(path.strip_prefix(root).unwrap().into(), node);
    }
}

fn build(root: &Path, tree: &Snapshot) {
    std::fs::create_dir_all(root).unwrap();
    for (path, node) in tree {
        let path = root.join(path);
        // Where a file stands in the way, the tree is a little smaller.
        if path
            .parent()
            .is_none_or(|parent| std::fs::create_dir_all(parent).is_err())
        {
            continue;
        }
        match node {
            Node::Directory => drop(std::fs::create_dir(&path)),
            Node::Link(target) => drop(symlink(target, &path)),
            Node::File { bytes, executable } => {
                if std::fs::symlink_metadata(&path).is_err() {
                    std::fs::write(&path, bytes).unwrap();
                    let mode = if *executable { 0o700 } else { 0o640 };
                    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
                }
            }
        }
    }
}

fn nodes() -> impl Strategy<Value = Node> {
    let file = (
        0_u64..1000,
        prop_oneof![Just(0), 1_usize..200, Just(1_100_000)],
        any::<bool>(),
    );
    prop_oneof![
        2 => Just(Node::Directory),
        6 => file.prop_map(|(seed, length, executable)| {
            Node::File { bytes: noise(seed, length), executable }
        }),
        // Names without a way up: these always stay inside.
        1 => "[abc](/[abc]){0,2}".prop_map(|target| Node::Link(target.into())),
    ]
}

fn trees() -> impl Strategy<Value = Snapshot> {
    // Names with spaces, newlines, dots, and bytes that are no text.
    let name = prop_oneof![
        Just(b"a".to_vec()),
        Just(b"b c".to_vec()),
        Just(b"..d\n".to_vec()),
        Just(vec![0xff, b':']),
        Just(vec![b'n'; 200]),
    ];
    let path = proptest::collection::vec(name, 1..4)
        .prop_map(|names| PathBuf::from(OsStr::from_bytes(&names.join(&b'/'))));
    proptest::collection::btree_map(path, nodes(), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_arrives_as_it_was_and_can_be_copied_on(tree in trees()) {
        let world = World::new();
        build(&world.path("a/files/d"), &tree);
        let sent = snapshot(&world.path("a/files/d"));
        let found = inspected(&world.a, &user("d"));
        prop_assert!(found.directory);
        let size: usize = sent.values().map(|node| match node {
            Node::File { bytes, .. } => bytes.len(),
            Node::Directory | Node::Link(_) => 0,
        }).sum();
        prop_assert_eq!(found.content.size, Bytes(size as u64));

        let order = order(found.content, "d");
        prop_assert_eq!(world.copy(&order), CopyStatus::Complete);
        prop_assert!(snapshot(&world.in_store(found.content.digest)) == sent);
        let stored = cospan_domain::transfer::file_place::FilePlace::Store(found.content.digest);
        prop_assert!(inspected(&world.b, &stored) == found, "its mode in the store matters");
        world.b.delete_content(found.content.digest).unwrap();
        prop_assert!(!world.in_store(found.content.digest).exists());
    }
}

#[test]
fn an_empty_directory_is_content_like_any_other() {
    let world = World::new();
    std::fs::create_dir(world.path("a/files/d")).unwrap();
    let order = order(inspected(&world.a, &user("d")).content, "d");
    assert_eq!(world.copy(&order), CopyStatus::Complete);
    assert!(world.in_store(order.content.digest).is_dir());
}

#[test]
fn nothing_in_the_store_can_be_written_to() {
    let world = World::new();
    std::fs::create_dir_all(world.path("a/files/d/e")).unwrap();
    std::fs::write(world.path("a/files/d/e/x"), b"x").unwrap();
    let order = order(inspected(&world.a, &user("d")).content, "d");
    assert_eq!(world.copy(&order), CopyStatus::Complete);
    let top = world.in_store(order.content.digest);
    for (path, mode) in [("", 0o555), ("e", 0o555), ("e/x", 0o444)] {
        let meta = std::fs::metadata(top.join(path)).unwrap();
        assert_eq!(meta.permissions().mode() & 0o7777, mode, "{path}");
    }
}

#[test]
fn a_tree_with_a_link_that_leads_out_is_refused_by_name() {
    for target in ["/etc/passwd", "../../x", "e/../.."] {
        let world = World::new();
        std::fs::create_dir_all(world.path("a/files/d/e")).unwrap();
        symlink(target, world.path("a/files/d/sly")).unwrap();
        let status = inspect(&world.a, &user("d"));
        let InspectionStatus::Failed(SiteError::Refused(why)) = status else {
            panic!("{status:?}")
        };
        assert!(why.contains("sly") && why.contains(target), "{why}");
    }
}

#[test]
fn what_an_earlier_try_left_and_the_source_has_no_more_does_not_stay() {
    let world = World::new();
    std::fs::create_dir_all(world.path("a/files/d/kept")).unwrap();
    std::fs::write(world.path("a/files/d/kept/x"), noise(1, 10_000)).unwrap();
    std::fs::write(world.path("a/files/d/short"), b"short").unwrap();
    let order = order(inspected(&world.a, &user("d")).content, "d");
    let left = world.task(&order).join("data");
    std::fs::create_dir_all(left.join("foreign/deep")).unwrap();
    std::fs::create_dir_all(left.join("kept/x")).unwrap();
    std::fs::write(left.join("short"), b"shorter than what lies here").unwrap();
    std::fs::set_permissions(left.join("short"), PermissionsExt::from_mode(0o444)).unwrap();
    assert_eq!(world.copy(&order), CopyStatus::Complete);
    let arrived = snapshot(&world.in_store(order.content.digest));
    assert!(arrived == snapshot(&world.path("a/files/d")));
}

#[test]
fn a_file_that_arrived_wrong_inside_a_tree_is_found() {
    let world = World::new();
    std::fs::create_dir(world.path("a/files/d")).unwrap();
    std::fs::write(world.path("a/files/d/x"), noise(1, 10_000)).unwrap();
    let good = order(inspected(&world.a, &user("d")).content, "d");
    std::fs::write(world.path("a/files/d/x"), noise(2, 10_000)).unwrap();
    let status = world.copy(&good);
    assert!(
        matches!(
            status,
            CopyStatus::Failed {
                blame: CopyBlame::Source,
                ..
            }
        ),
        "{status:?}"
    );
    std::fs::write(world.path("a/files/d/x"), noise(1, 10_000)).unwrap();
    // A whole file of the right length that went bad after an earlier try sealed it.
    std::fs::create_dir_all(world.task(&good).join("data")).unwrap();
    let bad = world.task(&good).join("data/x");
    std::fs::write(&bad, noise(3, 10_000)).unwrap();
    std::fs::set_permissions(&bad, PermissionsExt::from_mode(0o444)).unwrap();
    assert_eq!(world.copy(&good), CopyStatus::Complete);
}

#[test]
fn a_file_is_not_taken_for_the_directory_whose_manifest_it_contains() {
    let world = World::new();
    std::fs::create_dir(world.path("a/files/d")).unwrap();
    let directory = inspected(&world.a, &user("d")).content;
    let forged = CopyRequest {
        nonce: "inst-2".into(),
        ..order(directory, "forged")
    };
    world.file("forged", b"cospan manifest 1\n");
    assert!(matches!(world.copy(&forged), CopyStatus::Failed { .. }));
    assert!(!world.b.has_content(directory.digest).unwrap());
}
