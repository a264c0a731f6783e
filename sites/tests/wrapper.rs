//! The wrapper by itself, under every POSIX shell that this machine has.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test program"
)]

#[path = "support/unprivileged.rs"]
mod unprivileged;

mod wrapper {
    mod attacks;
    mod batch;
    mod bell;
    pub mod bench;
    mod gate;
    mod payload;
    mod telling;
    mod words;
}
