//! Sites as the control plane sees them: one port, and an adapter per kind of
//! batch system. Every adapter passes the same contract suite.
//!
//! The adapters translate and never decide. What they cannot know for certain they report as
//! unknown: unknown is not failed.

mod agent;
pub mod attempt_end;
mod blocking_calls;
pub mod clock;
#[cfg(feature = "contract")]
pub mod contract;
pub mod examination;
pub mod exec;
pub mod faulty_site;
pub mod files;
pub mod local_site;
pub mod ping;
pub mod port;
mod removal;
pub mod root_place;
pub mod slurm_site;
pub mod slurm_testbed;
pub mod wrapper;

pub use removal::remove_tree;
