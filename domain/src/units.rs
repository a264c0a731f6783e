//! Quantities with their units: milliseconds, microseconds, bytes, bits per second, parts per
//! million.
//!
//! Whole numbers only. A time that does not come out even is rounded up, so
//! that nothing is expected earlier than it can be.

use std::fmt;
use std::ops::{Add, Sub};

/// An instant, in UTC milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

/// A length of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DurationMs(pub u64);

/// A length of time in microseconds, for what may take less than a millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DurationUs(pub u64);

/// Computing power in million floating-point operations per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mflops(pub u64);

impl Timestamp {
    /// Time since `earlier`; zero if the clock was set back in between.
    pub fn since(self, earlier: Timestamp) -> DurationMs {
        DurationMs(self.0.saturating_sub(earlier.0))
    }

    /// Formats hours and minutes of its day, in UTC.
    pub fn time_of_day(self) -> String {
        let minutes = self.0 / 60_000 % 1_440;
        format!("{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// The lead of another clock over ours, in milliseconds; negative: it is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClockSkew(pub i64);

impl ClockSkew {
    /// Returns the lead of a clock that shows `theirs` while ours shows `ours`.
    pub fn between(theirs: Timestamp, ours: Timestamp) -> Self {
        let ahead = i128::from(theirs.0) - i128::from(ours.0);
        Self(i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX }))
    }
}

impl Sub<ClockSkew> for Timestamp {
    type Output = Timestamp;

    /// Converts a time of the other clock to ours.
    fn sub(self, skew: ClockSkew) -> Timestamp {
        Timestamp(self.0.saturating_add_signed(skew.0.saturating_neg()))
    }
}

impl Add<ClockSkew> for Timestamp {
    type Output = Timestamp;

    /// Converts a time of our clock to the other.
    fn add(self, skew: ClockSkew) -> Timestamp {
        Timestamp(self.0.saturating_add_signed(skew.0))
    }
}

impl DurationMs {
    /// No time at all.
    pub const ZERO: DurationMs = DurationMs(0);

    /// Converts from whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Returns whole seconds, rounded up.
    pub fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1000)
    }

    /// Returns seconds with a fraction, for people and histograms.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// Returns `share` of this length, rounded up.
    pub fn scaled_by(self, share: PerMillion) -> Self {
        let exact = u128::from(self.0) * u128::from(share.0);
        Self(u64::try_from(exact.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

impl Add<DurationMs> for Timestamp {
    type Output = Timestamp;

    fn add(self, length: DurationMs) -> Timestamp {
        Timestamp(self.0.saturating_add(length.0))
    }
}

impl Sub<DurationMs> for Timestamp {
    type Output = Timestamp;

    fn sub(self, length: DurationMs) -> Timestamp {
        Timestamp(self.0.saturating_sub(length.0))
    }
}

impl Add for DurationMs {
    type Output = DurationMs;

    fn add(self, other: DurationMs) -> DurationMs {
        DurationMs(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for DurationMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.0 / 1000;
        let ms = self.0 % 1000;
        match (secs / 3600, secs / 60 % 60, secs % 60) {
            (0, 0, s) if ms == 0 => write!(f, "{s}s"),
            (0, 0, s) => write!(f, "{s}.{ms:03}s"),
            (0, m, s) => write!(f, "{m}m{s:02}s"),
            (h, m, s) => write!(f, "{h}h{m:02}m{s:02}s"),
        }
    }
}

impl From<DurationMs> for DurationUs {
    fn from(length: DurationMs) -> Self {
        Self(length.0.saturating_mul(1_000))
    }
}

impl fmt::Display for DurationUs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            us if us < 1_000 => write!(f, "{us}us"),
            us if us.is_multiple_of(1_000) => write!(f, "{}ms", us / 1_000),
            us => write!(f, "{:.1}ms", us as f64 / 1_000.0),
        }
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

/// A bandwidth in bits per second; 0 means that nothing gets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BitsPerSecond(pub u64);

impl Bytes {
    /// Returns the time that these bytes take over a link: 8 x bytes / bandwidth, rounded up to a
    /// millisecond. `None` if the link carries nothing.
    pub fn transfer_time(self, link: BitsPerSecond) -> Option<DurationMs> {
        if link.0 == 0 {
            return None;
        }
        let ms = match self.0.checked_mul(8_000) {
            Some(exact) => exact.div_ceil(link.0),
            None => {
                let exact = u128::from(self.0) * 8_000;
                u64::try_from(exact.div_ceil(u128::from(link.0))).unwrap_or(u64::MAX)
            }
        };
        Some(DurationMs(ms))
    }
}

impl Add for Bytes {
    type Output = Bytes;

    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [(u64, &str); 4] = [
            (1_000_000_000_000, "TB"),
            (1_000_000_000, "GB"),
            (1_000_000, "MB"),
            (1_000, "kB"),
        ];
        match STEPS.iter().find(|(size, _)| self.0 >= *size) {
            Some((size, unit)) => write!(f, "{:.1} {unit}", self.0 as f64 / *size as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}

/// Formats to three digits: `93.4 Mbit/s`.
impl fmt::Display for BitsPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [
            (1_000_000_000, "Gbit/s"),
            (1_000_000, "Mbit/s"),
            (1_000, "kbit/s"),
            (1, "bit/s"),
        ];
        let unit = UNITS.iter().find(|(scale, _)| self.0 >= *scale);
        let Some((scale, unit)) = unit else {
            return f.write_str("0 bit/s");
        };
        let tenths = u128::from(self.0) * 10 / u128::from(*scale);
        match tenths {
            0..=999 if tenths % 10 > 0 => write!(f, "{}.{} {unit}", tenths / 10, tenths % 10),
            _ => write!(f, "{} {unit}", tenths / 10),
        }
    }
}

/// A ratio in parts per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PerMillion(pub u32);

impl PerMillion {
    /// The whole.
    pub const ONE: PerMillion = PerMillion(1_000_000);
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    #[test]
    fn four_gigabytes_over_100_mbit_take_320_seconds() {
        let time = Bytes(4 * GB).transfer_time(BitsPerSecond(100_000_000));
        assert_eq!(time, Some(DurationMs::from_secs(320)));
    }

    #[test]
    fn a_fraction_of_a_millisecond_rounds_up() {
        assert_eq!(
            Bytes(1).transfer_time(BitsPerSecond(1_000_000)),
            Some(DurationMs(1))
        );
        assert_eq!(DurationMs(3).scaled_by(PerMillion(500_000)), DurationMs(2));
    }

    #[test]
    fn a_link_without_bandwidth_has_no_transfer_time() {
        assert_eq!(Bytes(1).transfer_time(BitsPerSecond(0)), None);
    }

    #[test]
    fn huge_quantities_saturate_instead_of_wrapping() {
        assert_eq!(
            Bytes(u64::MAX).transfer_time(BitsPerSecond(1)),
            Some(DurationMs(u64::MAX))
        );
        assert_eq!(Timestamp(u64::MAX) + DurationMs(1), Timestamp(u64::MAX));
    }

    #[test]
    fn durations_and_sizes_read_well() {
        assert_eq!(DurationMs(90_000).to_string(), "1m30s");
        assert_eq!(DurationMs(250).to_string(), "0.250s");
        assert_eq!(DurationUs(950).to_string(), "950us");
        assert_eq!(DurationUs(1_240).to_string(), "1.2ms");
        assert_eq!(DurationUs::from(DurationMs(2_000)).to_string(), "2000ms");
        assert_eq!(Bytes(1_500_000).to_string(), "1.5 MB");
        assert_eq!(Bytes(999).to_string(), "999 B");
    }

    #[test]
    fn bandwidths_are_told_in_a_unit_that_fits() {
        for (bits, text) in [
            (0, "0 bit/s"),
            (1_500, "1.5 kbit/s"),
            (100_000_000, "100 Mbit/s"),
            (93_460_000, "93.4 Mbit/s"),
            (2_000_000_000, "2 Gbit/s"),
        ] {
            assert_eq!(BitsPerSecond(bits).to_string(), text);
        }
    }
}
