//! The process that is killed: this test binary again.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use cospan_storage::port::{AppendOutcome, CommitReport, StoreKey, StoredValue, UnitToken};
use cospan_storage::{EngineKind, StoreOptions, open_and_load};

use crate::history::unit;

const DIRECTORY: &str = "COSPAN_CHILD_DIRECTORY";
const ENGINE: &str = "COSPAN_CHILD_ENGINE";
const GROUPS: &str = "COSPAN_CHILD_GROUPS";
/// Units in flight.
const IN_FLIGHT: u64 = 24;

/// Appends the history from where it stands, and prints the units of every
/// group, in one write, as soon as the group is acknowledged.
#[test]
#[ignore = "the other tests run it as a process of its own"]
fn append_and_tell() {
    let directory = PathBuf::from(std::env::var_os(DIRECTORY).unwrap());
    let engine = EngineKind::from_name(&std::env::var(ENGINE).unwrap()).unwrap();
    let groups: u64 = std::env::var(GROUPS).unwrap().parse().unwrap();
    let (done, decided) = channel();
    let done = Mutex::new(done);
    let sink = Arc::new(move |report| {
        let CommitReport::Group(group) = report else {
            panic!("{report:?}")
        };
        let mut line = String::from("\nack");
        for (token, outcome) in &group.outcomes {
            assert!(
                matches!(outcome, AppendOutcome::Committed(_)),
                "{outcome:?}"
            );
            line.push_str(&format!(" {}", token.0));
        }
        line.push('\n');
        // Not through the test's captured output, and not buffered.
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
        std::io::stdout().lock().flush().unwrap();
        done.lock()
            .unwrap()
            .send(group.outcomes.len() as u64)
            .unwrap();
    });
    let mut last = 0;
    let opened = open_and_load(
        &directory,
        &StoreOptions::new(engine),
        sink,
        &mut |stored: StoredValue| {
            if stored.key == StoreKey::from("count") {
                last = std::str::from_utf8(&stored.value).unwrap().parse().unwrap();
            }
        },
    )
    .unwrap();
    let mut next = last + 1;
    let mut append = |count: u64| {
        for k in next..next + count {
            opened.journal.append(opened.epoch, UnitToken(k), unit(k));
        }
        next += count;
    };
    append(IN_FLIGHT);
    for _ in 0..groups {
        append(decided.recv().unwrap());
    }
}

/// The command that runs it.
pub(crate) fn command(directory: &Path, engine: EngineKind, groups: u64) -> Vec<String> {
    let program = std::env::current_exe().unwrap();
    let mut words = vec![
        "env".into(),
        format!("{DIRECTORY}={}", directory.display()),
        format!("{ENGINE}={}", engine.as_str()),
        format!("{GROUPS}={groups}"),
        program.display().to_string(),
    ];
    let options = [
        "child::append_and_tell",
        "--exact",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ];
    words.extend(options.map(String::from));
    words
}

/// Starts it.
pub(crate) fn start(words: &[String]) -> Child {
    Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The units of each group that it told of, as they come.
pub(crate) fn acknowledged(child: &mut Child) -> impl Iterator<Item = Vec<u64>> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap())
        .split(b'\n')
        .map_while(Result::ok);
    lines.filter_map(|line| {
        let line = String::from_utf8(line).ok()?;
        let units = line.strip_prefix("ack ")?;
        Some(
            units
                .split(' ')
                .filter_map(|unit| unit.parse().ok())
                .collect(),
        )
    })
}
