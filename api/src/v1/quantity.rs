//! Times and sizes as people write them: `90s`, `1h30m`, `1-12:00:00`, `4GB`.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use super::text;

/// The reason why a text is not a time or size.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not {what}; write it like {examples}")]
pub struct QuantityError {
    text: String,
    what: &'static str,
    examples: &'static str,
}

macro_rules! as_text {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                text::serialize(self, to)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                text::deserialize(from)
            }
        }
    };
}

/// A length of time: `90s`, `1h30m`, `250ms`, or `days-hours:minutes:seconds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Length(pub DurationMs);

as_text!(Length);

impl Length {
    fn parse_clock(text: &str) -> Option<DurationMs> {
        let (days, clock) = match text.split_once('-') {
            Some((days, clock)) => (parse_whole(days)?, clock),
            None => (0, text),
        };
        let parts: Vec<u64> = clock.split(':').map(parse_whole).collect::<Option<_>>()?;
        let (hours, minutes, seconds) = match (days, parts.as_slice()) {
            (_, &[h, m, s]) => (h, m, s),
            (0, &[m, s]) if !text.contains('-') => (0, m, s),
            _ => return None,
        };
        let fits = minutes < 60 && seconds < 60;
        let seconds = days
            .checked_mul(24)?
            .checked_add(hours)?
            .checked_mul(3600)?
            .checked_add(minutes * 60 + seconds)?;
        fits.then_some(DurationMs(seconds.checked_mul(1000)?))
    }
}

fn parse_whole(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.len() <= 12 && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

impl FromStr for Length {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let length = if text.len() > Self::SHAPE.max_length {
            None
        } else if text.contains(':') {
            Self::parse_clock(text)
        } else {
            // A bare number is refused, also 0: nobody knows which unit was meant.
            let has_unit = text.bytes().last().is_some_and(|b| b.is_ascii_alphabetic());
            let is_plain = has_unit && !has_calendar_unit(text);
            let length = is_plain
                .then(|| humantime::parse_duration(text).ok())
                .flatten();
            length
                .and_then(|length| u64::try_from(length.as_millis()).ok())
                .map(DurationMs)
        };
        length.map(Length).ok_or_else(|| QuantityError {
            text: text.chars().take(40).collect(),
            what: "a length of time",
            examples: "\"90s\", \"1h30m\" or \"1-12:00:00\"",
        })
    }
}

/// Returns true if a month or year is meant, which has no fixed length. humantime 2.4 takes `M` for
/// 30.44 days, but whoever writes `90M` means minutes.
fn has_calendar_unit(text: &str) -> bool {
    let mut units = text.split(|c: char| !c.is_ascii_alphabetic());
    units.any(|unit| {
        matches!(
            unit,
            "M" | "month" | "months" | "y" | "yr" | "yrs" | "year" | "years"
        )
    })
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] = [
            (86_400_000, "d"),
            (3_600_000, "h"),
            (60_000, "m"),
            (1000, "s"),
            (1, "ms"),
        ];
        let mut rest = self.0.0;
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit_ms, unit) in UNITS {
            if rest >= unit_ms {
                write!(f, "{}{unit}", rest / unit_ms)?;
                rest %= unit_ms;
            }
        }
        Ok(())
    }
}

/// A number of bytes with its unit: `4GB`, `512MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub Bytes);

as_text!(Size);

impl FromStr for Size {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        // A bare number is refused: nobody knows if bytes were meant.
        let has_unit = text.bytes().last().is_some_and(|b| b.is_ascii_alphabetic());
        let size = has_unit
            .then(|| parse_size::parse_size(text).ok())
            .flatten();
        size.map(|size| Size(Bytes(size)))
            .ok_or_else(|| QuantityError {
                text: text.chars().take(40).collect(),
                what: "a size",
                examples: "\"4GB\" or \"512MiB\"",
            })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [
            (1_000_000_000_000, "TB"),
            (1_000_000_000, "GB"),
            (1_000_000, "MB"),
            (1_000, "kB"),
        ];
        match UNITS
            .iter()
            .find(|(unit, _)| self.0.0 > 0 && self.0.0.is_multiple_of(*unit))
        {
            Some((bytes, unit)) => write!(f, "{}{unit}", self.0.0 / bytes),
            None => write!(f, "{}B", self.0.0),
        }
    }
}

/// An instant: RFC 3339, in UTC, with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub Timestamp);

as_text!(Instant);

impl From<Timestamp> for Instant {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}

impl From<SystemTime> for Instant {
    fn from(at: SystemTime) -> Self {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(Timestamp(
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        ))
    }
}

impl FromStr for Instant {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let parsed = text.parse().ok().map(|at: jiff::Timestamp| {
            // No time of ours lies before 1970.
            Instant(Timestamp(u64::try_from(at.as_millisecond()).unwrap_or(0)))
        });
        parsed
            .or_else(|| humantime::parse_rfc3339_weak(text).ok().map(Instant::from))
            .ok_or_else(|| QuantityError {
                text: text.chars().take(40).collect(),
                what: "an instant",
                examples: "\"2026-03-01T12:00:00Z\" (UTC) or \"2026-03-01T13:00:00+01:00\"",
            })
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The last millisecond that RFC 3339 can name: later times mean "never".
        const LAST_MS: u64 = 253_402_300_799_999;
        let since = Duration::from_millis(self.0.0.min(LAST_MS));
        let at: SystemTime = UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH);
        humantime::format_rfc3339_millis(at).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(text: &str) -> Option<u64> {
        text.parse::<Length>().ok().map(|length| length.0.0)
    }

    #[test]
    fn lengths_are_read_as_people_write_them() {
        assert_eq!(ms("90s"), Some(90_000));
        assert_eq!(ms("1h30m"), Some(5_400_000));
        assert_eq!(ms("1-12:00:00"), Some(36 * 3_600_000));
        assert_eq!(ms("01:30:00"), Some(5_400_000));
        assert_eq!(ms("2:05"), Some(125_000));
        assert_eq!(ms("250ms"), Some(250));
    }

    #[test]
    fn lengths_without_unit_or_beyond_all_bounds_are_refused() {
        for text in [
            "",
            "90",
            "-5s",
            "1h-30m",
            "1:2:3:4",
            "00:61:00",
            "1-",
            "99999999999999d",
        ] {
            assert_eq!(ms(text), None, "{text}");
        }
        let error = "90".parse::<Length>().unwrap_err().to_string();
        assert!(error.contains("1h30m"), "{error}");
    }

    #[test]
    fn months_and_years_are_no_lengths() {
        for text in [
            "90M", "1M", "1month", "2 months", "1h 1M", "1y", "1year", "1yr 2d",
        ] {
            assert_eq!(ms(text), None, "{text}");
        }
        assert_eq!(ms("30d"), Some(30 * 86_400_000));
        assert_eq!(ms("90 min"), Some(5_400_000));
    }

    #[test]
    fn sizes_need_a_unit() {
        assert_eq!("4GB".parse(), Ok(Size(Bytes(4_000_000_000))));
        assert_eq!("512MiB".parse(), Ok(Size(Bytes(512 << 20))));
        for text in ["", "4", "-4GB", "GB", "99999999999999999999TB", "4 apples"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_instant_beyond_the_calendar_is_written_as_its_end() {
        assert_eq!(
            Instant(Timestamp(u64::MAX)).to_string(),
            "9999-12-31T23:59:59.999Z"
        );
        assert_eq!(
            "2026-03-01T12:00:00Z".parse(),
            Ok(Instant(Timestamp(1_772_366_400_000)))
        );
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_back(value in any::<u64>(), at in 0u64..253_402_300_799_999) {
            let length = Length(DurationMs(value));
            prop_assert_eq!(length.to_string().parse(), Ok(length));
            let size = Size(Bytes(value));
            prop_assert_eq!(size.to_string().parse(), Ok(size));
            let at = Instant(Timestamp(at));
            prop_assert_eq!(at.to_string().parse(), Ok(at));
        }
    }
}
