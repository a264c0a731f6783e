//! Provisional deductions: what is set aside at sites for plans, and owned by no job yet.
//!
//! Each site has one ledger, read by all who hand out anything of it. A deduction belongs to a job,
//! its round and one plan for it ([`DeductionKey`]), and to whoever made the plan
//! ([`PlannerLife`]). It ends in one of four ways: the plan is committed or rejected
//! ([`DeductionLedger::end_plan`]), its holder dies ([`DeductionLedger::end_plans_of_holder`]), or
//! its lease is over ([`DeductionLedger::end_expired`]). Nothing can be deducted for a plan that
//! has ended, so that late messages leave nothing behind.

mod deduction_ledger;
mod site_deductions;

pub use deduction_ledger::{DeductionLedger, LeakedDeduction, SiteLedgerNumber};
pub use site_deductions::{DeductedAmounts, SiteDeductions};

use std::fmt;

use crate::ids::{JobId, Round};

/// The key of a plan for one round of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeductionKey {
    pub job: JobId,
    /// The round for which the plan was made.
    pub round: Round,
    /// The plan, distinct from all others since the start.
    pub plan: PlanNumber,
}

/// The number of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PlanNumber(pub u64);

/// A life of an actor that makes plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PlannerLife(pub u64);

impl fmt::Display for DeductionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "plan {} for round {} of job {}",
            self.plan.0, self.round, self.job
        )
    }
}

#[cfg(test)]
mod tests;
