//! Seeds of chaos a minute, and whether a seed is the same run every time.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use cospan_chaos_tests::laboratory::chaos::campaign::{Size, seed, seeds};
use cospan_chaos_tests::laboratory::chaos::coverage::{kinds, share};
use cospan_chaos_tests::world::trouble::Struck;

use super::report::Report;

/// How often one seed is run for its hash.
const SAME: usize = 20;

pub(super) fn bench(quick: bool) -> Result<Report> {
    let mut report = Report::new("chaos");
    let count = if quick { 10 } else { 2_000 };
    crate::cli::progress(&format!("{count} seeds"));
    let at_once = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (begun, seen) = (Instant::now(), Mutex::new((Struck::new(), 0_u64, Vec::new())));
    seeds(1, count, at_once, Size::default(), &|number, verdict| {
        let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match verdict {
            Ok(verdict) if verdict.holds() => {
                for (pair, count) in verdict.struck {
                    *seen.0.entry(pair).or_default() += count;
                }
                seen.1 += verdict.changes;
            }
            _ => seen.2.push(number),
        }
    });
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let (struck, changes, broken) =
        seen.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !broken.is_empty() {
        bail!("seeds {broken:?} broke rules; `cospan chaos run --first N --seeds 1` shows how");
    }
    report.figure("chaos_seeds_per_min", count as f64 / minutes, "1/min", ">= 200");
    let kinds = kinds(&struck);
    let least = kinds.iter().map(|kind| kind.strikes).min().unwrap_or(0);
    report.figure("fault_step_coverage", share(&kinds) * 100.0, "%", ">= 95");
    report.figure("fault_kind_least_strikes", least as f64, "strikes", ">= 1000");
    let faults: u64 = struck.values().sum();
    report.figure("chaos_faults_10min", faults as f64 / minutes * 10.0, "faults", "");
    report.figure("chaos_changes_per_s", changes as f64 / minutes / 60.0, "1/s", "");
    report.figure("same_hash_runs", same_hash()? as f64, "runs", "20");
    Ok(report)
}

/// Runs one seed alone, two at a time, and beside a busy loop; how many of the runs
/// have the most common hash.
fn same_hash() -> Result<usize> {
    crate::cli::progress(&format!("one seed {SAME} times"));
    let hash = || seed(1, Size::default()).map(|verdict| verdict.hash);
    let first = hash()?;
    let stop = AtomicBool::new(false);
    let hashes = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let mut hashes = Vec::new();
        while hashes.len() + 1 < SAME {
            let (one, other) = (scope.spawn(hash), scope.spawn(hash));
            hashes.extend([one.join(), other.join()]);
        }
        stop.store(true, Ordering::Relaxed);
        hashes
    });
    let mut same = 1;
    let mut others = BTreeSet::new();
    for hash in hashes.into_iter().take(SAME - 1) {
        match hash {
            Ok(Ok(hash)) if hash == first => same += 1,
            Ok(Ok(hash)) => _ = others.insert(hash),
            Ok(Err(problem)) => return Err(problem),
            Err(_) => bail!("a thread of the bench broke"),
        }
    }
    Ok(same)
}
