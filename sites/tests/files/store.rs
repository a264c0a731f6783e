//! The store: deleted from, swept around, read from.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;
use cospan_sites::files::{InspectionStatus, PIECE_MAX_BYTES};
use cospan_sites::port::{CopyBlame, CopyRequest, CopyStatus, FileExcerpt, SiteError};
use rustix::process::Signal;

use crate::world::{
    World, agent, area, content, inspect, inspected, kill, limited, noise, order, user, wait_for,
};

#[test]
fn deleting_is_idempotent_and_what_was_deleted_can_come_again() {
    let world = World::new();
    world.file("x", b"abc");
    std::fs::create_dir_all(world.path("a/files/d/e/f")).unwrap();
    std::fs::write(world.path("a/files/d/e/y"), b"y").unwrap();
    for path in ["x", "d"] {
        let order = order(inspected(&world.a, &user(path)).content, path);
        let digest = order.content.digest;
        for _ in 0..2 {
            assert_eq!(world.copy(&order), CopyStatus::Complete);
            assert_eq!(world.b.list_contents().unwrap(), BTreeSet::from([digest]));
            world.b.delete_content(digest).unwrap();
            world.b.delete_content(digest).unwrap();
            assert!(!world.b.has_content(digest).unwrap());
            assert_eq!(world.status(&order), CopyStatus::Absent);
            wait_for(|| world.left_in("trash").is_empty().then_some(()));
        }
    }
}

#[test]
fn what_an_interrupted_deletion_left_goes_with_the_next() {
    let world = World::new();
    let digest = content(b"abc").digest;
    std::fs::create_dir_all(
        world
            .path("b/trash")
            .join(format!("store.{digest}.0/half/gone")),
    )
    .unwrap();
    world.b.delete_content(digest).unwrap();
    assert_eq!(world.left_in("trash"), Vec::<String>::new());
}

/// Reads a path as often as it is there, until told to end; how often it was and
/// whether it always was the same.
fn keep_reading(path: &Path, expected: &[u8], seen: &AtomicU32, over: &AtomicBool) -> bool {
    while !over.load(Relaxed) {
        if let Ok(mut file) = std::fs::File::open(path) {
            let mut read = Vec::new();
            file.read_to_end(&mut read).unwrap();
            if read != expected {
                return false;
            }
            seen.fetch_add(1, Relaxed);
        }
    }
    true
}

#[test]
fn while_contents_come_and_go_whoever_opens_one_reads_it_whole() {
    let world = World::new();
    let bytes = noise(1, 1_500_000);
    let order = order(world.file("x", &bytes), "x");
    let path = world.in_store(order.content.digest);
    let over = AtomicBool::new(false);
    let seen = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| keep_reading(&path, &bytes, &seen, &over));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_for(|| {
                world.start(&order);
                // Deleted while it comes, and once more when it is there.
                world.b.delete_content(order.content.digest).unwrap();
                world.end_of(&order);
                world.b.delete_content(order.content.digest).unwrap();
                (seen.load(Relaxed) >= 40 || reader.is_finished()).then_some(())
            })
        }));
        over.store(true, Relaxed);
        assert!(reader.join().unwrap(), "a reader found something else");
        result.unwrap();
    });
}

#[test]
fn a_source_deleted_during_the_copy_is_the_sources_fault_or_arrives_whole() {
    let world = World::new();
    std::fs::create_dir(world.path("a/files/d")).unwrap();
    for number in 0..20 {
        let path = world.path("a/files/d").join(format!("f{number:02}"));
        std::fs::write(path, noise(number, 50_000)).unwrap();
    }
    let order = limited(
        order(inspected(&world.a, &user("d")).content, "d"),
        1_000_000,
    );
    world.start(&order);
    wait_for(|| match world.status(&order) {
        CopyStatus::Running { done: Bytes(0) } => None,
        CopyStatus::Running { .. } => Some(()),
        other => panic!("{other:?}"),
    });
    std::fs::remove_dir_all(world.path("a/files/d")).unwrap();
    let status = world.end_of(&order);
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
}

#[test]
fn a_sweep_takes_our_dead_copies_and_nobody_elses() {
    let world = World::new();
    let content = world.file("x", &noise(1, 20_000_000));
    let copy = |nonce: &str| {
        let order = CopyRequest {
            nonce: nonce.into(),
            ..order(content, "x")
        };
        let order = limited(order, 100_000);
        world.start(&order);
        order
    };
    let live = copy("mine-1");
    let dead = copy("mine-2");
    let foreign = copy("theirs-1");
    std::fs::create_dir_all(world.path("b/trash/store.old.0/x")).unwrap();
    let digest = content.digest;
    let expected: Vec<_> = ["mine-1", "mine-2", "theirs-1"]
        .map(|n| (digest, n.to_owned()))
        .into();
    let mut copies = world.b.list_copies().unwrap();
    copies.sort();
    assert_eq!(copies, expected);

    assert_eq!(
        world
            .b
            .sweep_remains("mine-", &BTreeSet::from(["mine-1".to_owned()])),
        Ok(1)
    );
    assert_eq!(world.status(&dead), CopyStatus::Absent);
    assert_eq!(world.agents_of(&dead), Vec::<i32>::new());
    for kept in [&live, &foreign] {
        assert!(matches!(world.status(kept), CopyStatus::Running { .. }));
        world.b.stop_copy(kept, true).unwrap();
    }
    assert_eq!(world.left_in("trash"), Vec::<String>::new());
}

#[test]
fn pieces_are_what_was_asked_for_and_no_more_than_there_is() {
    let world = World::new();
    let bytes = noise(1, PIECE_MAX_BYTES as usize + 10);
    world.file("x", &bytes);
    let piece = |offset, limit| {
        world
            .a
            .read_piece(&user("x"), Bytes(offset), limit)
            .unwrap()
    };
    let size = Bytes(bytes.len() as u64);
    assert_eq!(
        piece(3, 4),
        FileExcerpt {
            bytes: bytes[3..7].to_vec(),
            size
        }
    );
    assert_eq!(piece(size.0 - 2, 100).bytes, bytes[bytes.len() - 2..]);
    assert_eq!(
        piece(size.0 + 5, 100),
        FileExcerpt {
            bytes: vec![],
            size
        }
    );
    assert_eq!(piece(u64::MAX, 100).bytes, b"");
    assert_eq!(piece(0, 0).bytes, b"");
    assert_eq!(piece(0, u32::MAX).bytes, bytes[..PIECE_MAX_BYTES as usize]);
    for missing in ["nothing", "x/y"] {
        let read = world.a.read_piece(&user(missing), Bytes(0), 1);
        assert!(matches!(read, Err(SiteError::Refused(_))), "{read:?}");
    }
}

#[test]
fn an_inspection_can_be_asked_for_forgotten_and_killed() {
    let world = World::new();
    world.file("x", b"abc");
    let place = user("x");
    assert_eq!(
        world.a.inspection_status(&place),
        Ok(InspectionStatus::Absent)
    );
    assert_eq!(inspected(&world.a, &place).content, content(b"abc"));
    world.file("x", b"abcd");
    assert_eq!(
        inspected(&world.a, &place).content,
        content(b"abcd"),
        "found out anew"
    );
    world.a.forget_inspection(&place).unwrap();
    assert_eq!(
        world.a.inspection_status(&place),
        Ok(InspectionStatus::Absent)
    );
    let missing = inspect(&world.a, &FilePlace::Store(content(b"none").digest));
    assert!(
        matches!(missing, InspectionStatus::Failed(SiteError::Refused(_))),
        "{missing:?}"
    );
    assert_eq!(world.a.sweep_remains("mine-", &BTreeSet::new()), Ok(0));
    assert_eq!(
        std::fs::read_dir(world.path("a/inspect")).unwrap().count(),
        0
    );

    // Reads for so long that it is certainly killed before its end.
    std::fs::File::create(world.path("a/files/huge"))
        .unwrap()
        .set_len(4 << 40)
        .unwrap();
    world.a.start_inspection(&user("huge")).unwrap();
    let running = wait_for(|| match world.a.inspection_status(&user("huge")).unwrap() {
        InspectionStatus::Running(so_far) if so_far.done == Bytes(0) => None,
        other => Some(other),
    });
    assert!(
        matches!(running, InspectionStatus::Running(so_far) if so_far.of == Some(Bytes(4 << 40))),
        "{running:?}"
    );
    let agent = std::fs::read_dir(world.path("a/inspect"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let agent: serde_json::Value =
        serde_json::from_slice(&std::fs::read(agent.path().join("agent")).unwrap()).unwrap();
    kill(
        agent["pid"].as_i64().unwrap().try_into().unwrap(),
        Signal::KILL,
    );
    let killed = wait_for(|| match world.a.inspection_status(&user("huge")).unwrap() {
        InspectionStatus::Running { .. } => None,
        other => Some(other),
    });
    assert!(
        matches!(killed, InspectionStatus::Failed(SiteError::NotSent(_))),
        "{killed:?}"
    );
}

#[test]
fn an_inspecting_agent_ends_with_whoever_started_it() {
    let world = World::new();
    let place = user("huge");
    std::fs::File::create(world.path("a/files/huge"))
        .unwrap()
        .set_len(4 << 40)
        .unwrap();
    world.a.start_inspection(&place).unwrap();
    let another = area(&world.path("a"), vec![agent()]);
    assert!(matches!(
        another.inspection_status(&place),
        Ok(InspectionStatus::Running(_))
    ));
    // As when its process ends, this closes the pipe.
    drop(world.a);
    wait_for(|| match another.inspection_status(&place).unwrap() {
        InspectionStatus::Running(_) => None,
        InspectionStatus::Failed(SiteError::NotSent(why)) => Some(why),
        other => panic!("{other:?}"),
    });
}

#[test]
fn an_outcome_torn_by_a_crash_is_a_death_and_not_a_success() {
    let world = World::new();
    let order = order(world.file("x", b"abc"), "x");
    std::fs::create_dir_all(world.task(&order)).unwrap();
    for torn in [
        "",
        "{",
        "\0\0\0\0",
        "{\"inspected\":{\"digest\":\"x\",\"size_bytes\":1,\"directory\":false}}",
    ] {
        std::fs::write(world.task(&order).join("outcome"), torn).unwrap();
        let CopyStatus::Failed { blame, .. } = world.status(&order) else {
            panic!("{torn}")
        };
        assert_eq!(blame, CopyBlame::Process, "{torn:?}");
    }
    assert_eq!(world.copy(&order), CopyStatus::Complete);
}
