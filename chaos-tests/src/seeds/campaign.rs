//! Runs many seeds side by side, each on a thread of its own, in a world of its own.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, anyhow};
use cospan_domain::units::DurationMs;

use super::run::{SeedVerdict, run};
use super::seed_scenario::SeedScenario;

/// The size of each run.
#[derive(Debug, Clone, Copy)]
pub struct CampaignSize {
    pub jobs: usize,
    /// At most five.
    pub sites: usize,
    /// Time during which faults happen.
    pub length: DurationMs,
}

impl Default for CampaignSize {
    fn default() -> Self {
        Self {
            jobs: 200,
            sites: 5,
            length: DurationMs::from_secs(86_400),
        }
    }
}

/// Runs one seed. A panic of the simulation is an error.
///
/// # Errors
/// The simulation fails, or a store cannot be opened any more.
pub fn run_seed(seed: u64, size: CampaignSize) -> Result<SeedVerdict> {
    let scenario = SeedScenario::draw(seed, size.jobs, size.sites, size.length)?;
    catch_unwind(AssertUnwindSafe(|| run(scenario)))
        .unwrap_or_else(|_| Err(anyhow!("the simulation panicked")))
}

/// Runs `count` seeds from `first` on, `at_once` at a time, and shows each verdict. It stops at the
/// largest number, and begins no more once `show` breaks.
pub fn run_seeds(
    first: u64,
    count: u64,
    at_once: usize,
    size: CampaignSize,
    show: &(dyn Fn(u64, Result<SeedVerdict>) -> ControlFlow<()> + Sync),
) {
    let next = AtomicU64::new(0);
    let shown = Mutex::new(());
    std::thread::scope(|scope| {
        (0..at_once.max(1)).for_each(|_| {
            drop(scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let number = first.checked_add(index).filter(|_| index < count);
                    let Some(number) = number else { return };
                    let verdict = run_seed(number, size);
                    let _one_at_a_time = shown.lock().unwrap_or_else(PoisonError::into_inner);
                    if show(number, verdict).is_break() {
                        next.store(count, Ordering::Relaxed);
                    }
                }
            }))
        });
    });
}

/// Finds the shortest beginning of the users' actions with which something still goes wrong, and
/// returns its verdict. Halves are tried first, then quarters, and so on.
///
/// # Errors
/// The simulation fails.
pub fn shortest(seed: u64, size: CampaignSize) -> Result<Option<(usize, SeedVerdict)>> {
    let scenario = SeedScenario::draw(seed, size.jobs, size.sites, size.length)?;
    let mut least = scenario.actions.len();
    let Some(mut verdict) = find_failure(&scenario, least)? else {
        return Ok(None);
    };
    let mut step = least.div_ceil(2);
    while step > 0 {
        match find_failure(&scenario, least.saturating_sub(step))? {
            Some(found) => {
                least = least.saturating_sub(step);
                verdict = found;
                step = step.min(least);
            }
            None if step == 1 => break,
            None => step = step.div_ceil(2),
        }
    }
    Ok(Some((least, verdict)))
}

fn find_failure(scenario: &SeedScenario, count: usize) -> Result<Option<SeedVerdict>> {
    let mut shorter = scenario.clone();
    shorter.actions.truncate(count);
    let verdict = run(shorter)?;
    Ok((!verdict.holds()).then_some(verdict))
}
