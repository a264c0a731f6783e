//! What is promised of sites and owned by no job yet: provisional deductions.
//!
//! There is one ledger for each site, and all who promise anything of it read that. A deduction
//! belongs to a job, its round and one plan for it ([`DeductionKey`]), and to whoever made the
//! plan ([`PlanHolder`]). It ends in one of four ways: the plan is committed or rejected
//! ([`DeductionLedger::end`]), its holder dies ([`DeductionLedger::end_holder`]), or its lease is over
//! ([`DeductionLedger::expire`]). Nothing can be deducted for a plan that has ended, so that what
//! arrives late leaves nothing behind.

mod ledger;
mod ledgers;

pub use ledger::{Deducted, SiteDeductions};
pub use ledgers::{DeductionLedger, Leak, LedgerNumber};

use std::fmt;

use crate::ids::{JobId, Round};

/// One plan for one round of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeductionKey {
    /// The job.
    pub job: JobId,
    /// Its round when the plan was made.
    pub round: Round,
    /// The plan, told apart from all others since the start.
    pub plan: PlanNumber,
}

/// Tells plans apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PlanNumber(pub u64);

/// One life of an actor that makes plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PlanHolder(pub u64);

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
