//! Crashes and damage: what was acknowledged is there, or its absence is noticed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "what was seen belongs into the report")]
#![cfg(any(feature = "sled", feature = "redb"))]

mod child;
mod damage;
mod history;
mod kill;
mod refusals;
mod trace;
mod watch;
