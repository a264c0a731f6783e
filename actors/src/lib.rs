//! Supervised actors that carry out what the domain decides.
//!
//! Handlers translate, decide, journal, perform. Nothing is performed before it
//! is durable. The edge of the system talks to [`api`] only.

pub mod actor_registry;
pub mod api;
pub mod chance;
pub mod chaos;
pub mod claimer;
pub mod clock;
pub mod cluster;
pub mod coallocator;
pub mod deductions;
pub mod information;
pub mod intake;
pub mod job;
pub mod journal;
pub mod links;
pub mod live_state;
pub mod metrics;
pub mod notifier;
mod published;
pub mod settings;
pub mod shared;
pub mod sharing;
mod steps;
pub mod supervision;
pub mod transfer;
pub mod wiring;
#[cfg(test)]
mod wiring_tests;
