//! Copies that go well, and those that cannot.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use cospan_domain::units::{BitsPerSecond, Bytes};
use cospan_sites::port::{CopyBlame, CopyRequest, CopyStatus, SiteError};

use crate::world::{World, agent, content, inspected, limited, noise, order, user, wait_for};

fn blame(status: &CopyStatus) -> CopyBlame {
    match status {
        CopyStatus::Failed { blame, .. } => *blame,
        other => panic!("{other:?}"),
    }
}

fn detail(status: &CopyStatus) -> String {
    match status {
        CopyStatus::Failed { detail, .. } => detail.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_of_all_sizes_arrive_whole_read_only_and_leave_nothing_behind() {
    let world = World::new();
    for length in [0, 1, 1 << 20, (1 << 20) + 1, 5_000_000] {
        let bytes = noise(length as u64, length);
        let order = order(world.file("x", &bytes), "x");
        assert_eq!(world.status(&order), CopyStatus::Absent);
        assert_eq!(world.copy(&order), CopyStatus::Complete);
        let path = world.in_store(order.content.digest);
        assert!(std::fs::read(&path).unwrap() == bytes, "{length} bytes");
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
            0o555
        );
        assert!(world.b.has_content(order.content.digest).unwrap());
    }
    wait_for(|| {
        (world.left_in("incoming"), world.left_in("trash"))
            .eq(&(vec![], vec![]))
            .then_some(())
    });
}

#[test]
fn starting_a_copy_of_what_is_there_is_complete_at_once() {
    let world = World::new();
    let first = order(world.file("x", b"abc"), "x");
    assert_eq!(world.copy(&first), CopyStatus::Complete);
    let second = CopyRequest {
        nonce: "inst-2".into(),
        ..first
    };
    world.start(&second);
    assert_eq!(world.status(&second), CopyStatus::Complete);
}

#[test]
fn what_was_inspected_can_be_ordered_and_copied_on_from_the_store() {
    let world = World::new();
    world.file("x", &noise(1, 100_000));
    let found = inspected(&world.a, &user("x"));
    assert!(!found.directory);
    assert_eq!(world.copy(&order(found.content, "x")), CopyStatus::Complete);
    let again = cospan_domain::transfer::file_place::FilePlace::Store(found.content.digest);
    assert_eq!(inspected(&world.b, &again), found);
}

#[test]
fn one_wrong_bit_is_the_sources_fault_and_never_in_the_store() {
    let world = World::new();
    let mut bytes = noise(1, 3_000_000);
    let wanted = content(&bytes);
    *bytes.last_mut().unwrap() ^= 1;
    world.file("x", &bytes);
    let order = order(wanted, "x");
    let status = world.copy(&order);
    assert_eq!(blame(&status), CopyBlame::Source);
    assert!(
        detail(&status).contains(&content(&bytes).digest.to_string()),
        "{status:?}"
    );
    assert!(!world.b.has_content(wanted.digest).unwrap());
}

#[test]
fn a_short_a_long_and_a_missing_source_are_the_sources_fault() {
    let world = World::new();
    let bytes = noise(1, 300_000);
    let wanted = content(&bytes);
    for other in [&bytes[..299_999], &[&bytes[..], b"more"].concat(), b""] {
        world.file("x", other);
        assert_eq!(blame(&world.copy(&order(wanted, "x"))), CopyBlame::Source);
    }
    assert_eq!(
        blame(&world.copy(&order(wanted, "missing"))),
        CopyBlame::Source
    );
    std::fs::rename(world.path("a"), world.path("gone")).unwrap();
    let status = world.copy(&order(wanted, "x"));
    assert_eq!(blame(&status), CopyBlame::Source);
    assert!(detail(&status).contains("root"), "{status:?}");
    assert!(!world.b.has_content(wanted.digest).unwrap());
}

#[test]
fn after_a_bad_replica_a_good_one_under_the_same_nonce_completes() {
    let world = World::new();
    let mut bytes = noise(1, 2_500_000);
    let wanted = world.file("good", &bytes);
    bytes[1_000] ^= 1;
    world.file("bad", &bytes);
    assert_eq!(blame(&world.copy(&order(wanted, "bad"))), CopyBlame::Source);
    assert_eq!(world.copy(&order(wanted, "good")), CopyStatus::Complete);
}

#[test]
fn partial_data_that_went_bad_is_found_and_copied_anew() {
    let world = World::new();
    let bytes = noise(1, 2_500_000);
    let order = order(world.file("x", &bytes), "x");
    std::fs::create_dir_all(world.task(&order)).unwrap();
    let mut partial = bytes[..1_500_000].to_vec();
    partial[7] ^= 1;
    std::fs::write(world.task(&order).join("data"), partial).unwrap();
    assert_eq!(world.copy(&order), CopyStatus::Complete);
    assert!(std::fs::read(world.in_store(order.content.digest)).unwrap() == bytes);
}

#[test]
fn a_full_disk_is_the_destinations_fault_before_a_byte_is_written() {
    let world = World::new();
    let huge = 8 << 40;
    std::fs::File::create(world.path("a/files/x"))
        .unwrap()
        .set_len(huge)
        .unwrap();
    let mut wanted = content(b"whatever");
    wanted.size = Bytes(huge);
    let order = order(wanted, "x");
    let status = world.copy(&order);
    assert_eq!(blame(&status), CopyBlame::Destination);
    assert!(
        detail(&status).contains("No space left on device"),
        "{status:?}"
    );
    assert!(!world.task(&order).join("data").exists());
}

#[test]
fn a_limit_on_file_size_is_the_destinations_fault_and_not_a_death() {
    let shell = ["/bin/sh", "-c", "ulimit -f 512; exec \"$@\"", "sh"].map(PathBuf::from);
    let world = World::with_agent(shell.into_iter().chain([agent()]).collect());
    let order = order(world.file("x", &noise(1, 2_000_000)), "x");
    let status = world.copy(&order);
    assert_eq!(blame(&status), CopyBlame::Destination);
    assert!(detail(&status).contains("File too large"), "{status:?}");
}

#[test]
fn an_agent_that_cannot_start_is_no_copy_and_an_idle_one_a_dead_copy() {
    let missing = World::with_agent(vec!["/nowhere/agent".into()]);
    let order = order(missing.file("x", b"abc"), "x");
    let started = missing.b.start_copy(&order, &missing.a.as_source());
    assert!(matches!(started, Err(SiteError::NotSent(_))), "{started:?}");

    let useless = World::with_agent(vec!["/bin/true".into()]);
    useless.file("x", b"abc");
    assert_eq!(blame(&useless.copy(&order)), CopyBlame::Process);
}

#[test]
fn a_root_that_is_gone_is_missed_and_one_that_returns_goes_on() {
    let world = World::new();
    let order = order(world.file("x", b"abc"), "x");
    std::fs::rename(world.path("b"), world.path("away")).unwrap();
    let not_sent = |result: Result<(), SiteError>| matches!(result, Err(SiteError::NotSent(_)));
    assert!(not_sent(world.b.start_copy(&order, &world.a.as_source())));
    assert!(not_sent(world.b.copy_status(&order).map(drop)));
    assert!(not_sent(
        world.b.has_content(order.content.digest).map(drop)
    ));
    assert!(not_sent(world.b.delete_content(order.content.digest)));
    assert!(!world.path("b").exists(), "nothing is made in its place");
    std::fs::rename(world.path("away"), world.path("b")).unwrap();
    assert_eq!(world.copy(&order), CopyStatus::Complete);
}

#[test]
fn a_destination_that_vanishes_during_the_copy_is_never_the_sources_fault() {
    let world = World::new();
    let order = limited(order(world.file("x", &noise(1, 400_000)), "x"), 200_000);
    world.start(&order);
    // One that is just being executed has no command line yet, so it would be taken for gone, find
    // the store that is prepared anew, and complete.
    wait_for(|| world.task(&order).join("agent").exists().then_some(()));
    std::fs::remove_dir_all(world.path("b/store")).unwrap();
    let status = wait_for(|| {
        world
            .agents_of(&order)
            .is_empty()
            .then(|| world.b.copy_status(&order))
    });
    assert!(
        matches!(status, Err(SiteError::NotSent(_))),
        "unknown without store: {status:?}"
    );
    world.b.prepare_root().unwrap();
    // A dying process loses its command line, by which it was found, before its lock.
    assert_eq!(blame(&world.end_of(&order)), CopyBlame::Destination);
    assert_eq!(world.copy(&order), CopyStatus::Complete);
}

#[test]
fn a_nonce_that_is_no_name_and_a_link_that_carries_nothing_are_refused() {
    let world = World::new();
    let good = order(world.file("x", b"abc"), "x");
    for nonce in ["", "../x", "a/b", "a.b", &"n".repeat(65)] {
        let bad = CopyRequest {
            nonce: nonce.into(),
            ..good.clone()
        };
        let started = world.b.start_copy(&bad, &world.a.as_source());
        assert!(
            matches!(started, Err(SiteError::Refused(_))),
            "{nonce:?}: {started:?}"
        );
    }
    let dead_link = CopyRequest {
        limit: Some(BitsPerSecond(0)),
        ..good
    };
    let started = world.b.start_copy(&dead_link, &world.a.as_source());
    assert!(matches!(started, Err(SiteError::Refused(_))), "{started:?}");
}
