//! Sources that move under the reader's hands, and paths that want out.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cospan_domain::ids::{AttemptTag, RelPath};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;
use cospan_sites::files::InspectionStatus;
use cospan_sites::port::{CopyBlame, CopyRequest, CopyStatus, SiteError};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::world::{
    ATTEMPTS, World, content, inspect, inspected, limited, noise, order, user, wait_for,
};

const SECRET: &[u8] = b"what lies outside";
const PUBLIC: &[u8] = b"what lies inside!";

/// Exchanges two names for each other, over and over, while something runs.
fn while_exchanging<T>(one: &Path, other: &Path, run: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let exchanger = scope.spawn(|| {
            while !over.load(Relaxed) {
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        over.store(true, Relaxed);
        exchanger.join().unwrap();
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A directory `name` at `a` with the public file, and beside it a link to the secret one.
fn bait(world: &World, name: &str) -> (std::path::PathBuf, std::path::PathBuf) {
    std::fs::create_dir_all(world.path("outside")).unwrap();
    std::fs::write(world.path("outside/x"), SECRET).unwrap();
    let real = world.path("a/files").join(name);
    std::fs::create_dir_all(&real).unwrap();
    std::fs::write(real.join("x"), PUBLIC).unwrap();
    let link = world.path("link");
    symlink(world.path("outside"), &link).unwrap();
    (real, link)
}

#[test]
fn a_directory_swapped_for_a_link_is_never_followed_out_of_the_root() {
    let world = World::new();
    let (real, link) = bait(&world, "d");
    let mut inside = 0;
    let mut refused = 0;
    while_exchanging(&real, &link, || {
        while inside < 500 || refused < 500 {
            match world.a.read_piece(&user("d/x"), Bytes(0), 100) {
                Ok(piece) => {
                    assert_eq!(piece.bytes, PUBLIC);
                    inside += 1;
                }
                Err(SiteError::Refused(_)) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
    });
}

#[test]
fn a_copy_never_brings_what_a_swapped_directory_points_to() {
    let world = World::new();
    let (real, link) = bait(&world, "d/e");
    let wanted = order(content(SECRET), "d/e/x");
    while_exchanging(&real, &link, || {
        for _ in 0..30 {
            let CopyStatus::Failed { blame, .. } = world.copy(&wanted) else {
                panic!("the secret was copied")
            };
            assert_eq!(blame, CopyBlame::Source);
        }
    });
}

#[test]
fn a_tree_never_takes_in_what_a_swapped_directory_points_to() {
    let world = World::new();
    let (real, link) = bait(&world, "d/e");
    let honest = inspected(&world.a, &user("d")).content;
    let mut found = 0;
    while_exchanging(&real, &link, || {
        for _ in 0..60 {
            match inspect(&world.a, &user("d")) {
                InspectionStatus::Done(now) => {
                    assert_eq!(now.content, honest);
                    found += 1;
                }
                InspectionStatus::Failed(SiteError::Refused(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    });
    println!("{found} of 60 met the directory itself");
}

#[test]
fn paths_that_lead_out_are_refused_and_links_inside_are_followed() {
    let world = World::new();
    world.file("x", PUBLIC);
    std::fs::write(world.path("secret"), SECRET).unwrap();
    symlink(world.path("secret"), world.path("a/files/absolute")).unwrap();
    symlink("../../secret", world.path("a/files/relative")).unwrap();
    symlink("../store", world.path("a/files/sideways")).unwrap();
    symlink("x", world.path("a/files/inside")).unwrap();
    for path in ["absolute", "relative", "sideways"] {
        let read = world.a.read_piece(&user(path), Bytes(0), 100);
        assert!(
            matches!(read, Err(SiteError::Refused(_))),
            "{path}: {read:?}"
        );
        let status = world.copy(&order(content(SECRET), path));
        assert!(
            matches!(
                status,
                CopyStatus::Failed {
                    blame: CopyBlame::Source,
                    ..
                }
            ),
            "{path}"
        );
    }
    assert_eq!(
        world
            .a
            .read_piece(&user("inside"), Bytes(0), 100)
            .unwrap()
            .bytes,
        PUBLIC
    );
    assert_eq!(
        world.copy(&order(content(PUBLIC), "inside")),
        CopyStatus::Complete
    );
}

#[test]
fn what_an_attempt_left_is_read_below_its_work_directory_only() {
    let world = World::new();
    let tag: AttemptTag = "cabcdefgh-1-0-1".parse().unwrap();
    let attempt = world.path("a").join(ATTEMPTS).join(tag.to_string());
    std::fs::create_dir_all(attempt.join("work/out")).unwrap();
    std::fs::write(attempt.join("work/out/result"), PUBLIC).unwrap();
    std::fs::write(attempt.join("stdout"), b"printed").unwrap();
    symlink("../stdout", attempt.join("work/sly")).unwrap();
    let place = |path: &str| FilePlace::Output(tag, RelPath::new(path).unwrap());
    assert_eq!(
        world
            .a
            .read_piece(&place("out/result"), Bytes(0), 100)
            .unwrap()
            .bytes,
        PUBLIC
    );
    assert!(matches!(
        world.a.read_piece(&place("sly"), Bytes(0), 100),
        Err(SiteError::Refused(_))
    ));
    let own = RelPath::new(&format!("{ATTEMPTS}/{tag}/stdout")).unwrap();
    assert_eq!(
        world.a.read_own_piece(&own, Bytes(2), 3).unwrap().bytes,
        b"int"
    );

    let mut order = order(content(PUBLIC), "x");
    order.source.place = place("out/result");
    assert_eq!(world.copy(&order), CopyStatus::Complete);
}

/// Starts a copy of 2 MB that takes about a second, and does something once it runs.
fn disturbed(disturb: impl FnOnce(&Path)) -> (World, CopyRequest, CopyStatus) {
    let world = World::new();
    let order = limited(order(world.file("x", &noise(1, 2_000_000)), "x"), 2_000_000);
    world.start(&order);
    wait_for(|| match world.status(&order) {
        CopyStatus::Running { done: Bytes(0) } => None,
        CopyStatus::Running { .. } => Some(()),
        other => panic!("{other:?}"),
    });
    disturb(&world.path("a/files/x"));
    let status = world.end_of(&order);
    (world, order, status)
}

#[test]
fn a_source_that_grows_shrinks_or_changes_during_the_copy_is_found() {
    let write_at = |path: &Path, offset: u64| {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.write_all_at(b"!", offset).unwrap();
    };
    let changes: [&dyn Fn(&Path); 4] = [
        &|path| write_at(path, 2_000_000),
        &|path| {
            std::fs::File::options()
                .write(true)
                .open(path)
                .unwrap()
                .set_len(1_999_999)
                .unwrap()
        },
        &|path| write_at(path, 0),
        &|path| write_at(path, 1_999_999),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let (world, order, status) = disturbed(change);
        assert!(
            matches!(
                status,
                CopyStatus::Failed {
                    blame: CopyBlame::Source,
                    ..
                }
            ),
            "change {number}: {status:?}"
        );
        assert!(!world.b.has_content(order.content.digest).unwrap());
    }
}

#[test]
fn a_source_linked_or_removed_during_the_copy_is_still_what_it_was() {
    let (_, _, status) = disturbed(|path| {
        std::fs::hard_link(path, path.with_extension("link")).unwrap();
        std::fs::remove_file(path).unwrap();
    });
    assert_eq!(status, CopyStatus::Complete);
}

#[test]
fn pipes_and_sockets_are_refused_without_waiting_for_anybody() {
    let world = World::new();
    std::fs::create_dir(world.path("a/files/d")).unwrap();
    let pipe = world.path("a/files/d/pipe");
    rustix::fs::mkfifoat(CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(world.path("a/files/socket")).unwrap();
    for path in ["d", "d/pipe", "socket"] {
        let status = inspect(&world.a, &user(path));
        assert!(
            matches!(status, InspectionStatus::Failed(SiteError::Refused(_))),
            "{status:?}"
        );
    }
    assert!(matches!(
        world.a.read_piece(&user("d/pipe"), Bytes(0), 1),
        Err(SiteError::Refused(_))
    ));
}
