//! Dry runs: bounds on their number and on the time of each.
//!
//! Placing a job takes as long as its size and the sites require, and a dry run costs its user
//! nothing. So dry runs are counted, in all and by key, and none is worked on beyond its time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cospan_domain::ids::KeyName;

use super::failure::HttpFailure;
use cospan_api::v1::problem::{Code, Problem};

/// The dry runs that are under way.
#[derive(Debug)]
pub(super) struct DryRuns {
    keys: Arc<Mutex<BTreeSet<KeyName>>>,
    at_once: usize,
    budget: Duration,
}

/// A dry run that is under way; its key may begin another when it is dropped.
#[derive(Debug)]
pub(super) struct DryRun {
    keys: Arc<Mutex<BTreeSet<KeyName>>>,
    key: KeyName,
    begun: Instant,
    budget: Duration,
}

fn lock_keys(keys: &Mutex<BTreeSet<KeyName>>) -> MutexGuard<'_, BTreeSet<KeyName>> {
    keys.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DryRuns {
    pub(super) fn new(at_once: usize, budget: Duration) -> Self {
        Self {
            keys: Arc::default(),
            at_once,
            budget,
        }
    }

    /// Returns `Ok` if another dry run may begin; called before its body is read.
    ///
    /// # Errors
    /// As for [`DryRuns::begin_dry_run`].
    pub(super) fn check_room(&self, key: &KeyName) -> Result<(), HttpFailure> {
        self.check_bounds(&lock_keys(&self.keys), key)
    }

    /// Begins a dry run.
    ///
    /// # Errors
    /// The key has one under way, or there are as many as allowed.
    pub(super) fn begin_dry_run(&self, key: &KeyName) -> Result<DryRun, HttpFailure> {
        let mut keys = lock_keys(&self.keys);
        self.check_bounds(&keys, key)?;
        keys.insert(key.clone());
        drop(keys);
        let keys = self.keys.clone();
        let key = key.clone();
        Ok(DryRun {
            keys,
            key,
            begun: Instant::now(),
            budget: self.budget,
        })
    }

    fn check_bounds(
        &self,
        under_way: &BTreeSet<KeyName>,
        key: &KeyName,
    ) -> Result<(), HttpFailure> {
        let count = under_way.len();
        let problem = if under_way.contains(key) {
            format!("a dry run of the key {key} is under way")
        } else if count >= self.at_once {
            format!("{count} dry runs are under way, the most allowed")
        } else {
            return Ok(());
        };
        Err(Problem::new(Code::TooManyDryRuns, problem)
            .with_retry_after(1)
            .into())
    }
}

impl DryRun {
    /// Returns `Ok` if there is time for one more job.
    ///
    /// # Errors
    /// The time is used up.
    pub(super) fn check_time(&self, done: usize, of: usize) -> Result<(), HttpFailure> {
        if self.begun.elapsed() < self.budget {
            return Ok(());
        }
        let ms = self.budget.as_millis();
        let detail = format!("after {ms} ms it had checked {done} of {of} jobs");
        Err(HttpFailure::new(Code::DryRunTooLong, detail))
    }
}

impl Drop for DryRun {
    fn drop(&mut self) {
        lock_keys(&self.keys).remove(&self.key);
    }
}
