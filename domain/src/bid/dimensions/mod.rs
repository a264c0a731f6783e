//! One file for each dimension's index.

pub(super) mod compute;
pub(super) mod data;
pub(super) mod disk;
pub(super) mod memory;
pub(super) mod potential;

/// The share of what is asked for that is lacking: 0 where it is met or nothing is asked for,
/// 1 where there is nothing. More than is asked for is not rewarded.
fn lacking(free: f64, asked: f64) -> f64 {
    if asked > 0.0 { (1.0 - free / asked).max(0.0) } else { 0.0 }
}
