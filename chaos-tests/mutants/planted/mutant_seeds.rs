//! Runs seeds with one mutant active, or none, and prints a line for each.
//! Written into a copy of the sources; not part of Cospan.
//!
//! `mutant_seeds MUTANT|none JOBS SITES HOURS LIMIT_SECONDS`, seeds on standard input.

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cospan_chaos_tests::seeds::campaign::{CampaignSize, run_seed};
use cospan_domain::mutant_switch::{activate, take_reached};
use cospan_domain::units::DurationMs;

const LOOK: Duration = Duration::from_millis(500);
const SECOND_NS: u64 = 1_000_000_000;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |index: usize| args[index].parse::<u64>().expect("a number");
    let size = CampaignSize {
        jobs: number(2) as usize,
        sites: number(3) as usize,
        length: DurationMs::from_secs(3_600 * number(4)),
    };
    let mutant = args[1].parse::<u32>().ok();
    mutant.into_iter().for_each(activate);
    let panicked = Arc::new(Mutex::new(None));
    let begun = Arc::new(AtomicU64::new(0));
    let noted = panicked.clone();
    std::panic::set_hook(Box::new(move |panic| {
        let mut first = noted.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        first.get_or_insert_with(|| panic.to_string().replace('\n', " "));
    }));
    watch_limit(begun.clone(), number(5));
    for line in std::io::stdin().lock().lines() {
        let number: u64 = line.expect("a line").parse().expect("a seed");
        begun.store(main_thread_cpu_ns(), Relaxed);
        let found = run_and_judge(number, size);
        let panicked = panicked.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let reached = take_reached();
        match (found, panicked) {
            (Some(rule), _) => println!("{number}\trule\t{}", rule.replace(['\n', '\t'], " ")),
            (None, Some(panic)) => println!("{number}\tpanic\t{}", panic.replace('\t', " ")),
            (None, None) if mutant.is_some() => println!("{number}\tholds\t"),
            (None, None) => {
                let reached: Vec<String> = reached.iter().map(usize::to_string).collect();
                println!("{number}\tholds\t{}", reached.join(" "));
            }
        }
        std::io::stdout().flush().expect("output");
    }
}

/// Runs one seed and returns the first problem that the oracles found.
fn run_and_judge(number: u64, size: CampaignSize) -> Option<String> {
    match run_seed(number, size) {
        Ok(verdict) if verdict.holds() => None,
        Ok(verdict) => verdict.unsafe_.into_iter().chain(verdict.not_live).next(),
        Err(problem) => Some(format!("{problem:#}")),
    }
}

/// Ends the process if a seed takes too long. The limit is processor time, so a seed that had to
/// wait for others, or was stopped for a while, is not blamed.
fn watch_limit(begun: Arc<AtomicU64>, limit_seconds: u64) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(LOOK);
            if main_thread_cpu_ns().saturating_sub(begun.load(Relaxed)) > limit_seconds * SECOND_NS {
                println!("0\ttimeout\tno verdict within {limit_seconds} s");
                std::process::exit(3);
            }
        }
    });
}

/// Returns the processor time of the first thread, which runs the seeds.
fn main_thread_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|text| text.parse().ok()).expect("a number")
}
