//! Chunks that are cut from a file on the way.

use cospan_domain::content::{ComponentFilePart, Content, FileChunk};
use cospan_sites::port::{CopyBlame, CopyRequest, CopyStatus};

use crate::world::{World, limited, noise, order, wait_for};

/// An order for a part of a user's file at `a`.
fn chunk(of: Content, part: ComponentFilePart, path: &str) -> CopyRequest {
    let chunk = FileChunk::for_part(of, part);
    CopyRequest {
        chunk: Some(chunk),
        ..order(chunk.as_content(), path)
    }
}

fn part(before: u64, own: u64, total: u64) -> ComponentFilePart {
    ComponentFilePart { before, own, total }
}

#[test]
fn chunks_of_a_file_are_the_file_together() {
    let world = World::new();
    let bytes = noise(7, 2_500_000);
    let of = world.file("x", &bytes);
    let mut together = Vec::new();
    for (before, own) in [(0, 1), (1, 5), (6, 3)] {
        let order = chunk(of, part(before, own, 9), "x");
        assert_eq!(world.copy(&order), CopyStatus::Complete);
        together.extend(std::fs::read(world.in_store(order.content.digest)).unwrap());
    }
    assert!(together == bytes);
    assert!(
        !world.in_store(of.digest).exists(),
        "the file itself stays where it is"
    );
    wait_for(|| {
        (world.left_in("incoming"), world.left_in("trash"))
            .eq(&(vec![], vec![]))
            .then_some(())
    });
}

#[test]
fn an_empty_chunk_arrives_too() {
    let world = World::new();
    let order = chunk(world.file("x", b"ab"), part(0, 1, 3), "x");
    assert_eq!(world.copy(&order), CopyStatus::Complete);
    assert!(
        std::fs::read(world.in_store(order.content.digest))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_chunk_of_a_file_that_is_another_elsewhere_is_the_sources_fault() {
    let world = World::new();
    let of = world.file("x", &noise(1, 100_000));
    let mut bytes = noise(1, 100_000);
    bytes[99_999] ^= 1;
    world.file("x", &bytes);
    let order = chunk(of, part(0, 1, 2), "x");
    let status = world.copy(&order);
    let CopyStatus::Failed { blame, detail } = status else {
        panic!("{status:?}")
    };
    assert_eq!(blame, CopyBlame::Source);
    assert!(detail.contains("not the expected content"), "{detail}");
    assert!(!world.b.has_content(order.content.digest).unwrap());
}

#[test]
fn a_directory_is_not_cut() {
    let world = World::new();
    std::fs::create_dir_all(world.path("a/files/d")).unwrap();
    let of = world.file("d/x", b"abc");
    let order = chunk(of, part(0, 1, 3), "d");
    let status = world.copy(&order);
    let CopyStatus::Failed {
        blame: CopyBlame::Source,
        detail,
    } = status
    else {
        panic!("{status:?}")
    };
    assert!(detail.contains("a directory"), "{detail}");
}

#[test]
fn a_chunk_that_was_stopped_is_right_when_it_is_copied_again() {
    let world = World::new();
    let bytes = noise(3, 4_000_000);
    let whole = chunk(world.file("x", &bytes), part(1, 2, 3), "x");
    let slow = limited(whole.clone(), 1_000_000);
    world.start(&slow);
    wait_for(|| match world.status(&slow) {
        CopyStatus::Running { done } if done.0 > 100_000 => Some(()),
        _ => None,
    });
    world.b.stop_copy(&slow, false).unwrap();
    assert_eq!(world.copy(&whole), CopyStatus::Complete);
    let found = std::fs::read(world.in_store(whole.content.digest)).unwrap();
    assert!(found == bytes[1_333_333..]);
}
