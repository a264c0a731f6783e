//! Measures how fast one copy is without a limit: an agent copies, digests and flushes 1 GB,
//! against `cp`, a flush and a digest one after the other.
//!
//! `cargo run --release -p cospan-sites --example copy_rate -- [DIRECTORY] [MB] [ROUNDS]`
//! The directory must be on a disk. Both alternate; medians are quoted.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on has failed"
)]

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, RelPath, SiteName};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;
use cospan_sites::files::{FileArea, FileAreaConfig, agent};
use cospan_sites::port::{CopyRequest, CopySource, CopyStatus};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "agent") {
        return agent::main(arguments.into_iter().skip(1));
    }
    let place = PathBuf::from(argument_text(&arguments, 0).unwrap_or("target"));
    let size = argument_text(&arguments, 1).map_or(1_000, |mb| mb.parse().unwrap()) * 1_000_000;
    let rounds = argument_text(&arguments, 2).map_or(5, |rounds| rounds.parse().unwrap());
    let place = tempfile::tempdir_in(place.canonicalize().unwrap()).unwrap();
    run(place.path(), size, rounds);
    ExitCode::SUCCESS
}

fn argument_text(arguments: &[OsString], index: usize) -> Option<&str> {
    arguments.get(index).and_then(|argument| argument.to_str())
}

fn run(place: &Path, size: usize, rounds: usize) {
    let a = make_area(place, "a");
    let b = make_area(place, "b");
    let source = place.join("a/files/x");
    let order = make_order(&source, size);
    let mut ours = Vec::new();
    let mut floors = Vec::new();
    for round in 0..rounds * 2 {
        // ABBA, so that a disk that slows down favours nobody.
        if round % 4 == 0 || round % 4 == 3 {
            ours.push(time_copy(&a, &b, &order));
        } else {
            floors.push(time_floor(
                &source,
                &place.join("floor"),
                order.content.digest,
            ));
        }
    }
    let ours = median(ours);
    let floor = median(floors);
    let rate = size as f64 / ours / 1e6;
    let floor_rate = size as f64 / floor / 1e6;
    println!(
        "{{\"bench\": \"copy\", \"figures\": [{{\"name\": \"copy_mb_per_s\", \"value\": {rate:.0}, \
         \"unit\": \"MB/s\"}}, {{\"name\": \"copy_ratio\", \"value\": {:.2}, \"unit\": \"1\"}}], \
         \"floors\": [{{\"name\": \"floor_cp_sync_blake3_mb_per_s\", \"value\": {floor_rate:.0}, \
         \"unit\": \"MB/s\"}}], \"machine\": \"{} processors\"}}",
        floor / ours,
        std::thread::available_parallelism().map_or(0, usize::from),
    );
}

fn make_area(place: &Path, name: &str) -> FileArea {
    let root = place.join(name);
    std::fs::create_dir(&root).unwrap();
    let agent = vec![
        std::env::current_exe().unwrap().into_os_string(),
        "agent".into(),
    ];
    let stall = Duration::from_secs(60);
    let area = FileArea::new(FileAreaConfig {
        root,
        attempts: "attempts".into(),
        agent,
        stall,
    });
    let area = area.unwrap();
    area.prepare_root().unwrap();
    area
}

fn make_order(source: &Path, size: usize) -> CopyRequest {
    let mut bytes = vec![0; size];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    std::fs::write(source, &bytes).unwrap();
    let digest = Digest(*blake3::hash(&bytes).as_bytes());
    CopyRequest {
        content: Content {
            digest,
            size: Bytes(size as u64),
        },
        chunk: None,
        source: CopySource {
            site: SiteName::new("a").unwrap(),
            place: FilePlace::User(RelPath::new("x").unwrap()),
        },
        nonce: "bench-1".into(),
        limit: None,
    }
}

/// Seconds of one copy, from the order to `Complete`.
fn time_copy(a: &FileArea, b: &FileArea, order: &CopyRequest) -> f64 {
    b.delete_content(order.content.digest).unwrap();
    let started = Instant::now();
    b.start_copy(order, &a.as_source()).unwrap();
    loop {
        match b.copy_status(order).unwrap() {
            CopyStatus::Running { .. } => std::thread::sleep(Duration::from_millis(2)),
            CopyStatus::Complete => return started.elapsed().as_secs_f64(),
            other => panic!("{other:?}"),
        }
    }
}

/// Seconds of `cp`, a flush, and a digest of what was written.
fn time_floor(source: &Path, to: &Path, digest: Digest) -> f64 {
    let _ = std::fs::remove_file(to);
    let started = Instant::now();
    assert!(
        Command::new("cp")
            .arg(source)
            .arg(to)
            .status()
            .unwrap()
            .success()
    );
    let file = File::open(to).unwrap();
    file.sync_all().unwrap();
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).unwrap();
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(Digest(*hasher.finalize().as_bytes()), digest);
    seconds
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
