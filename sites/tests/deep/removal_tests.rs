//! Such trees are removed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cospan_domain::ids::InstanceId;
use cospan_sites::contract::attempt_tag;
use cospan_sites::local_site::LocalSite;
use cospan_sites::port::Site;
use cospan_sites::remove_tree;
use rustix::fs::{Mode, RenameFlags, fchmod, mkdirat, renameat_with};

use super::grow::{DEEP, grow, leaf, limit_descriptors};
use crate::support::LocalSiteFixture;
use crate::support::unprivileged::unprivileged;

fn await_empty(directory: &Path) {
    let begun = Instant::now();
    while fs::read_dir(directory).unwrap().next().is_some() {
        assert!(
            begun.elapsed() < Duration::from_secs(600),
            "{} stays",
            directory.display()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// An attempt that left so many levels below its work directory.
fn leave(fixture: &LocalSiteFixture, job: u64, levels: usize) {
    let attempt = fixture
        .root()
        .join(format!("attempts/{}", attempt_tag(job)));
    leaf(&grow(&attempt.join("work"), levels), "result");
}

#[tokio::test]
async fn attempt_with_ten_thousand_nested_directories_is_removed() {
    let _few = limit_descriptors();
    let fixture = LocalSiteFixture::new();
    leave(&fixture, 1, DEEP);
    leave(&fixture, 2, 1_201);
    for job in [1, 2] {
        fixture
            .site
            .queue()
            .remove_attempt(attempt_tag(job))
            .await
            .unwrap();
    }
    assert_eq!(fixture.site.queue().list_attempts().await.unwrap(), []);
    await_empty(&fixture.root().join("gone"));
}

#[tokio::test]
async fn attempt_with_many_files_is_gone_at_once_and_removed_in_the_end() {
    let _few = limit_descriptors();
    let fixture = LocalSiteFixture::new();
    let work = fixture
        .root()
        .join(format!("attempts/{}/work", attempt_tag(1)));
    let at = grow(&work, 1);
    (0..20_000).for_each(|n| leaf(&at, &n.to_string()));
    fixture
        .site
        .queue()
        .remove_attempt(attempt_tag(1))
        .await
        .unwrap();
    assert_eq!(fixture.site.queue().list_attempts().await.unwrap(), []);
    await_empty(&fixture.root().join("gone"));
}

#[test]
fn what_an_earlier_process_left_is_removed_at_the_start() {
    let _few = limit_descriptors();
    let fixture = LocalSiteFixture::new();
    let gone = fixture.root().join("gone");
    grow(&gone.join("old.1-1"), DEEP);
    grow(&gone.join("old.1-2"), 1_201);
    fs::write(gone.join("old.1-3.tmp"), "half").unwrap();
    let mut config = fixture.config();
    config.owner = Some(InstanceId::from_random(7));
    LocalSite::new(config).unwrap().take_root().unwrap();
    await_empty(&gone);
}

#[test]
fn wide_trees_are_removed_at_each_depth() {
    let _few = limit_descriptors();
    let place = tempfile::tempdir().unwrap();
    let top = place.path().join("top");
    // The middle one is deeper than what is held of a way down.
    for levels in [0, 300, 10] {
        let at = grow(&top, levels);
        for n in 0..300 {
            let name = format!("w{levels}-{n}");
            mkdirat(&at, &*name, Mode::RWXU).unwrap();
            mkdirat(&at, &*format!("{name}/below"), Mode::RWXU).unwrap();
            leaf(&at, &format!("{name}/below/file"));
        }
    }
    for n in 0..3_000 {
        fs::create_dir(top.join(n.to_string())).unwrap();
    }
    remove_tree(&top).unwrap();
    assert!(!top.exists());
}

#[test]
fn directories_that_their_payload_closed_are_removed_however_deep() {
    let _few = limit_descriptors();
    unprivileged(|| {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        // Some on the way, too: from below, since nobody gets through them then.
        for levels in [700, 500, 300, 1, 0] {
            let inside = grow(&top, levels);
            leaf(&inside, "file");
            fchmod(&inside, Mode::empty()).unwrap();
        }
        remove_tree(&top).unwrap();
        assert!(!top.exists());
    });
}

#[tokio::test]
async fn attempt_whose_directory_is_closed_is_removed() {
    let _few = limit_descriptors();
    let fixture = LocalSiteFixture::anywhere();
    leave(&fixture, 1, 3);
    let attempt = fixture.root().join(format!("attempts/{}", attempt_tag(1)));
    fs::set_permissions(&attempt, fs::Permissions::from_mode(0o000)).unwrap();
    fixture
        .site
        .queue()
        .remove_attempt(attempt_tag(1))
        .await
        .unwrap();
    await_empty(&fixture.root().join("gone"));
}

#[test]
fn links_are_removed_and_what_they_point_to_stays() {
    let _few = limit_descriptors();
    let place = tempfile::tempdir().unwrap();
    let top = place.path().join("top");
    let outside = place.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "").unwrap();
    fs::create_dir(&top).unwrap();
    symlink(&outside, top.join("link")).unwrap();
    symlink("link", top.join("links")).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A payload that lives on swaps directories for links, and moves them about.
            while !over.load(Ordering::Relaxed) {
                let _ = fs::create_dir_all(top.join("a/b"));
                let _ = symlink(&outside, top.join("to"));
                let one = top.join("a");
                let other = top.join("to");
                let cwd = rustix::fs::CWD;
                let _ = renameat_with(cwd, &one, cwd, &other, RenameFlags::EXCHANGE);
                let _ = fs::rename(top.join("to/b"), place.path().join("fled"));
                let _ = fs::rename(place.path().join("fled"), top.join("back"));
            }
        });
        for _ in 0..500 {
            while !top.exists() {
                std::thread::yield_now();
            }
            // It comes to an end, whatever it says.
            let _ = remove_tree(&top);
        }
        over.store(true, Ordering::Relaxed);
    });
    remove_tree(&top).unwrap();
    assert!(outside.join("precious").exists());
    remove_tree(&outside.join("precious")).unwrap();
    remove_tree(&outside.join("never there")).unwrap();
}

/// What belongs to another user stands for all that cannot be removed.
#[test]
fn what_cannot_be_removed_is_told_and_all_else_goes() {
    let _few = limit_descriptors();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let root = place.path().join("top");
    let top = root.clone();
    unprivileged(move || {
        grow(&top, 300);
        fs::create_dir_all(top.join("d/d/theirs")).unwrap();
    });
    fs::create_dir(root.join("d/d/theirs/inside")).unwrap();
    fs::write(root.join("d/d/theirs/inside/their-file"), "").unwrap();
    let top = root.clone();
    unprivileged(move || {
        let error = remove_tree(&top).unwrap_err();
        assert!(
            error.to_string().contains("\"their-file\" in it stays"),
            "{error}"
        );
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        let left: Vec<_> = fs::read_dir(top.join("d/d")).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    });
}
