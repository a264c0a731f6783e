//! Rehearsing failures: an operator has faults injected into the calls to chosen
//! sites for a while, and reads what the control plane made of it.
//!
//! What is injected is what any site may do to its callers: requests and replies
//! lost, late, doubled or refused. The layer never lies about an attempt and never
//! changes anything at a site, so that jobs are as safe as they are without it.
//! Everything about a rehearsal is in memory and ends with the process: none
//! outlives a restart. Without `chaos.allowed` no site is wrapped at all.

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
