//! The deductions from all sites, and the plans that they are for.

use std::collections::{BTreeMap, BTreeSet};

use super::site_deductions::DeductionEntry;
use super::{DeductedAmounts, DeductionKey, PlanNumber, PlannerLife, SiteDeductions};
use crate::ids::{JobId, Round, SiteName};
use crate::units::Timestamp;

/// The deductions from all sites.
#[derive(Debug, Clone, Default)]
pub struct DeductionLedger {
    /// Sites in the order in which they were first named.
    sites: Vec<(SiteName, SiteDeductions)>,
    numbers: BTreeMap<SiteName, SiteLedgerNumber>,
    plans: BTreeMap<DeductionKey, UncommittedPlan>,
    by_lease: BTreeSet<(Timestamp, DeductionKey)>,
    /// Plans whose lease ended and whose holder does not know it yet.
    lapsed: BTreeMap<PlannerLife, Vec<DeductionKey>>,
    last_plan: u64,
    last_holder: u64,
}

/// The number of a site's ledger, valid as long as these ledgers last: it saves repeated lookups by
/// name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteLedgerNumber(usize);

/// A plan that is neither committed nor rejected.
#[derive(Debug, Clone)]
struct UncommittedPlan {
    holder: PlannerLife,
    until: Timestamp,
    /// The sites with possible deductions for it.
    sites: Vec<SiteLedgerNumber>,
}

/// A deduction that nobody will end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeakedDeduction {
    /// The plan that it was made for.
    pub key: DeductionKey,
    pub site: SiteName,
    pub deducted: DeductedAmounts,
}

impl DeductionLedger {
    /// Registers a new life of an actor that makes plans.
    pub fn register_holder(&mut self) -> PlannerLife {
        self.last_holder += 1;
        PlannerLife(self.last_holder)
    }

    /// Opens a plan for this round of a job: until it ends, and at most until `until`, sites may
    /// deduct for it.
    pub fn open_plan(
        &mut self,
        job: JobId,
        round: Round,
        holder: PlannerLife,
        until: Timestamp,
    ) -> DeductionKey {
        self.last_plan += 1;
        let key = DeductionKey {
            job,
            round,
            plan: PlanNumber(self.last_plan),
        };
        self.plans.insert(
            key,
            UncommittedPlan {
                holder,
                until,
                sites: Vec::new(),
            },
        );
        self.by_lease.insert((until, key));
        key
    }

    /// Extends the plan's lease; returns true if it is still open.
    pub fn extend_lease(&mut self, key: &DeductionKey, until: Timestamp) -> bool {
        let Some(open) = self.plans.get_mut(key) else {
            return false;
        };
        self.by_lease.remove(&(open.until, *key));
        self.by_lease.insert((until, *key));
        open.until = until;
        true
    }

    /// Returns the number of this site's ledger.
    pub fn ledger_number(&mut self, site: &SiteName) -> SiteLedgerNumber {
        if let Some(number) = self.numbers.get(site) {
            return *number;
        }
        let number = SiteLedgerNumber(self.sites.len());
        self.sites.push((site.clone(), SiteDeductions::default()));
        self.numbers.insert(site.clone(), number);
        number
    }

    /// Deducts for an open plan, in place of any earlier deduction for it at the site. Returns
    /// false, and deducts nothing, if the plan is no longer open.
    pub fn deduct(
        &mut self,
        key: &DeductionKey,
        site: SiteLedgerNumber,
        deducted: DeductedAmounts,
    ) -> bool {
        self.set_deduction(
            key,
            site,
            DeductionEntry {
                deducted,
                is_held: false,
            },
        )
    }

    /// Does the same as [`DeductionLedger::deduct`], and records that the site has
    /// acknowledged the plan.
    pub fn deduct_acknowledged(
        &mut self,
        key: &DeductionKey,
        site: SiteLedgerNumber,
        deducted: DeductedAmounts,
    ) -> bool {
        self.set_deduction(
            key,
            site,
            DeductionEntry {
                deducted,
                is_held: true,
            },
        )
    }

    fn set_deduction(
        &mut self,
        key: &DeductionKey,
        site: SiteLedgerNumber,
        entry: DeductionEntry,
    ) -> bool {
        let Some(open) = self.plans.get_mut(key) else {
            return false;
        };
        let Some((_, ledger)) = self.sites.get_mut(site.0) else {
            return false;
        };
        if ledger.set_entry(*key, entry) {
            open.sites.push(site);
        }
        true
    }

    /// Returns true if the site has acknowledged that the plan goes there: lost acknowledgements
    /// are recovered from this.
    pub fn is_acknowledged(&self, key: &DeductionKey, site: &SiteName) -> bool {
        self.deductions_at(site)
            .is_some_and(|ledger| ledger.is_acknowledged_for(key))
    }

    /// Adds to the deduction for an open plan at a site.
    pub fn deduct_more(
        &mut self,
        key: &DeductionKey,
        site: SiteLedgerNumber,
        mut more: DeductedAmounts,
    ) -> bool {
        if let Some(before) = self
            .deductions_by_number(site)
            .and_then(|ledger| ledger.deducted_for(key))
        {
            more.add_deducted(before);
        }
        self.deduct(key, site, more)
    }

    /// Removes the deduction for a plan at a site.
    pub fn release_site(&mut self, key: &DeductionKey, site: SiteLedgerNumber) {
        if let Some((_, ledger)) = self.sites.get_mut(site.0) {
            ledger.remove_entry(key);
        }
    }

    /// Ends a plan that is committed or rejected; returns true if it was open.
    pub fn end_plan(&mut self, key: &DeductionKey) -> bool {
        let Some(open) = self.plans.remove(key) else {
            return false;
        };
        self.by_lease.remove(&(open.until, *key));
        for site in open.sites {
            self.release_site(key, site);
        }
        true
    }

    /// Ends all plans of a job that this holder made; returns true if there were any.
    pub fn end_plans_of_job(&mut self, job: JobId, holder: PlannerLife) -> bool {
        let least = DeductionKey {
            job,
            round: Round(0),
            plan: PlanNumber(0),
        };
        let of_job = self
            .plans
            .range(least..)
            .take_while(|(key, _)| key.job == job);
        let ended = of_job
            .filter(|(_, open)| open.holder == holder)
            .map(|(key, _)| *key);
        let ended: Vec<DeductionKey> = ended.collect();
        for key in &ended {
            self.end_plan(key);
        }
        !ended.is_empty()
    }

    /// Ends all plans of a holder whose life is over: nobody waits for them.
    pub fn end_plans_of_holder(&mut self, holder: PlannerLife) {
        let of_holder = self.plans.iter().filter(|(_, open)| open.holder == holder);
        let ended: Vec<DeductionKey> = of_holder.map(|(key, _)| *key).collect();
        for key in &ended {
            self.end_plan(key);
        }
        self.lapsed.remove(&holder);
    }

    /// Ends plans whose lease is over; holders learn of them by [`DeductionLedger::take_lapsed_plans`].
    pub fn end_expired(&mut self, now: Timestamp) {
        while let Some(&(until, key)) = self.by_lease.first().filter(|(until, _)| *until <= now) {
            if let Some(open) = self.plans.get(&key) {
                self.lapsed.entry(open.holder).or_default().push(key);
            }
            self.end_plan(&key);
            self.by_lease.remove(&(until, key));
        }
    }

    /// Takes this holder's plans that ended with their lease since the last call.
    pub fn take_lapsed_plans(&mut self, holder: PlannerLife) -> Vec<DeductionKey> {
        self.lapsed.remove(&holder).unwrap_or_default()
    }

    /// Returns when the next lease ends.
    pub fn next_lease_end(&self) -> Option<Timestamp> {
        self.by_lease.first().map(|(until, _)| *until)
    }

    pub fn deductions_by_number(&self, site: SiteLedgerNumber) -> Option<&SiteDeductions> {
        self.sites.get(site.0).map(|(_, ledger)| ledger)
    }

    fn deductions_at(&self, site: &SiteName) -> Option<&SiteDeductions> {
        self.numbers
            .get(site)
            .and_then(|number| self.deductions_by_number(*number))
    }

    /// Returns all that is deducted from a site.
    pub fn total_deducted_at(&self, site: &SiteName) -> Option<&DeductedAmounts> {
        self.deductions_at(site).map(SiteDeductions::total_deducted)
    }

    /// Returns what is deducted from a site for one job.
    pub fn deducted_for_job(&self, site: &SiteName, job: JobId) -> DeductedAmounts {
        let mut sum = DeductedAmounts::default();
        let entries = self
            .deductions_at(site)
            .into_iter()
            .flat_map(SiteDeductions::entries);
        entries
            .filter(|(key, _)| key.job == job)
            .for_each(|(_, deducted)| sum.add_deducted(deducted));
        sum
    }

    /// Returns what is deducted from a site for a plan.
    pub fn deducted_for_plan(
        &self,
        key: &DeductionKey,
        site: &SiteName,
    ) -> Option<&DeductedAmounts> {
        self.deductions_at(site)?.deducted_for(key)
    }

    /// Returns true if the plan is neither committed nor rejected, and its lease has not ended.
    pub fn is_plan_open(&self, key: &DeductionKey) -> bool {
        self.plans.contains_key(key)
    }

    /// Returns the number of open plans.
    pub fn len(&self) -> usize {
        self.plans.len()
    }

    /// Returns true if no plan is open.
    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    /// Lists deductions that no job owns: for a plan that has ended, for one whose lease was over
    /// by `now`, or for one that no job `owns` any more. There must be none.
    pub fn find_leaks(
        &self,
        now: Timestamp,
        owns: impl Fn(&DeductionKey) -> bool,
    ) -> Vec<LeakedDeduction> {
        let all = self.sites.iter().flat_map(|(site, ledger)| {
            ledger
                .entries()
                .map(move |(key, deducted)| (site, key, deducted))
        });
        let leaks = all.filter(|(_, key, _)| {
            let plan = self.plans.get(*key);
            let is_owned = plan.is_some_and(|open| open.until >= now) && owns(key);
            !is_owned
        });
        leaks
            .map(
                |(site, key, deducted): (&SiteName, &DeductionKey, &DeductedAmounts)| {
                    LeakedDeduction {
                        key: *key,
                        site: site.clone(),
                        deducted: deducted.clone(),
                    }
                },
            )
            .collect()
    }
}
