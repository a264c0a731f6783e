//! Runs many seeds side by side, each on a thread of its own, in a world of its own.

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

/// The way in which a planted bug was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundBug {
    /// Number of seeds that it took.
    pub seeds: u64,
    /// The first line of the oracle.
    pub said: String,
}

/// Returns the first problem that a seed showed, if it broke a rule.
#[cfg(cospan_chaos)]
fn first_problem(number: u64, size: CampaignSize) -> Option<String> {
    match run_seed(number, size) {
        Ok(verdict) if verdict.holds() => None,
        Ok(verdict) => verdict.unsafe_.into_iter().chain(verdict.not_live).next(),
        Err(problem) => Some(format!("{problem:#}")),
    }
}

/// Plants a bug and runs these seeds until an oracle finds it; `None` if they did not. A seed that
/// breaks a rule without the bug as well found another one. `show` is called with the number of
/// seeds before each one, and with such other findings.
#[cfg(cospan_chaos)]
pub fn hunt(
    bug: cospan_domain::planted_bugs::PlantedBug,
    mut within: std::ops::Range<u64>,
    size: CampaignSize,
    show: &dyn Fn(u64, Option<String>),
) -> Option<FoundBug> {
    use cospan_domain::planted_bugs::plant_bug;

    let first = within.start;
    within.find_map(|number| {
        let seeds = number - first + 1;
        show(seeds, None);
        plant_bug(Some(bug));
        let said = first_problem(number, size);
        plant_bug(None);
        let said = said?;
        match first_problem(number, size) {
            None => Some(FoundBug { seeds, said }),
            Some(other) => {
                show(seeds, Some(other));
                None
            }
        }
    })
}

/// Runs `count` seeds from `first` on, `at_once` at a time, and shows each verdict. It stops at the
/// largest number.
pub fn run_seeds(
    first: u64,
    count: u64,
    at_once: usize,
    size: CampaignSize,
    show: &(dyn Fn(u64, Result<SeedVerdict>) + Sync),
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
                    show(number, verdict);
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
