//! Runs the real control plane over a simulated world under virtual time: the actors, the domain
//! and the journal's core are those of the server. Only the world, time and random numbers are
//! simulated. One arbiter, no thread, no file, no socket: but in [`simulate`], which begins many such
//! worlds, and reads and writes files around them.

pub mod actor_lives;
pub mod call_faults;
pub mod clock;
pub mod control_plane_run;
#[cfg(test)]
mod disk_tests;
#[cfg(test)]
mod divided_tests;
#[cfg(test)]
mod estimate_tests;
pub mod experiment;
pub mod fault_kinds;
pub mod fault_tally;
pub mod flexco;
pub mod jobs;
pub mod journal;
pub mod journal_hash;
pub mod kill_switch;
#[cfg(test)]
mod latency_tests;
pub mod models;
pub mod panics;
#[cfg(test)]
mod probe_tests;
#[cfg(test)]
mod queued_at_site_tests;
#[cfg(test)]
mod ranking_tests;
#[cfg(test)]
mod rescheduling_tests;
pub mod reservation_usage;
#[cfg(test)]
mod restart_tests;
#[cfg(test)]
mod retention_tests;
pub mod settings;
#[cfg(test)]
mod shared_tests;
pub mod simulate;
mod site;
#[cfg(test)]
mod site_tests;
mod slurm_site;
#[cfg(test)]
mod slurm_tests;
pub mod stalls;
#[cfg(test)]
mod stalls_tests;
#[cfg(test)]
mod sweep_tests;
pub mod world;
pub mod world_handle;
