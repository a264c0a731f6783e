//! The life of a job: stories, and random lives that must keep the rules.

mod abandon;
mod accounting;
mod changed;
mod claims;
mod common_start;
mod cost;
mod deadlock;
mod divided;
mod forward;
mod gone;
mod later;
mod lives;
mod needed;
mod news;
mod notices;
mod outputs;
mod queued;
mod quota;
mod ranked;
mod reservations;
mod restarts;
mod stories;
mod unreserved;
mod users;
pub(crate) mod world;
