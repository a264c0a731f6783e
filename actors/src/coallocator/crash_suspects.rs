//! Jobs in whose turn the co-allocator died. Its next life must know of them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cospan_domain::ids::JobId;

/// The number of times that the co-allocator died in a job's turn.
#[derive(Debug, Default)]
pub(crate) struct CrashSuspects(Mutex<BTreeMap<JobId, u32>>);

impl CrashSuspects {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<JobId, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the co-allocator died in this job's turn.
    pub(super) fn note_death(&self, job: JobId) {
        *self.lock().entry(job).or_default() += 1;
    }

    /// Clears the suspicion against a job that is held, or gone.
    pub(super) fn clear_job(&self, job: JobId) {
        self.lock().remove(&job);
    }

    /// Lists the jobs, and how often it died.
    pub(super) fn all(&self) -> BTreeMap<JobId, u32> {
        self.lock().clone()
    }
}
