//! Draws faults of the disk of the store.

use cospan_domain::units::{DurationMs, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::seed_scenario::{BEGINS, MINUTE};
use cospan_simulator::call_faults::StoreDiskFaults;

/// Number of the random stream.
const DISKS: u64 = 0x0064_6973_6b73;
/// Share of the records that cannot be written, in parts per million.
const FAILING_WRITES: u32 = 500;
/// Most times that a disk is full, and the longest time for which it is.
const FULL_TIMES: usize = 4;
const FULL_MAX: u64 = 30 * MINUTE;

/// Draws first which kinds there are, then when and how often; nothing after `calm_at`.
pub(super) fn draw_disk(seed: u64, calm_at: Timestamp) -> StoreDiskFaults {
    let mut chance = StdRng::seed_from_u64(seed ^ DISKS);
    let mut disk = StoreDiskFaults::default();
    // Some disks only sync slowly, or fail to.
    if chance.random_bool(0.3) {
        return disk;
    }
    if chance.random_bool(0.5) {
        disk.failing_writes = FAILING_WRITES;
    }
    disk.tears = chance.random_bool(0.8);
    if chance.random_bool(0.5) {
        for _ in 0..chance.random_range(1..=FULL_TIMES) {
            let from = BEGINS + DurationMs(chance.random_range(0..calm_at.since(BEGINS).0));
            let to = from + DurationMs(chance.random_range(1..=FULL_MAX));
            disk.full.push((from, to.min(calm_at)));
        }
    }
    disk
}
