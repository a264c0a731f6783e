//! Kills the real server at random moments under load, plays faults of sites,
//! and judges what is left. Crash points need a chaos build: `cospan-chaos points`.
//!
//! The small budget runs with every `cargo test`. `COSPAN_KILLS` asks for more
//! (CI: at least 200; every state must then have been struck often enough), and
//! `COSPAN_CHAOS_SEED` draws the same run again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(
    clippy::print_stdout,
    reason = "the seed and the table belong to the result"
)]

use std::path::PathBuf;

use cospan_chaos_tests::faults;
use cospan_chaos_tests::kills::{self, KillOptions};

fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_server_killed_at_random_moments_loses_and_doubles_nothing() {
    let asked: Option<u32> = number("COSPAN_KILLS");
    let seed = number("COSPAN_CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("seed {seed}");
    let outcome = kills::run(&KillOptions {
        binary: env!("CARGO_BIN_EXE_cospan").into(),
        base: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
        kills: asked.unwrap_or(20),
        depth: 40,
        least_in_flight: 20,
        // Twenty kills show no state often; the full budget must.
        least_strikes: if asked.is_some() { 5 } else { 0 },
        seed,
        keep: false,
    })
    .unwrap();
    let report = outcome.report();
    println!("{report}");
    assert!(outcome.is_good(), "seed {seed}\n{report}");
}

fn play(name: &str) {
    let base = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    faults::play_scenario(env!("CARGO_BIN_EXE_cospan").as_ref(), &base, name).unwrap();
}

#[test]
fn a_job_outlives_the_absence_of_its_site() {
    play("a-site-vanishes-and-returns");
}

#[test]
fn a_component_whose_wrapper_was_killed_is_charged_once_and_placed_anew() {
    play("a-wrapper-is-killed");
}

#[test]
fn a_killed_payload_is_the_jobs_own_failure() {
    play("a-payload-is-killed");
}

#[test]
fn a_frozen_component_is_waited_for() {
    play("a-site-is-frozen");
}

#[test]
fn nothing_is_charged_or_moved_while_all_sites_are_gone() {
    play("all-sites-vanish-at-once");
}

#[test]
fn a_failing_site_is_left_reported_and_taken_back_after_a_probe() {
    play("a-site-fails-again-and-again");
}
