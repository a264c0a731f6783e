//! What a new user does first: pastes the blocks of the README, and runs the examples.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod examples;
mod newcomer;
mod readme;
mod starting;
