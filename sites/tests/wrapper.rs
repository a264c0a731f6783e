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
    mod batch;
    pub mod bench;
    mod gate_tests;
    mod payload;
    mod telling;
    mod words;
    mod wrapper_attack_tests;
    mod wrapper_bell_tests;
}
