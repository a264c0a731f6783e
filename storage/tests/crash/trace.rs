//! What kill -9 cannot show: between the write of a group and its
//! acknowledgement the store's file was synced. Seen by `strace`.

use std::process::Command;

use cospan_storage::EngineKind;

use crate::child;
use crate::history::on_disk;
use crate::watch::Watch;

/// Groups that are looked at.
const GROUPS: u64 = 100;

/// What the child tells on its standard output.
fn is_acknowledgement(call: &str) -> bool {
    call.starts_with("write(1<") && call.contains("\\nack ")
}

fn every_group_is_synced_before_it_is_acknowledged(engine: EngineKind, file: &str) {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("SKIPPED, nothing was shown: strace is not installed");
        return;
    }
    let directory = on_disk();
    let path = directory.path().join("store");
    let log = directory.path().join("trace");
    let calls = "trace=write,writev,pwrite64,pwritev,pwritev2,fdatasync,fsync";
    let mut words: Vec<String> = ["strace", "-f", "-y", "-s", "16", "-e", calls, "-o"]
        .map(String::from)
        .into_iter()
        .chain([log.display().to_string()])
        .collect();
    words.extend(child::command(&path, engine, GROUPS));
    let mut child = child::start(&words);
    let told = child::acknowledged(&mut child).count() as u64;
    assert!(child.wait().unwrap().success());
    let file = format!("<{}>", path.canonicalize().unwrap().join(file).display());
    let mut watch = Watch::new(is_acknowledgement);
    let log = std::fs::read(&log).unwrap();
    String::from_utf8_lossy(&log)
        .lines()
        .for_each(|line| watch.line(line, &file));
    println!(
        "{} groups acknowledged, each after a sync of {file}",
        watch.acknowledged
    );
    assert_eq!(watch.acknowledged, told);
    assert!(told >= GROUPS);
}

#[cfg(feature = "sled")]
#[test]
fn sled_syncs_its_file_between_a_groups_write_and_its_acknowledgement() {
    every_group_is_synced_before_it_is_acknowledged(EngineKind::Sled, "db");
}

#[cfg(feature = "redb")]
#[test]
fn redb_syncs_its_file_between_a_groups_write_and_its_acknowledgement() {
    every_group_is_synced_before_it_is_acknowledged(EngineKind::Redb, "redb");
}

#[test]
fn the_watch_notices_an_acknowledgement_without_a_sync() {
    let good = [
        "7 pwrite64(3</s/db>, \"x\", 1, 0) = 1",
        "7 fdatasync(3</s/db>) = 0",
    ];
    let acknowledged = "7 write(1</dev/null>, \"\\nack 1\\n\", 8) = 8";
    let fails = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_string()).collect();
        std::panic::catch_unwind(move || {
            let mut watch = Watch::new(is_acknowledgement);
            lines.iter().for_each(|line| watch.line(line, "</s/db>"));
        })
        .is_err()
    };
    assert!(!fails(&[good[0], good[1], acknowledged]));
    assert!(fails(&[good[0], acknowledged]));
    assert!(fails(&[good[1], good[0], acknowledged]));
    assert!(fails(&[
        good[0],
        "7 fdatasync(3</s/other>) = 0",
        acknowledged
    ]));
    let slow = [
        "8 pwrite64(3</s/db>, <unfinished ...>",
        "7 fdatasync(3</s/db>) = 0",
        "8 <... pwrite64 resumed>) = 1",
    ];
    assert!(fails(&[slow[0], slow[1], slow[2], acknowledged]));
}
