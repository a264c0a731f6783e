//! What kill -9 cannot show: between the write of a group and its
//! acknowledgement the store's file was synced. Seen by `strace`.

use std::collections::BTreeMap;
use std::process::Command;

use cospan_storage::EngineKind;

use crate::child;
use crate::history::on_disk;

/// Groups that are looked at.
const GROUPS: u64 = 100;

/// What the trace has shown so far of one file.
#[derive(Default)]
struct Watch {
    /// Written since the last sync began, or never synced.
    dirty: bool,
    /// Written since the last acknowledgement.
    written: bool,
    /// Calls under way, by thread.
    unfinished: BTreeMap<String, Call>,
    acknowledged: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Write,
    Sync,
}

impl Watch {
    fn line(&mut self, line: &str, file: &str) {
        let Some((thread, call)) = line.split_once(' ') else { return };
        let call = call.trim_start();
        if call.contains("resumed>") {
            if let Some(call) = self.unfinished.remove(thread) {
                self.end(call);
            }
            return;
        }
        if call.starts_with("write(1<") && call.contains("\\nack ") {
            self.acknowledge(line);
            return;
        }
        let kind = match call.split_once('(') {
            Some((name, rest)) if rest.contains(file) => match name {
                "fdatasync" | "fsync" => Call::Sync,
                _ => Call::Write,
            },
            _ => return,
        };
        self.begin(kind);
        match call.contains("<unfinished") {
            true => drop(self.unfinished.insert(thread.into(), kind)),
            false => self.end(kind),
        }
    }

    fn begin(&mut self, call: Call) {
        match call {
            Call::Write => (self.dirty, self.written) = (true, true),
            // A write that ends after this makes it dirty again.
            Call::Sync => self.dirty = self.unfinished.values().any(|call| *call == Call::Write),
        }
    }

    fn end(&mut self, call: Call) {
        if call == Call::Write {
            self.dirty = true;
        }
    }

    fn acknowledge(&mut self, line: &str) {
        let syncing = self.unfinished.values().any(|call| *call == Call::Sync);
        assert!(self.written, "acknowledged without a write: {line}");
        assert!(!self.dirty && !syncing, "acknowledged before it was synced: {line}");
        self.written = false;
        self.acknowledged += 1;
    }
}

fn every_group_is_synced_before_it_is_acknowledged(engine: EngineKind, file: &str) {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: strace is not installed");
        return;
    }
    let directory = on_disk();
    let (path, log) = (directory.path().join("store"), directory.path().join("trace"));
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
    let mut watch = Watch::default();
    let log = std::fs::read(&log).unwrap();
    String::from_utf8_lossy(&log).lines().for_each(|line| watch.line(line, &file));
    println!("{} groups acknowledged, each after a sync of {file}", watch.acknowledged);
    assert_eq!(watch.acknowledged, told);
    assert!(told >= GROUPS);
}

#[cfg(feature = "sled")]
#[test]
fn sled_syncs_its_file_between_the_write_of_a_group_and_its_acknowledgement() {
    every_group_is_synced_before_it_is_acknowledged(EngineKind::Sled, "db");
}

#[cfg(feature = "redb")]
#[test]
fn redb_syncs_its_file_between_the_write_of_a_group_and_its_acknowledgement() {
    every_group_is_synced_before_it_is_acknowledged(EngineKind::Redb, "redb");
}

#[test]
fn the_watch_notices_an_acknowledgement_without_a_sync() {
    let good = ["7 pwrite64(3</s/db>, \"x\", 1, 0) = 1", "7 fdatasync(3</s/db>) = 0"];
    let acknowledged = "7 write(1</dev/null>, \"\\nack 1\\n\", 8) = 8";
    let fails = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_string()).collect();
        std::panic::catch_unwind(move || {
            let mut watch = Watch::default();
            lines.iter().for_each(|line| watch.line(line, "</s/db>"));
        })
        .is_err()
    };
    assert!(!fails(&[good[0], good[1], acknowledged]));
    assert!(fails(&[good[0], acknowledged]));
    assert!(fails(&[good[1], good[0], acknowledged]));
    assert!(fails(&[good[0], "7 fdatasync(3</s/other>) = 0", acknowledged]));
    let slow = [
        "8 pwrite64(3</s/db>, <unfinished ...>",
        "7 fdatasync(3</s/db>) = 0",
        "8 <... pwrite64 resumed>) = 1",
    ];
    assert!(fails(&[slow[0], slow[1], slow[2], acknowledged]));
}
