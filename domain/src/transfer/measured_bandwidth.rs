//! Bandwidth that past transfers had: recent ones count more, old ones not at all.

use std::collections::BTreeMap;

use crate::ids::SiteName;
use crate::units::{BitsPerSecond, Bytes, DurationMs, Timestamp};

/// Settings that say how past transfers count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BandwidthParameters {
    /// A transfer counts half as much after this time; 0: only the latest counts.
    pub half_life: DurationMs,
    /// A pair without a transfer for this long counts as not measured; 0: nothing is measured.
    pub expiry: DurationMs,
    /// Least time of a transfer; a shorter one says too little.
    pub min_time: DurationMs,
}

impl Default for BandwidthParameters {
    fn default() -> Self {
        Self {
            half_life: DurationMs::from_secs(600),
            expiry: DurationMs::from_secs(3_600),
            min_time: DurationMs::from_secs(2),
        }
    }
}

/// The bandwidth that past transfers between two sites had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredBandwidth {
    /// Bytes over time, both with the weight of their age.
    pub bandwidth: BitsPerSecond,
    /// The end of the latest transfer.
    pub at: Timestamp,
    /// The number of transfers in a row, none of them expired before the next.
    pub transfers: u32,
}

/// The past transfers of each pair of sites (from, to). Volatile: measured again after a start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransferRates {
    parameters: BandwidthParameters,
    pairs: BTreeMap<(SiteName, SiteName), RateSums>,
}

/// Weighted sums, in thousandths so that small ones survive their decay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RateSums {
    bytes: u128,
    ms: u128,
    at: Timestamp,
    transfers: u32,
}

impl TransferRates {
    /// Starts without a measurement.
    pub fn new(parameters: BandwidthParameters) -> Self {
        Self {
            parameters,
            pairs: BTreeMap::new(),
        }
    }

    /// Counts a transfer that moved this much in this time; returns true if it counts.
    pub fn add_transfer(
        &mut self,
        pair: (SiteName, SiteName),
        moved: Bytes,
        time: DurationMs,
        now: Timestamp,
    ) -> bool {
        let too_short = time < self.parameters.min_time || time == DurationMs::ZERO;
        if too_short || moved == Bytes(0) || self.parameters.expiry == DurationMs::ZERO {
            return false;
        }
        let before = self
            .pairs
            .get(&pair)
            .filter(|sums| self.is_current_rate(sums, now))
            .copied();
        let mut sums = before.map_or(RateSums::empty_at(now), |s| {
            s.decayed_until(self.parameters.half_life, now)
        });
        sums.bytes += u128::from(moved.0) * 1_000;
        sums.ms += u128::from(time.0) * 1_000;
        sums.transfers = sums.transfers.saturating_add(1);
        self.pairs.insert(pair, sums);
        true
    }

    /// Returns the rate of a pair, if it is not too old. It stays as it is between two transfers:
    /// all of them age alike.
    pub fn rate_of(
        &self,
        from: &SiteName,
        to: &SiteName,
        now: Timestamp,
    ) -> Option<MeasuredBandwidth> {
        let sums = self.pairs.get(&(from.clone(), to.clone()))?;
        self.is_current_rate(sums, now).then(|| sums.to_measured())
    }

    /// Returns the time from which on a measurement is too old.
    pub fn rate_expires_at(&self, measured: &MeasuredBandwidth) -> Timestamp {
        measured.at + self.parameters.expiry
    }

    fn is_current_rate(&self, sums: &RateSums, now: Timestamp) -> bool {
        now.since(sums.at) < self.parameters.expiry
    }
}

impl RateSums {
    fn empty_at(at: Timestamp) -> Self {
        Self {
            bytes: 0,
            ms: 0,
            at,
            transfers: 0,
        }
    }

    fn decayed_until(self, half_life: DurationMs, now: Timestamp) -> Self {
        let left = share_left(now.since(self.at), half_life);
        Self {
            bytes: self.bytes * left / 1_000_000,
            ms: self.ms * left / 1_000_000,
            at: now,
            ..self
        }
    }

    fn to_measured(self) -> MeasuredBandwidth {
        let rate = (self.bytes * 8_000).checked_div(self.ms).unwrap_or(0);
        let bandwidth = BitsPerSecond(u64::try_from(rate).unwrap_or(u64::MAX).max(1));
        MeasuredBandwidth {
            bandwidth,
            at: self.at,
            transfers: self.transfers,
        }
    }
}

/// Returns what is left of a weight after some time, in millionths: half of it after each
/// half-life, and a straight line between.
pub(super) fn share_left(age: DurationMs, half_life: DurationMs) -> u128 {
    let Some(halvings) = age.0.checked_div(half_life.0) else {
        return 0;
    };
    if halvings >= 20 {
        return 0;
    }
    let rest = u128::from(age.0 % half_life.0);
    (1_000_000 - 500_000 * rest / u128::from(half_life.0)) >> halvings
}

#[cfg(test)]
#[path = "measured_bandwidth_tests.rs"]
mod tests;
