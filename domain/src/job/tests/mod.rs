//! The life of a job: stories, and random lives that must keep the rules.

mod abandon;
mod accounting;
mod claims;
mod common_start;
mod deadlock;
mod forward;
mod lives;
mod news;
mod outputs;
mod queued;
mod reservations;
mod restarts;
mod stories;
mod users;
pub(crate) mod world;
