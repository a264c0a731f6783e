//! The one book of what is promised of sites and owned by no job yet, for all who promise.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::provisional::{Deducted, DeductionKey, DeductionLedger, Leak, PlanHolder};
use cospan_domain::units::{DurationMs, Timestamp};
use prometheus::IntGauge;

use crate::shared::Shared;

/// How long a deduction lasts that is neither committed nor rejected.
pub(crate) const LEASE: DurationMs = DurationMs(5_000);

/// The ledgers of all sites.
#[derive(Debug)]
pub struct Deductions {
    ledgers: Mutex<DeductionLedger>,
    /// Shows how many plans are open.
    open: IntGauge,
}

/// The ledgers, while nobody else has them. What is shown of them follows.
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

/// One life of an actor that makes plans: when it is dropped, nothing is deducted for them.
pub(crate) struct HolderLife {
    shared: Arc<Shared>,
    holder: PlanHolder,
}

impl Deductions {
    /// Empty ones, of which this shows how many plans are open.
    pub(crate) fn new(open: IntGauge) -> Self {
        Self {
            ledgers: Mutex::default(),
            open,
        }
    }

    pub(crate) fn lock(&self) -> LockedLedgers<'_> {
        let ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        LockedLedgers {
            ledgers,
            open: &self.open,
        }
    }

    /// What is deducted from a site.
    pub fn at(&self, site: &SiteName) -> Deducted {
        self.lock().at(site).cloned().unwrap_or_default()
    }

    /// Ends what lasted too long.
    pub(crate) fn expire(&self, now: Timestamp) {
        self.lock().expire(now);
    }

    /// How many plans are neither committed nor rejected.
    pub fn open(&self) -> usize {
        self.lock().len()
    }
}

impl HolderLife {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let holder = shared.deductions.lock().new_holder();
        Self { shared, holder }
    }

    /// A plan is being made for this job: until it ends, sites may deduct for it.
    pub(crate) fn open(&self, job: JobId, until: Timestamp) -> DeductionKey {
        let view = self.shared.view.load();
        let round = view
            .jobs
            .get(&job)
            .map_or_else(Default::default, |job| job.round);
        self.shared
            .deductions
            .lock()
            .open(job, round, self.holder, until)
    }

    /// Deducts what a plan for this job takes, until the job has decided on it.
    pub(crate) fn deduct(
        &self,
        job: JobId,
        now: Timestamp,
        uses: impl Iterator<Item = (SiteName, Deducted)>,
    ) -> DeductionKey {
        let key = self.open(job, now + LEASE);
        let mut ledgers = self.shared.deductions.lock();
        for (site, deducted) in uses {
            let at = ledgers.number_of(&site);
            ledgers.deduct_more(&key, at, deducted);
        }
        key
    }

    /// The job has decided, or is not what it was; whether anything was deducted for it.
    pub(crate) fn end_job(&self, job: JobId) -> bool {
        self.shared.deductions.lock().end_job(job, self.holder)
    }

    /// Jobs of which a plan of this life lasted too long.
    pub(crate) fn lapsed(&self, now: Timestamp) -> Vec<JobId> {
        let mut ledgers = self.shared.deductions.lock();
        ledgers.expire(now);
        ledgers
            .take_lapsed(self.holder)
            .into_iter()
            .map(|key| key.job)
            .collect()
    }
}

impl Drop for HolderLife {
    fn drop(&mut self) {
        self.shared.deductions.lock().end_holder(self.holder);
    }
}

impl Shared {
    /// What is deducted from sites and owned by no job: there must be nothing. A lease that
    /// was over just now is nobody's fault.
    pub fn provisional_leaks(&self) -> Vec<Leak> {
        let view = self.view.load();
        let now = self.clock.now();
        self.deductions
            .lock()
            .leaks(now - LEASE, |key: &DeductionKey| {
                view.jobs.get(&key.job).is_some_and(|job| !job.is_final())
            })
    }
}
