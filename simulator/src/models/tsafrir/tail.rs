//! The tail of the distribution: all estimates beyond the 20 most popular,
//! which 11 % of the jobs share.

use std::collections::BTreeSet;

use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::seq::SliceRandom;

use super::head::{HEAD_LEN, HEAD_PERCENT};

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;

/// Offsets to try for an estimate whose minute is taken.
const MOVES: [u64; 3] = [30 * SECOND, 20 * SECOND, 10 * SECOND];

/// Returns `len` estimates up to `longest`, dense among the short ones, none of them `taken`.
/// `distinct` counts all estimates, head and tail.
pub(super) fn tail_estimates(
    longest: DurationMs,
    distinct: usize,
    len: usize,
    taken: &mut BTreeSet<DurationMs>,
) -> Vec<DurationMs> {
    let bend = 1.0 + 12.1039 * (distinct as f64).powf(-0.6026);
    let times = (1..=len).map(|place| {
        let x = place as f64 / len as f64;
        let fitted = longest.0 as f64 * (bend - 1.0) * x / (bend - x);
        let minutes = (fitted / MINUTE as f64).round().max(1.0) as u64;
        let time = find_free_near((minutes * MINUTE).min(longest.0), longest.0, taken);
        taken.insert(DurationMs(time));
        DurationMs(time)
    });
    times.collect()
}

/// Returns `time` if it is free, or else the first free time at one of the offsets, down before up,
/// or else the nearest free second.
fn find_free_near(time: u64, longest: u64, taken: &BTreeSet<DurationMs>) -> u64 {
    let seconds = (1..=longest / SECOND).map(|seconds| seconds * SECOND);
    let offsets = std::iter::once(0).chain(MOVES).chain(seconds);
    let candidates = offsets.flat_map(|by| [time.saturating_sub(by), time.saturating_add(by)]);
    let mut free = candidates
        .filter(|time| (1..=longest).contains(time) && !taken.contains(&DurationMs(*time)));
    // There are fewer estimates than seconds, so one is free.
    free.next().unwrap_or(time)
}

/// Returns the percentage of the jobs for each of `len` estimates, in random order: the length of a
/// rare estimate does not tell how rare it is.
pub(super) fn tail_shares(len: usize, rng: &mut impl Rng) -> Vec<f64> {
    let ranks = HEAD_LEN + 1..=HEAD_LEN + len;
    let mut shares: Vec<f64> = ranks
        .map(|rank| 795.6 * (rank as f64).powf(-2.267))
        .collect();
    let sum: f64 = shares.iter().sum();
    shares
        .iter_mut()
        .for_each(|share| *share *= (100.0 - HEAD_PERCENT) / sum);
    shares.shuffle(rng);
    shares
}
