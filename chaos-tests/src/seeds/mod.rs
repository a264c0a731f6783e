//! Chaos under virtual time: a seed draws a grid, users, and everything that goes
//! wrong; then the faults stop, and all must converge. Oracles read the world's
//! truth, and every change that became durable.

mod accounts;
mod answers;
pub mod campaign;
mod counters;
pub mod coverage;
mod crowds;
pub mod deaths;
mod disks;
mod endings;
mod heard;
mod history;
mod holds;
mod in_vain;
mod isolation;
pub mod oracle;
mod peers;
mod preemptions;
mod promised;
mod promises;
mod queueing;
mod quotas;
pub mod rare_options;
mod rest;
mod rival;
pub mod run;
pub mod scenario;
pub mod scenes;
mod shared_drawn;
mod sharing;
mod sites;
mod staging;
mod stalls;
mod starts;
mod starvation_guards;
mod supervision;
pub mod sweeps;
#[cfg(test)]
mod tests;
mod times;
mod troubles;
mod unseen;
mod users;
