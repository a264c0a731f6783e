//! Rehearsals of failures: an operator injects faults into the calls to chosen sites for a while,
//! and reads how the control plane coped.
//!
//! The faults are those that any site may cause for its callers: requests and replies lost, late,
//! doubled or refused. The layer never lies about an attempt and never changes anything at a site,
//! so jobs are as safe as without it. Everything about a rehearsal is in memory and ends with the
//! process: no rehearsal outlives a restart. Without `chaos.allowed` no site is wrapped at all.

mod conduct;
mod deeds;
mod judge;
mod kinds;
mod metrics;
pub mod plan;
mod rehearsal;
mod stage;
#[cfg(test)]
mod tests;

pub use conduct::{Handles, RehearsalLimits, RehearsalRefusal, Rehearsals, wrap};
pub use judge::{Flaw, Grounds};
pub use metrics::ChaosMetrics;
