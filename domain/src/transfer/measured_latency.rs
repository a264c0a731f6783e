//! Latency as sites measured it: recent measurements count more, old ones not at all.

use std::collections::BTreeMap;

use super::measured_bandwidth::share_left;
use crate::ids::SiteName;
use crate::units::{DurationMs, DurationUs, Timestamp};

/// Intervals without a measurement after which a pair counts as not measured.
const EXPIRY_INTERVALS: u64 = 6;
/// The weight of a new measurement, so large that old ones survive their decay.
const WHOLE: u128 = 1_000_000;

/// The measured latency from one site to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredLatency {
    /// Half of the round trips' mean, each with the weight of its age.
    pub latency: DurationUs,
    /// The time of the latest measurement.
    pub at: Timestamp,
    /// The number of measurements in a row, none of them expired before the next.
    pub measurements: u32,
}

/// The round trips of each pair of sites (from, to). Volatile: measured again after a start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SiteLatencies {
    /// A measurement counts half as much after this time; 0: nothing is measured.
    interval: DurationMs,
    pairs: BTreeMap<(SiteName, SiteName), LatencySums>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LatencySums {
    /// Weighted round trips, in microseconds.
    us: u128,
    weight: u128,
    at: Timestamp,
    measurements: u32,
}

impl SiteLatencies {
    /// Starts without a measurement; each pair is to be measured once in this time.
    pub fn new(interval: DurationMs) -> Self {
        Self {
            interval,
            pairs: BTreeMap::new(),
        }
    }

    /// Counts the round trip of a message.
    pub fn add_round_trip(
        &mut self,
        pair: (SiteName, SiteName),
        round_trip: DurationUs,
        now: Timestamp,
    ) {
        let before = self
            .pairs
            .get(&pair)
            .filter(|sums| self.is_current(sums, now))
            .copied();
        let before = before.unwrap_or(LatencySums {
            us: 0,
            weight: 0,
            at: now,
            measurements: 0,
        });
        let left = share_left(now.since(before.at), self.interval);
        let sums = LatencySums {
            us: before.us * left / WHOLE + u128::from(round_trip.0) * WHOLE,
            weight: before.weight * left / WHOLE + WHOLE,
            at: now,
            measurements: before.measurements.saturating_add(1),
        };
        self.pairs.insert(pair, sums);
    }

    /// Returns the latency of a pair, if it is not too old. It stays as it is between two
    /// measurements: all of them age alike.
    pub fn latency_of(
        &self,
        from: &SiteName,
        to: &SiteName,
        now: Timestamp,
    ) -> Option<MeasuredLatency> {
        let sums = self.pairs.get(&(from.clone(), to.clone()))?;
        self.is_current(sums, now).then(|| sums.to_latency())
    }

    /// Returns the time from which on a measurement is too old.
    pub fn latency_expires_at(&self, measured: &MeasuredLatency) -> Timestamp {
        measured.at + self.expiry_time()
    }

    fn expiry_time(&self) -> DurationMs {
        DurationMs(self.interval.0.saturating_mul(EXPIRY_INTERVALS))
    }

    fn is_current(&self, sums: &LatencySums, now: Timestamp) -> bool {
        now.since(sums.at) < self.expiry_time()
    }
}

impl LatencySums {
    fn to_latency(self) -> MeasuredLatency {
        let half = self.us.checked_div(2 * self.weight).unwrap_or(0);
        let latency = DurationUs(u64::try_from(half).unwrap_or(u64::MAX));
        MeasuredLatency {
            latency,
            at: self.at,
            measurements: self.measurements,
        }
    }
}

#[cfg(test)]
#[path = "measured_latency_tests.rs"]
mod tests;
