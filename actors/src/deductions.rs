//! All deductions from sites for plans that no job owns yet, whoever makes the plans.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cospan_domain::deduction::{
    DeductedAmounts, DeductionKey, DeductionLedger, LeakedDeduction, PlannerLife,
};
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::units::{DurationMs, Timestamp};
use prometheus::IntGauge;

use crate::committed::CommittedView;
use crate::watched_state::PublishedState;

/// The longest time for which a deduction stands that is neither committed nor dropped.
pub(crate) const LEASE: DurationMs = DurationMs(5_000);

#[derive(Debug)]
pub struct Deductions {
    ledgers: Mutex<DeductionLedger>,
    /// The gauge of open plans.
    open: IntGauge,
}

/// The ledgers while they are locked. The gauge follows when they are released.
pub(crate) struct LockedLedgers<'a> {
    ledgers: MutexGuard<'a, DeductionLedger>,
    open: &'a IntGauge,
}

impl Deref for LockedLedgers<'_> {
    type Target = DeductionLedger;

    fn deref(&self) -> &DeductionLedger {
        &self.ledgers
    }
}

impl DerefMut for LockedLedgers<'_> {
    fn deref_mut(&mut self) -> &mut DeductionLedger {
        &mut self.ledgers
    }
}

impl Drop for LockedLedgers<'_> {
    fn drop(&mut self) {
        self.open
            .set(i64::try_from(self.ledgers.len()).unwrap_or(i64::MAX));
    }
}

/// A life of an actor that makes plans: when it is dropped, its deductions end.
pub(crate) struct DeductionHolder {
    deductions: Arc<Deductions>,
    view: Arc<PublishedState<CommittedView>>,
    holder: PlannerLife,
}

impl Deductions {
    /// Makes empty ledgers; `open` shows the number of open plans.
    pub(crate) fn new(open: IntGauge) -> Self {
        Self {
            ledgers: Mutex::default(),
            open,
        }
    }

    pub(crate) fn lock_ledgers(&self) -> LockedLedgers<'_> {
        let ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        LockedLedgers {
            ledgers,
            open: &self.open,
        }
    }

    /// Returns what is deducted from a site.
    pub fn deducted_at(&self, site: &SiteName) -> DeductedAmounts {
        self.lock_ledgers()
            .total_deducted_at(site)
            .cloned()
            .unwrap_or_default()
    }

    /// Ends the deductions that lasted too long.
    pub(crate) fn expire_deductions(&self, now: Timestamp) {
        self.lock_ledgers().end_expired(now);
    }

    /// Lists what is deducted from sites and owned by no job: there must be nothing. A deduction
    /// that ended just now is no fault.
    pub fn find_leaks(&self, view: &CommittedView, now: Timestamp) -> Vec<LeakedDeduction> {
        self.lock_ledgers()
            .find_leaks(now - LEASE, |key: &DeductionKey| {
                view.jobs.get(&key.job).is_some_and(|job| !job.is_final())
            })
    }

    /// The number of plans that are neither committed nor dropped.
    pub fn open_plan_count(&self) -> usize {
        self.lock_ledgers().len()
    }
}

impl DeductionHolder {
    pub(crate) fn new(
        deductions: Arc<Deductions>,
        view: Arc<PublishedState<CommittedView>>,
    ) -> Self {
        let holder = deductions.lock_ledgers().register_holder();
        Self {
            deductions,
            view,
            holder,
        }
    }

    /// Opens a plan for this job: until it ends, sites may deduct for it.
    pub(crate) fn open_plan(&self, job: JobId, until: Timestamp) -> DeductionKey {
        let view = self.view.load();
        let round = view
            .jobs
            .get(&job)
            .map_or_else(Default::default, |job| job.round);
        self.deductions
            .lock_ledgers()
            .open_plan(job, round, self.holder, until)
    }

    /// Deducts what a plan for this job takes, until the job has decided on it.
    pub(crate) fn deduct_for_job(
        &self,
        job: JobId,
        now: Timestamp,
        uses: impl Iterator<Item = (SiteName, DeductedAmounts)>,
    ) -> DeductionKey {
        let key = self.open_plan(job, now + LEASE);
        let mut ledgers = self.deductions.lock_ledgers();
        for (site, deducted) in uses {
            let at = ledgers.ledger_number(&site);
            ledgers.deduct_more(&key, at, deducted);
        }
        key
    }

    /// Ends the plan of a job that has decided, or changed; returns true if anything was deducted
    /// for it.
    pub(crate) fn end_plan_of_job(&self, job: JobId) -> bool {
        self.deductions
            .lock_ledgers()
            .end_plans_of_job(job, self.holder)
    }

    /// Lists the jobs of which a plan of this life lasted too long.
    pub(crate) fn take_expired_jobs(&self, now: Timestamp) -> Vec<JobId> {
        let mut ledgers = self.deductions.lock_ledgers();
        ledgers.end_expired(now);
        ledgers
            .take_lapsed_plans(self.holder)
            .into_iter()
            .map(|key| key.job)
            .collect()
    }
}

impl Drop for DeductionHolder {
    fn drop(&mut self) {
        self.deductions
            .lock_ledgers()
            .end_plans_of_holder(self.holder);
    }
}
