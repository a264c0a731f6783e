//! A job at which every policy panics, in a build with `--cfg cospan_chaos`; in every other build
//! nothing of it is left.

use crate::ids::JobId;

/// Marks that a policy is asked for a plan for this job; panics if the job is poisoned.
#[cfg(not(cospan_chaos))]
#[inline(always)]
pub fn panic_if_poisoned(_: JobId) {}

#[cfg(cospan_chaos)]
static POISONOUS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(u64::MAX);

/// Marks that a policy is asked for a plan for this job; panics if the job is poisoned.
#[cfg(cospan_chaos)]
pub fn panic_if_poisoned(job: JobId) {
    let poisonous = POISONOUS.load(std::sync::atomic::Ordering::Relaxed);
    assert!(poisonous != job.0, "planted panic of a policy");
}

/// Makes every policy panic at this job, or at none.
#[cfg(cospan_chaos)]
pub fn poison_job(job: Option<JobId>) {
    let number = job.map_or(u64::MAX, |job| job.0);
    POISONOUS.store(number, std::sync::atomic::Ordering::Relaxed);
}
