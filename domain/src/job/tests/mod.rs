//! The life of a job: stories, and random lives that must keep the rules.

mod abandon;
mod accounting_tests;
mod broken_rules;
mod changed;
mod claims;
mod common_start_tests;
mod cost;
mod deadlock_tests;
mod divided;
mod forward;
mod gone;
pub(crate) mod job_world;
mod later;
mod lives;
mod needed;
mod news;
mod notices;
mod outputs_tests;
mod queued;
mod quota;
mod ranked;
mod reservations;
mod restarts;
mod stories;
mod unreserved;
mod users;
