//! Plays a few drawn scenarios through the real server and through the simulator, and
//! compares what both journalled. `cospan-chaos differ` plays many.
//!
//! `COSPAN_CHAOS_SEED` draws others than those that always run.

#![allow(
    clippy::print_stdout,
    reason = "the seed and the table belong to the result"
)]

use std::path::PathBuf;

use cospan_chaos_tests::differ::{self, DifferOptions};

#[test]
fn a_job_has_the_same_history_at_simulated_sites_as_at_real_ones() {
    let seed = std::env::var("COSPAN_CHAOS_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(1);
    println!("seed {seed}");
    let options = DifferOptions {
        binary: env!("CARGO_BIN_EXE_cospan").into(),
        base: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
        seed,
        scenarios: 8,
        only: None,
        at_once: 4,
        keep: false,
    };
    assert!(
        differ::run(&options, &|text| println!("{text}")),
        "seed {seed}: see above"
    );
}
