//! Rehearsals of failures: an operator injects faults into the calls to chosen sites for a while,
//! and reads how the control plane coped.
//!
//! The faults are those that any site may cause for its callers: requests and replies lost, late,
//! doubled or refused. The layer never lies about an attempt and never changes anything at a site,
//! so jobs are as safe as without it. Everything about a rehearsal is in memory and ends with the
//! process: no rehearsal outlives a restart. Without `chaos.allowed` no site is wrapped at all.

pub mod fault_plan;
mod injectable_faults;
mod plan_check;
mod rehearsal;
mod rehearsal_effects;
mod rehearsal_metrics;
mod rehearsal_run;
mod rehearsals;
#[cfg(test)]
mod tests;

pub use plan_check::{PlanBounds, PlanFlaw};
pub use rehearsal_metrics::ChaosMetrics;
pub use rehearsals::{FaultHandles, RehearsalLimits, RehearsalRefusal, Rehearsals, wrap_sites};
