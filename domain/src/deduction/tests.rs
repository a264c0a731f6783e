//! Whatever happens to plans, the ledgers agree with those that are open, and nothing leaks.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::ids::SiteName;
use crate::resources::{MEMORY, Resources};
use crate::units::Timestamp;

const SITES: [&str; 3] = ["Delft", "Leiden", "Utrecht"];

fn site(index: usize) -> SiteName {
    SiteName::new(SITES[index]).unwrap()
}

fn processors_and_memory(processors: u32, memory: u64) -> Resources {
    let others = [(MEMORY.into(), memory), ("disk_mb".into(), 2 * memory)];
    Resources {
        processors,
        others: others.into(),
    }
}

/// What may happen.
#[derive(Debug, Clone)]
enum DeductionStep {
    Open {
        job: u64,
        round: u32,
        holder: u64,
        lease: u64,
    },
    Deduct {
        plan: usize,
        site: usize,
        deducted: DeductedAmounts,
    },
    Release {
        plan: usize,
        site: usize,
    },
    End(usize),
    EndJob {
        job: u64,
        holder: u64,
    },
    HolderDies(u64),
    Pass(u64),
}

fn any_step() -> impl Strategy<Value = DeductionStep> {
    let deducted = (0..3u8, 1..9u32, 0..9u64).prop_map(|(kind, processors, memory)| {
        let some = processors_and_memory(processors, memory);
        match kind {
            0 => DeductedAmounts::for_proposal(some),
            1 => DeductedAmounts::for_claim(some),
            _ => DeductedAmounts::for_moved_claim(some),
        }
    });
    prop_oneof![
        4 => (0..4u64, 0..2u32, 1..4u64, 1..60u64)
            .prop_map(|(job, round, holder, lease)| DeductionStep::Open { job, round, holder, lease }),
        8 => (0..20usize, 0..3usize, deducted)
            .prop_map(|(plan, site, deducted)| DeductionStep::Deduct { plan, site, deducted }),
        2 => (0..20usize, 0..3usize).prop_map(|(plan, site)| DeductionStep::Release { plan, site }),
        2 => (0..20usize).prop_map(DeductionStep::End),
        1 => (0..4u64, 1..4u64).prop_map(|(job, holder)| DeductionStep::EndJob { job, holder }),
        1 => (1..4u64).prop_map(DeductionStep::HolderDies),
        2 => (1..20u64).prop_map(DeductionStep::Pass),
    ]
}

/// What the ledgers must say, the plain way.
#[derive(Default)]
struct DeductionModel {
    now: u64,
    made: Vec<DeductionKey>,
    open: BTreeMap<DeductionKey, (u64, u64)>,
    deducted: BTreeMap<(DeductionKey, usize), DeductedAmounts>,
}

impl DeductionModel {
    fn keep_open_plans(&mut self, kept: impl Fn(&DeductionKey, u64, u64) -> bool) {
        self.open
            .retain(|key, (holder, until)| kept(key, *holder, *until));
        let open = &self.open;
        self.deducted.retain(|(key, _), _| open.contains_key(key));
    }

    fn apply_step(&mut self, ledgers: &mut DeductionLedger, step: DeductionStep) {
        let known = |made: &Vec<DeductionKey>, plan: usize| made.get(plan).copied();
        match step {
            DeductionStep::Open {
                job,
                round,
                holder,
                lease,
            } => {
                let until = Timestamp(self.now + lease);
                let key = ledgers.open_plan(JobId(job), Round(round), PlannerLife(holder), until);
                self.open.insert(key, (holder, until.0));
                self.made.push(key);
            }
            DeductionStep::Deduct {
                plan,
                site: at,
                deducted,
            } => {
                let Some(key) = known(&self.made, plan) else {
                    return;
                };
                let is_open = self.open.contains_key(&key);
                assert_eq!(deduct_at_site(ledgers, &key, at, deducted.clone()), is_open);
                if is_open {
                    self.deducted.insert((key, at), deducted);
                }
            }
            DeductionStep::Release { plan, site: at } => {
                let Some(key) = known(&self.made, plan) else {
                    return;
                };
                let at_site = ledgers.ledger_number(&site(at));
                ledgers.release_site(&key, at_site);
                self.deducted.remove(&(key, at));
            }
            DeductionStep::End(plan) => {
                let Some(key) = known(&self.made, plan) else {
                    return;
                };
                assert_eq!(ledgers.end_plan(&key), self.open.contains_key(&key));
                self.keep_open_plans(|other, _, _| *other != key);
            }
            DeductionStep::EndJob { job, holder } => {
                ledgers.end_plans_of_job(JobId(job), PlannerLife(holder));
                self.keep_open_plans(|key, by, _| key.job.0 != job || by != holder);
            }
            DeductionStep::HolderDies(holder) => {
                ledgers.end_plans_of_holder(PlannerLife(holder));
                self.keep_open_plans(|_, by, _| by != holder);
            }
            DeductionStep::Pass(time) => {
                self.now += time;
                ledgers.end_expired(Timestamp(self.now));
                let now = self.now;
                self.keep_open_plans(|_, _, until| until > now);
            }
        }
    }
}

fn deduct_at_site(
    ledgers: &mut DeductionLedger,
    key: &DeductionKey,
    at: usize,
    deducted: DeductedAmounts,
) -> bool {
    let number = ledgers.ledger_number(&site(at));
    ledgers.deduct(key, number, deducted)
}

fn without_zeros(resources: &Resources) -> Resources {
    let mut plain = resources.clone();
    plain.others.retain(|_, count| *count > 0);
    plain
}

proptest! {
    #[test]
    fn whatever_happens_the_ledgers_are_the_sum_of_open_plans(
        steps in prop::collection::vec(any_step(), 0..80),
    ) {
        let mut ledgers = DeductionLedger::default();
        let mut model = DeductionModel::default();
        for step in steps {
            model.apply_step(&mut ledgers, step);
            for at in 0..SITES.len() {
                let mut sum = DeductedAmounts::default();
                let here = model.deducted.iter().filter(|((_, site), _)| *site == at);
                here.for_each(|(_, deducted)| sum.add_deducted(deducted));
                let told = ledgers.total_deducted_at(&site(at)).cloned().unwrap_or_default();
                prop_assert_eq!(without_zeros(&told.placing), without_zeros(&sum.placing));
                prop_assert_eq!(without_zeros(&told.claiming), without_zeros(&sum.claiming));
            }
            prop_assert_eq!(ledgers.len(), model.open.len());
            let leaks = ledgers.find_leaks(Timestamp(model.now), |_| true);
            prop_assert!(leaks.is_empty(), "{:?}", leaks);
            let next = model.open.values().map(|(_, until)| Timestamp(*until)).min();
            prop_assert_eq!(ledgers.next_lease_end(), next);
        }
        // Everybody dies: nothing is left.
        (1..4).for_each(|holder| ledgers.end_plans_of_holder(PlannerLife(holder)));
        prop_assert!(ledgers.is_empty());
        for at in 0..SITES.len() {
            prop_assert!(ledgers.total_deducted_at(&site(at)).is_none_or(|sum| *sum == DeductedAmounts::default()));
        }
    }
}

fn open_test_plan(ledgers: &mut DeductionLedger, job: u64, until: u64) -> DeductionKey {
    let holder = ledgers.register_holder();
    ledgers.open_plan(JobId(job), Round(0), holder, Timestamp(until))
}

#[test]
fn the_same_plan_deducts_nothing_twice_and_after_its_end_nothing() {
    let mut ledgers = DeductionLedger::default();
    let key = open_test_plan(&mut ledgers, 1, 5_000);
    let six = || DeductedAmounts::for_proposal(Resources::processors(6));
    let first = ledgers.ledger_number(&site(0));
    assert!(ledgers.deduct(&key, first, six()) && ledgers.deduct(&key, first, six()));
    let free = |ledgers: &DeductionLedger| {
        ledgers
            .total_deducted_at(&site(0))
            .map(|sum| 10 - sum.placing.processors)
    };
    assert_eq!(free(&ledgers), Some(4));
    assert!(ledgers.deduct_more(&key, first, six()));
    assert_eq!(
        ledgers.deducted_for_plan(&key, &site(0)),
        Some(&DeductedAmounts::for_proposal(processors_only(12)))
    );
    assert!(
        !ledgers.is_acknowledged(&key, &site(0)) && ledgers.deduct_acknowledged(&key, first, six())
    );
    assert!(ledgers.is_acknowledged(&key, &site(0)) && !ledgers.is_acknowledged(&key, &site(1)));
    assert!(ledgers.end_plan(&key) && !ledgers.end_plan(&key));
    assert!(
        !ledgers.is_acknowledged(&key, &site(0))
            && !ledgers.deduct_acknowledged(&key, first, six())
    );
    assert!(
        !ledgers.deduct(&key, first, six()),
        "a site that answers too late"
    );
    assert_eq!(free(&ledgers), Some(10));
}

fn processors_only(processors: u32) -> Resources {
    Resources::processors(processors)
}

#[test]
fn a_deduction_that_nobody_ends_is_over_with_its_lease() {
    let mut ledgers = DeductionLedger::default();
    let key = open_test_plan(&mut ledgers, 1, 5_000);
    deduct_at_site(
        &mut ledgers,
        &key,
        1,
        DeductedAmounts::for_moved_claim(processors_only(3)),
    );
    assert_eq!(ledgers.next_lease_end(), Some(Timestamp(5_000)));
    ledgers.end_expired(Timestamp(4_999));
    assert!(ledgers.is_plan_open(&key) && ledgers.take_lapsed_plans(PlannerLife(1)).is_empty());
    assert_eq!(
        ledgers.find_leaks(Timestamp(5_001), |_| true).len(),
        1,
        "until somebody looks"
    );
    ledgers.end_expired(Timestamp(5_000));
    assert_eq!(ledgers.take_lapsed_plans(PlannerLife(1)), [key]);
    assert!(
        ledgers.take_lapsed_plans(PlannerLife(1)).is_empty(),
        "told once"
    );
    assert_eq!(
        ledgers.total_deducted_at(&site(1)),
        Some(&DeductedAmounts::default())
    );
    let longer = open_test_plan(&mut ledgers, 2, 1_000);
    assert!(
        ledgers.extend_lease(&longer, Timestamp(9_000))
            && !ledgers.extend_lease(&key, Timestamp(9_000))
    );
    ledgers.end_expired(Timestamp(8_999));
    assert!(ledgers.is_plan_open(&longer));
}

#[test]
fn what_is_deducted_for_a_job_that_is_gone_is_a_leak() {
    let mut ledgers = DeductionLedger::default();
    let key = open_test_plan(&mut ledgers, 7, 5_000);
    let deducted = DeductedAmounts::for_claim(processors_and_memory(2, 10));
    deduct_at_site(&mut ledgers, &key, 2, deducted.clone());
    assert!(ledgers.find_leaks(Timestamp(0), |_| true).is_empty());
    let leaks = ledgers.find_leaks(Timestamp(0), |key| key.job != JobId(7));
    assert_eq!(
        leaks,
        [LeakedDeduction {
            key,
            site: site(2),
            deducted: deducted.clone()
        }]
    );
    assert_eq!(ledgers.deducted_for_job(&site(2), JobId(7)), deducted);
    assert_eq!(key.to_string(), "plan 1 for round 0 of job 7");
}
