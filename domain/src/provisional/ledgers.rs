//! The ledgers of all sites, and the plans that they are about.

use std::collections::{BTreeMap, BTreeSet};

use super::ledger::DeductionEntry;
use super::{Deducted, DeductionKey, PlanHolder, PlanNumber, SiteDeductions};
use crate::ids::{JobId, Round, SiteName};
use crate::units::Timestamp;

/// The ledgers of all sites.
#[derive(Debug, Clone, Default)]
pub struct DeductionLedger {
    /// In the order in which they were first named.
    sites: Vec<(SiteName, SiteDeductions)>,
    numbers: BTreeMap<SiteName, LedgerNumber>,
    plans: BTreeMap<DeductionKey, OpenPlan>,
    by_lease: BTreeSet<(Timestamp, DeductionKey)>,
    /// Plans whose lease was over, of which their holder was not told yet.
    lapsed: BTreeMap<PlanHolder, Vec<DeductionKey>>,
    last_plan: u64,
    last_holder: u64,
}

/// Which ledger is a site's, for as long as these ledgers last: who asks for the same one again
/// and again need not look for its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerNumber(usize);

/// A plan that is neither committed nor rejected.
#[derive(Debug, Clone)]
struct OpenPlan {
    holder: PlanHolder,
    until: Timestamp,
    /// Where something may be deducted for it.
    sites: Vec<LedgerNumber>,
}

/// A deduction that nobody will end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leak {
    /// For what it was made.
    pub key: DeductionKey,
    /// From which site.
    pub site: SiteName,
    /// How much.
    pub deducted: Deducted,
}

impl DeductionLedger {
    /// Somebody who makes plans begins a life.
    pub fn new_holder(&mut self) -> PlanHolder {
        self.last_holder += 1;
        PlanHolder(self.last_holder)
    }

    /// A plan is being made for this round of a job: until it ends, and at most until then,
    /// sites may deduct for it.
    pub fn open(
        &mut self,
        job: JobId,
        round: Round,
        holder: PlanHolder,
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
            OpenPlan {
                holder,
                until,
                sites: Vec::new(),
            },
        );
        self.by_lease.insert((until, key));
        key
    }

    /// The plan's lease lasts until then; whether it is still open.
    pub fn extend(&mut self, key: &DeductionKey, until: Timestamp) -> bool {
        let Some(open) = self.plans.get_mut(key) else {
            return false;
        };
        self.by_lease.remove(&(open.until, *key));
        self.by_lease.insert((until, *key));
        open.until = until;
        true
    }

    /// Which ledger is this site's.
    pub fn number_of(&mut self, site: &SiteName) -> LedgerNumber {
        if let Some(number) = self.numbers.get(site) {
            return *number;
        }
        let number = LedgerNumber(self.sites.len());
        self.sites.push((site.clone(), SiteDeductions::default()));
        self.numbers.insert(site.clone(), number);
        number
    }

    /// Deducts this for an open plan, in place of what was deducted for it at the site before;
    /// whether it is still open. Else nothing is deducted.
    pub fn deduct(&mut self, key: &DeductionKey, site: LedgerNumber, deducted: Deducted) -> bool {
        self.set(
            key,
            site,
            DeductionEntry {
                deducted,
                is_held: false,
            },
        )
    }

    /// The same, where the site acknowledges that the plan goes there.
    pub fn hold(&mut self, key: &DeductionKey, site: LedgerNumber, deducted: Deducted) -> bool {
        self.set(
            key,
            site,
            DeductionEntry {
                deducted,
                is_held: true,
            },
        )
    }

    fn set(&mut self, key: &DeductionKey, site: LedgerNumber, entry: DeductionEntry) -> bool {
        let Some(open) = self.plans.get_mut(key) else {
            return false;
        };
        let Some((_, ledger)) = self.sites.get_mut(site.0) else {
            return false;
        };
        if ledger.set(*key, entry) {
            open.sites.push(site);
        }
        true
    }

    /// Whether the site has acknowledged that the plan goes there: by this a lost
    /// acknowledgement is looked up.
    pub fn is_held(&self, key: &DeductionKey, site: &SiteName) -> bool {
        self.named(site).is_some_and(|ledger| ledger.is_held(key))
    }

    /// Adds to what is deducted for an open plan at a site.
    pub fn deduct_more(
        &mut self,
        key: &DeductionKey,
        site: LedgerNumber,
        mut more: Deducted,
    ) -> bool {
        if let Some(before) = self.ledger(site).and_then(|ledger| ledger.get(key)) {
            more.add(before);
        }
        self.deduct(key, site, more)
    }

    /// The plan needs nothing of this site.
    pub fn release(&mut self, key: &DeductionKey, site: LedgerNumber) {
        if let Some((_, ledger)) = self.sites.get_mut(site.0) {
            ledger.remove(key);
        }
    }

    /// A plan is committed or rejected; whether it was open.
    pub fn end(&mut self, key: &DeductionKey) -> bool {
        let Some(open) = self.plans.remove(key) else {
            return false;
        };
        self.by_lease.remove(&(open.until, *key));
        for site in open.sites {
            self.release(key, site);
        }
        true
    }

    /// All plans of a job that this holder made are committed or rejected; whether there were
    /// any.
    pub fn end_job(&mut self, job: JobId, holder: PlanHolder) -> bool {
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
            self.end(key);
        }
        !ended.is_empty()
    }

    /// A life is over: nobody waits for what it planned.
    pub fn end_holder(&mut self, holder: PlanHolder) {
        let of_holder = self.plans.iter().filter(|(_, open)| open.holder == holder);
        let ended: Vec<DeductionKey> = of_holder.map(|(key, _)| *key).collect();
        for key in &ended {
            self.end(key);
        }
        self.lapsed.remove(&holder);
    }

    /// Ends plans whose lease is over; their holders are told by [`DeductionLedger::take_lapsed`].
    pub fn expire(&mut self, now: Timestamp) {
        while let Some(&(until, key)) = self.by_lease.first().filter(|(until, _)| *until <= now) {
            if let Some(open) = self.plans.get(&key) {
                self.lapsed.entry(open.holder).or_default().push(key);
            }
            self.end(&key);
            self.by_lease.remove(&(until, key));
        }
    }

    /// Plans of this holder that ended with their lease since it asked last.
    pub fn take_lapsed(&mut self, holder: PlanHolder) -> Vec<DeductionKey> {
        self.lapsed.remove(&holder).unwrap_or_default()
    }

    /// When the next lease is over.
    pub fn next_end(&self) -> Option<Timestamp> {
        self.by_lease.first().map(|(until, _)| *until)
    }

    /// A ledger by its number.
    pub fn ledger(&self, site: LedgerNumber) -> Option<&SiteDeductions> {
        self.sites.get(site.0).map(|(_, ledger)| ledger)
    }

    fn named(&self, site: &SiteName) -> Option<&SiteDeductions> {
        self.numbers
            .get(site)
            .and_then(|number| self.ledger(*number))
    }

    /// All that is deducted from a site.
    pub fn at(&self, site: &SiteName) -> Option<&Deducted> {
        self.named(site).map(SiteDeductions::sum)
    }

    /// What is deducted from a site for one job.
    pub fn of_job(&self, site: &SiteName, job: JobId) -> Deducted {
        let mut sum = Deducted::default();
        let entries = self
            .named(site)
            .into_iter()
            .flat_map(SiteDeductions::entries);
        entries
            .filter(|(key, _)| key.job == job)
            .for_each(|(_, deducted)| sum.add(deducted));
        sum
    }

    /// What is deducted from a site for a plan.
    pub fn held(&self, key: &DeductionKey, site: &SiteName) -> Option<&Deducted> {
        self.named(site)?.get(key)
    }

    /// Whether the plan is neither committed nor rejected, and its lease not over.
    pub fn is_open(&self, key: &DeductionKey) -> bool {
        self.plans.contains_key(key)
    }

    /// How many plans are open.
    pub fn len(&self) -> usize {
        self.plans.len()
    }

    /// Whether no plan is open.
    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    /// What is deducted and owned by no job: for a plan that has ended, for one whose lease
    /// was over by `now`, or for a job that `owns` none any more. There must be nothing.
    pub fn leaks(&self, now: Timestamp, owns: impl Fn(&DeductionKey) -> bool) -> Vec<Leak> {
        let is_owned = |key: &DeductionKey| {
            self.plans.get(key).is_some_and(|open| open.until >= now) && owns(key)
        };
        let all = self.sites.iter().flat_map(|(site, ledger)| {
            ledger
                .entries()
                .map(move |(key, deducted)| (site, key, deducted))
        });
        let leaks = all.filter(|(_, key, _)| !is_owned(key));
        leaks
            .map(
                |(site, key, deducted): (&SiteName, &DeductionKey, &Deducted)| Leak {
                    key: *key,
                    site: site.clone(),
                    deducted: deducted.clone(),
                },
            )
            .collect()
    }
}
