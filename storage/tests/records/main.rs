//! Records: what is written is read back, and what an earlier version wrote too.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod draw;
mod golden;
mod jobs;
mod objects;
mod place;
