//! Chaos under virtual time: a seed draws a grid, users, and everything that goes
//! wrong; then the faults stop, and all must converge. Oracles read the world's
//! truth, and every change that became durable.

mod accounts;
mod attempt_lives;
pub mod campaign;
mod counters;
pub mod coverage;
mod crowds;
mod disks;
mod draw_faults;
mod draw_reservations;
mod draw_shared_reservations;
mod isolation;
mod judge_answers;
mod judge_convergence;
mod judge_endings;
mod judge_holds;
mod judge_leftovers;
mod judge_messages;
mod judge_reservations;
mod judge_shared_reservations;
mod judge_transitions;
mod peers;
mod preemptions;
mod queueing;
pub mod quiet_runs;
mod quotas;
pub mod rare_options;
mod rival;
pub mod run;
pub mod scenes;
pub mod seed_oracle;
pub mod seed_scenario;
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
mod unseen_commits;
mod users;
