//! `cospan-chaos bench`: seeds of chaos a minute, and whether a seed is the same run every time.

use std::ops::ControlFlow;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use cospan_simulator::world::site_faults::FaultEffectCounts;
use serde_json::{Value, json};

use crate::seeds::campaign::{CampaignSize, run_seeds};
use crate::seeds::coverage::{coverage_of, covered_share};

/// Number of runs of one seed that must have the same hash.
const SAME: usize = 20;

/// Runs so many seeds and returns a report in the form of `cospan-bench`.
///
/// # Errors
/// A seed broke a rule, or this program could not be started once more.
pub fn run_bench(count: u64, note: &dyn Fn(&str)) -> Result<Value> {
    note(&format!("{count} seeds"));
    let at_once = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let begun = Instant::now();
    let seen = Mutex::new((FaultEffectCounts::new(), 0_u64, Vec::new()));
    run_seeds(
        1,
        count,
        at_once,
        CampaignSize::default(),
        &|number, verdict| {
            let mut seen = seen
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            match verdict {
                Ok(verdict) if verdict.holds() => {
                    for (pair, count) in verdict.struck {
                        *seen.0.entry(pair).or_default() += count;
                    }
                    seen.1 += verdict.changes;
                }
                _ => seen.2.push(number),
            }
            ControlFlow::Continue(())
        },
    );
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let (struck, changes, broken) = seen
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if !broken.is_empty() {
        bail!("seeds {broken:?} broke rules; `cospan-chaos run --first N --seeds 1` shows how");
    }
    let kinds = coverage_of(&struck);
    let least = kinds.iter().map(|kind| kind.strikes).min().unwrap_or(0);
    let faults: u64 = struck.values().sum();
    note(&format!("one seed in {SAME} processes"));
    let figures = [
        (
            "chaos_seeds_per_min",
            count as f64 / minutes,
            "1/min",
            ">= 200",
        ),
        (
            "fault_step_coverage",
            covered_share(&kinds) * 100.0,
            "%",
            ">= 95",
        ),
        (
            "fault_kind_least_strikes",
            least as f64,
            "strikes",
            ">= 1000",
        ),
        (
            "chaos_faults_10min",
            faults as f64 / minutes * 10.0,
            "faults",
            "",
        ),
        (
            "chaos_changes_per_s",
            changes as f64 / minutes / 60.0,
            "1/s",
            "",
        ),
        ("same_hash_runs", count_same_hashes()? as f64, "runs", "20"),
    ];
    let figures: Vec<Value> = figures
        .into_iter()
        .map(|(name, value, unit, target)| {
            let value = (value * 1_000.0).round() / 1_000.0;
            json!({"name": name, "value": value, "unit": unit, "target": target})
        })
        .collect();
    let machine = json!({"cores": at_once.to_string()});
    Ok(json!({"bench": "chaos", "figures": figures, "floors": [], "machine": machine}))
}

/// Runs one seed in processes of their own: alone and two at a time, on any core and pinned to one
/// (where there is `taskset`), half of them beside a busy loop. Returns how many of the runs have
/// the hash of the first.
fn count_same_hashes() -> Result<usize> {
    let pins = Command::new("taskset")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok();
    let first = read_hash(start_run(false)?)?;
    let half = SAME / 2;
    let quiet = count_matching_runs(&first, half - 1, pins)?;
    let stop = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let beside = count_matching_runs(&first, SAME - half, pins);
        stop.store(true, Ordering::Relaxed);
        beside
    })?;
    Ok(1 + quiet + beside)
}

/// Runs the seed so many times, two at a time, and counts the runs with this hash.
fn count_matching_runs(hash: &str, runs: usize, pins: bool) -> Result<usize> {
    let mut same = 0;
    for pair in (0..runs).collect::<Vec<_>>().chunks(2) {
        let begun: Vec<Child> = pair
            .iter()
            .map(|run| start_run(pins && run % 2 == 1))
            .collect::<Result<_>>()?;
        for process in begun {
            same += usize::from(read_hash(process)? == hash);
        }
    }
    Ok(same)
}

/// Starts a process of this program that runs the seed.
fn start_run(pinned: bool) -> Result<Child> {
    let own = std::env::current_exe()?;
    let mut command = if pinned {
        Command::new("taskset")
    } else {
        Command::new(&own)
    };
    if pinned {
        command.args(["-c", "0"]).arg(&own);
    }
    command.args(["run", "--first", "1", "--seeds", "1", "--json"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
        .spawn()
        .context("this program could not be started once more")
}

fn read_hash(process: Child) -> Result<String> {
    let output = process.wait_with_output()?;
    let told: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("a process told nothing and ended with {}", output.status))?;
    Ok(told["hash"]
        .as_str()
        .context("a process told no hash")?
        .to_owned())
}
