//! Times and bandwidths as people read them.

use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use cospan_domain::units::{BitsPerSecond, DurationMs, Timestamp};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::api::v1::quantity::InvalidQuantity;
use crate::api::v1::{Instant, Length};

/// This machine's time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// How long ago something was: `12s`, `3m`, `5h`, `2d`.
pub(crate) fn age(at: Instant, now: Timestamp) -> String {
    rough(now.since(at.0))
}

/// A length of time in its largest unit.
pub(crate) fn rough(length: DurationMs) -> String {
    match length.0 / 1_000 {
        s @ 0..=119 => format!("{s}s"),
        s @ 120..=7_199 => format!("{}m", s / 60),
        s @ 7_200..=172_799 => format!("{}h", s / 3_600),
        s => format!("{}d", s / 86_400),
    }
}

/// A bandwidth to three digits: `93.4 Mbit/s`.
pub(crate) fn pace(bandwidth: BitsPerSecond) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s"), (1, "bit/s")];
    let unit = UNITS.iter().find(|(scale, _)| bandwidth.0 >= *scale);
    let Some((scale, unit)) = unit else { return "0 bit/s".into() };
    let tenths = u128::from(bandwidth.0) * 10 / u128::from(*scale);
    match tenths {
        0..=999 if tenths % 10 > 0 => format!("{}.{} {unit}", tenths / 10, tenths % 10),
        _ => format!("{} {unit}", tenths / 10),
    }
}

/// An instant to the second.
pub(crate) fn clock(at: Instant) -> String {
    let text = at.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{}Z", seconds.replace('T', " ")),
        None => text,
    }
}

/// An instant to the second, in the zone of whoever reads it, in a form that is read back.
pub(crate) fn local(at: Instant) -> String {
    let ms = i64::try_from(at.0.0).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(time) => {
            time.to_zoned_datetime(jiff::tz::TimeZone::system()).strftime(LOCAL).to_string()
        }
        Err(_) => clock(at),
    }
}

/// `2026-11-27T09:00:00+01:00`
const LOCAL: &str = "%Y-%m-%dT%H:%M:%S%:z";
/// A time as people give it on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) Instant);

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        moment(text, now(), &TimeZone::system()).map(Moment)
    }
}

/// From now on (`+2h`), by the clock of a time zone (`2026-03-01 18:00`), or by RFC 3339.
fn moment(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Instant, String> {
    if let Some(length) = text.strip_prefix('+') {
        let length: Length = length.parse().map_err(|error: InvalidQuantity| error.to_string())?;
        // To the second, as it is shown: the begin of a window is its name.
        return Ok(Instant(Timestamp((now + length.0).0 / 1_000 * 1_000)));
    }
    let stamp = text.parse::<jiff::Timestamp>().ok();
    let local = || zone.to_timestamp(text.parse::<DateTime>().ok()?).ok();
    let at = stamp.or_else(local).map(|at| u64::try_from(at.as_millisecond()).unwrap_or(0));
    at.map(|ms| Instant(Timestamp(ms))).ok_or_else(|| {
        format!(
            "{text:?} is not a time; write it like \"+2h\", \"2026-03-01 18:00\" (local time) or \
             \"2026-03-01T17:00:00Z\""
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_are_told_in_a_unit_that_fits() {
        for (bits, text) in [
            (0, "0 bit/s"),
            (1_500, "1.5 kbit/s"),
            (100_000_000, "100 Mbit/s"),
            (93_460_000, "93.4 Mbit/s"),
            (2_000_000_000, "2 Gbit/s"),
        ] {
            assert_eq!(pace(BitsPerSecond(bits)), text);
        }
    }

    #[test]
    fn times_are_given_from_now_by_the_local_clock_or_by_the_worlds() {
        let zone =
            TimeZone::get("Europe/Amsterdam").unwrap_or(TimeZone::fixed(jiff::tz::offset(1)));
        let told =
            |text| moment(text, Timestamp(1_772_366_400_000), &zone).map(|at| at.to_string());
        for (text, at) in [
            ("+2h", "2026-03-01T14:00:00.000Z"),
            ("+1h30m", "2026-03-01T13:30:00.000Z"),
            ("2026-03-01 18:00", "2026-03-01T17:00:00.000Z"),
            ("2026-03-01T18:00:30", "2026-03-01T17:00:30.000Z"),
            ("2026-03-01T18:00:00Z", "2026-03-01T18:00:00.000Z"),
            ("2026-03-01T18:00:00+02:00", "2026-03-01T16:00:00.000Z"),
        ] {
            assert_eq!(told(text).as_deref(), Ok(at), "{text}");
        }
        for text in ["", "+", "+2", "tomorrow", "18:00", "2026-13-01 18:00"] {
            assert!(told(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ages_are_told_in_one_unit() {
        let now = Timestamp(10_000_000_000);
        for (ms, text) in [(0, "0s"), (119_000, "119s"), (120_000, "2m"), (7_200_000, "2h")] {
            assert_eq!(age(Instant(Timestamp(now.0 - ms)), now), text);
        }
        assert_eq!(rough(DurationMs::from_secs(3 * 86_400)), "3d");
        assert_eq!(clock(Instant(Timestamp(1_772_366_400_123))), "2026-03-01 12:00:00Z");
    }
}
