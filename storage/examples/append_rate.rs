//! Measures durable units a second, by engine and by units in flight, beside the rate of bare
//! `fdatasync` calls on the same disk.
//!
//! `cargo run --release -p cospan-storage --example append_rate [directory]`

#![allow(clippy::print_stdout, reason = "it prints its figures")]

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cospan_storage::port::{
    AppendOutcome, CommitReport, JournalUnit, KeyChange, KeyVersion, StoreKey, UnitToken,
};
use cospan_storage::{EngineKind, StoreOptions, open};

/// Time over which each figure is measured.
const SPAN: Duration = Duration::from_secs(4);
/// Values of a unit by name and bytes.
type UnitValues = &'static [(&'static str, usize)];
/// A submission is one value; a later change of a job is a head and events.
const UNITS: [UnitValues; 2] = [&[("s", 1_300)], &[("e", 1_000), ("h", 300)]];

fn main() -> Result<(), Box<dyn Error>> {
    let base = std::env::args()
        .nth(1)
        .map_or_else(|| PathBuf::from("."), PathBuf::from);
    let base = tempfile::Builder::new()
        .prefix("append-rate")
        .tempdir_in(base)?;
    println!("fdatasync floor: {:.0}/s", measure_fdatasync(base.path())?);
    println!("engine  changes  in flight  units/s  flush ms  MB");
    for engine in EngineKind::ALL {
        for (parts, in_flight) in UNITS.iter().flat_map(|p| [1, 64, 512].map(|n| (*p, n))) {
            let name = engine.as_str();
            let changes = parts.len();
            let path = base.path().join(format!("{name}-{changes}-{in_flight}"));
            let AppendRate {
                units_per_s,
                flush_ms,
                disk_mb,
            } = measure(*engine, parts, in_flight, &path)?;
            println!(
                "{name:>6}  {changes:>7}  {in_flight:>9}  {units_per_s:>7.0}  {flush_ms:>8.2}  {disk_mb:.0}"
            );
        }
    }
    Ok(())
}

struct AppendRate {
    units_per_s: f64,
    flush_ms: f64,
    disk_mb: f64,
}

fn measure(
    engine: EngineKind,
    parts: UnitValues,
    in_flight: u64,
    path: &Path,
) -> Result<AppendRate, Box<dyn Error>> {
    let (done, decided) = channel();
    let done = Mutex::new(done);
    let flushes = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let seen = Arc::clone(&flushes);
    let sink = Arc::new(move |report| {
        if let CommitReport::Group(group) = &report {
            seen.0.fetch_add(1, Ordering::Relaxed);
            seen.1.fetch_add(group.flush_us, Ordering::Relaxed);
        }
        if let Ok(done) = done.lock() {
            drop(done.send(report));
        }
    });
    let opened = open(path, &StoreOptions::new(engine), sink)?;
    let mut next = 0;
    let mut append = || {
        next += 1;
        opened
            .journal
            .append(opened.epoch, UnitToken(next), unit(next, parts));
    };
    (0..in_flight).for_each(|_| append());
    let begun = Instant::now();
    let mut committed = 0_u64;
    while begun.elapsed() < SPAN {
        let CommitReport::Group(group) = decided.recv()? else {
            return Err("the store failed".into());
        };
        for (_, outcome) in group.outcomes {
            assert!(
                matches!(outcome, AppendOutcome::Committed(_)),
                "{outcome:?}"
            );
            committed += 1;
            append();
        }
    }
    let units_per_s = committed as f64 / begun.elapsed().as_secs_f64();
    let groups = flushes.0.load(Ordering::Relaxed);
    let us = flushes.1.load(Ordering::Relaxed);
    let disk_mb = opened.journal.size().disk_bytes as f64 / 1e6;
    opened.journal.close();
    Ok(AppendRate {
        units_per_s,
        flush_ms: us as f64 / groups as f64 / 1e3,
        disk_mb,
    })
}

fn unit(number: u64, parts: UnitValues) -> JournalUnit {
    JournalUnit {
        changes: parts
            .iter()
            .map(|&(part, bytes): &(&str, usize)| KeyChange {
                key: StoreKey::from(format!("j/{number:016x}/{part}").as_str()),
                expected: Some(KeyVersion(0)),
                value: Some((0..bytes).map(|i| (number as usize + i) as u8).collect()),
            })
            .collect(),
    }
}

fn measure_fdatasync(directory: &Path) -> Result<f64, Box<dyn Error>> {
    let mut file = File::create(directory.join("floor"))?;
    file.write_all(&vec![0; 64 << 20])?;
    file.sync_all()?;
    let begun = Instant::now();
    let mut count = 0_u64;
    while begun.elapsed() < SPAN {
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 4096], count * 4096 % (64 << 20))?;
        file.sync_data()?;
        count += 1;
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}
