//! Supervised actors that carry out what the domain decides.
//!
//! Handlers translate, decide, journal, perform. Nothing is performed before it
//! is durable. The edge of the system talks to [`api`] only.

pub mod actor_registry;
pub mod actor_settings;
pub mod api;
mod awaited_inspections;
mod awaited_work;
pub mod catalogue;
pub mod chaos;
pub mod claimer;
pub mod clock;
pub mod coallocator;
pub mod commands;
pub mod commits;
pub mod committed;
pub mod context;
pub mod deductions;
mod durable_steps;
pub mod fair_turns;
pub mod grid_snapshot;
pub mod intake;
pub mod job;
pub mod journal;
pub mod link_measurements;
pub mod live_state;
pub mod metrics;
pub mod notifier;
pub mod process_end;
pub mod reserver;
pub mod seeded_random;
pub mod site;
pub mod spec_cache;
pub mod staging_deductions;
pub mod supervision;
pub mod transfer;
mod watched_state;
pub mod wiring;
#[cfg(test)]
mod wiring_tests;
