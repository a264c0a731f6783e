//! Tests of the report as a whole and of its arithmetic.

mod comparing;
mod files;
mod numbers;
mod rows;
mod sample;
mod stepping;

use std::collections::BTreeMap;

use cospan_domain::units::Timestamp;

use super::{JobEnding, RunJob, RunRecord};
use sample::{SampleSettings, sample_run};

/// A run of about an hour over three sites.
fn small_run(label: &str, seed: u64) -> RunRecord {
    sample_run(&SampleSettings {
        label: label.to_owned(),
        seed,
        sites: vec![32, 24, 8],
        jobs: 60,
        gap_ms: 60_000,
        hold_ms: 20_000,
    })
}

/// A run in which nothing happened.
fn empty_run() -> RunRecord {
    RunRecord {
        label: "empty".to_owned(),
        seed: 1,
        began: Timestamp(5_000),
        ended: Timestamp(5_000),
        sites: Vec::new(),
        attempts: Vec::new(),
        queue: Vec::new(),
        jobs: Vec::new(),
        counters: BTreeMap::new(),
    }
}

/// A job of 2 processors, submitted 1 s after 1970, that waited 20 s and ran
/// for 5 s.
fn short_job() -> RunJob {
    RunJob {
        id: 7,
        name: "a, \"quoted\"\nname".to_owned(),
        components: 2,
        processors: 2,
        sites: 2,
        priority: "high".to_owned(),
        submitted: Timestamp(1_000),
        placed: Some(Timestamp(3_500)),
        claimed: Some(Timestamp(20_000)),
        started: Some(Timestamp(21_000)),
        finished: Some(Timestamp(26_000)),
        ending: JobEnding::Done,
        total_placement_time_ms: 2_500,
        start_delay_ms: Some(-500),
        rounds: 1,
        rounds_aborted: 0,
        attempts: 3,
        failed_claims: 2,
        missed_starts: 0,
        preemptions: 0,
        site_errors: 0,
        transfer_bytes: 12,
        transfer_time_ms: 4_500,
        gained_processor_ms: 33_000,
        held_processor_ms: 30_000,
    }
}
