//! Many seeds side by side. Each runs on a thread of its own, in a world of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, anyhow};
use cospan_domain::units::DurationMs;

use super::run::{Verdict, run};
use super::scenario::Scenario;

/// How large each run is.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Jobs.
    pub jobs: usize,
    /// Sites, at most five.
    pub sites: usize,
    /// How long things go wrong.
    pub length: DurationMs,
}

impl Default for Size {
    fn default() -> Self {
        Self { jobs: 200, sites: 5, length: DurationMs::from_secs(86_400) }
    }
}

/// Runs one seed. A panic of the laboratory is an error.
///
/// # Errors
/// The laboratory fails, or a store cannot be opened any more.
pub fn seed(seed: u64, size: Size) -> Result<Verdict> {
    let scenario = Scenario::draw(seed, size.jobs, size.sites, size.length)?;
    catch_unwind(AssertUnwindSafe(|| run(scenario)))
        .unwrap_or_else(|_| Err(anyhow!("the laboratory panicked")))
}

/// Runs `count` seeds from `first` on, `at_once` at a time, and shows each verdict.
pub fn seeds(
    first: u64,
    count: u64,
    at_once: usize,
    size: Size,
    show: &(dyn Fn(u64, Result<Verdict>) + Sync),
) {
    let next = AtomicU64::new(first);
    let shown = Mutex::new(());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= first + count {
                return;
            }
            let verdict = seed(number, size);
            let _one_at_a_time = shown.lock().unwrap_or_else(PoisonError::into_inner);
            show(number, verdict);
        }
    };
    std::thread::scope(|scope| {
        (0..at_once.max(1)).for_each(|_| drop(scope.spawn(work)));
    });
}
