//! Times as people write them, with a zone or in the zone of the reader.

use std::fmt;
use std::str::FromStr;

use cospan_domain::units::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::{RoundMode, ToSpan, Unit, ZonedDateTime, ZonedDateTimeRound};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use super::quantity::{Instant, Length};
use super::text;

/// A time that is written `2026-11-27T09:00:00+01:00`, `2026-11-27 09:00[Europe/Paris]`,
/// `2026-11-27 09:00`, `tomorrow 09:00`, `today 18:30`, `09:00` (the next one), `in 2h` or `now`.
/// Without a zone it is local time, daylight saving included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Timestamp);

/// The error of a text that is not a time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{0:?} is not a time; write it like \"2026-11-27T09:00:00+01:00\", \"tomorrow 09:00\" or \
     \"in 2h\""
)]
pub struct MomentError(String);

impl Moment {
    /// Returns the present time of the local clock.
    pub fn now() -> Self {
        let ms = u64::try_from(jiff::Timestamp::now().as_millisecond());
        Self(Timestamp(ms.unwrap_or_default()))
    }

    /// Parses a text for a reader whose clock, in their zone, shows `now`.
    ///
    /// # Errors
    ///
    /// The text is not a time, or the time lies before 1970.
    pub fn parse_at(text: &str, now: &ZonedDateTime) -> Result<Self, MomentError> {
        let text = text.trim();
        let read = parse_relative(text, now).or_else(|| parse_absolute(text, now));
        let ms = read.and_then(|at| u64::try_from(at.timestamp().as_millisecond()).ok());
        ms.map(|ms| Self(Timestamp(ms)))
            .ok_or_else(|| MomentError(text.chars().take(60).collect()))
    }
}

fn parse_relative(text: &str, now: &ZonedDateTime) -> Option<ZonedDateTime> {
    if text == "now" {
        return Some(now.clone());
    }
    if let Some(length) = text.strip_prefix("in ").or_else(|| text.strip_prefix('+')) {
        let length: Length = length.trim().parse().ok()?;
        let at = now
            .checked_add(i64::try_from(length.0.0).ok()?.milliseconds())
            .ok()?;
        // Cut to seconds, as it is shown: a maintenance window is identified by its start.
        return at
            .round(
                ZonedDateTimeRound::new()
                    .smallest(Unit::Second)
                    .mode(RoundMode::Ceil),
            )
            .ok();
    }
    if let Some(time) = text.strip_prefix("today ") {
        return resolve_time(now.date(), time, now);
    }
    if let Some(time) = text.strip_prefix("tomorrow ") {
        return resolve_time(now.date().tomorrow().ok()?, time, now);
    }
    let is_clock = text.len() <= 8 && text.bytes().all(|b| b.is_ascii_digit() || b == b':');
    if !is_clock || !text.contains(':') {
        return None;
    }
    match resolve_time(now.date(), text, now)? {
        passed if passed < *now => resolve_time(now.date().tomorrow().ok()?, text, now),
        coming => Some(coming),
    }
}

fn resolve_time(date: jiff::civil::Date, time: &str, now: &ZonedDateTime) -> Option<ZonedDateTime> {
    let time: Time = time.trim().parse().ok()?;
    date.to_datetime(time)
        .to_zoned_datetime(now.time_zone().clone())
        .ok()
}

fn parse_absolute(text: &str, now: &ZonedDateTime) -> Option<ZonedDateTime> {
    let zone = now.time_zone();
    text.parse::<ZonedDateTime>()
        .ok()
        .or_else(|| {
            Some(
                text.parse::<jiff::Timestamp>()
                    .ok()?
                    .to_zoned_datetime(zone.clone()),
            )
        })
        .or_else(|| {
            text.parse::<DateTime>()
                .ok()?
                .to_zoned_datetime(zone.clone())
                .ok()
        })
}

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, MomentError> {
        Self::parse_at(text, &ZonedDateTime::now())
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Instant(self.0).fmt(f)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        text::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::deserialize(from)
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    /// What it means in central Europe, in UTC; `now` is local there.
    fn read(text: &str, now: &str) -> String {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let now = now
            .parse::<DateTime>()
            .unwrap()
            .to_zoned_datetime(zone)
            .unwrap();
        Moment::parse_at(text, &now).map_or_else(|error| error.to_string(), |at| at.to_string())
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        const NOW: &str = "2026-11-26 10:00:30";
        for (text, utc) in [
            ("now", "2026-11-26T09:00:30.000Z"),
            ("in 1h30m", "2026-11-26T10:30:30.000Z"),
            ("+90s", "2026-11-26T09:02:00.000Z"),
            ("2026-11-27T09:00:30", "2026-11-27T08:00:30.000Z"),
            ("today 18:30", "2026-11-26T17:30:00.000Z"),
            ("tomorrow 09:00", "2026-11-27T08:00:00.000Z"),
            ("11:15", "2026-11-26T10:15:00.000Z"),
            ("09:00", "2026-11-27T08:00:00.000Z"),
            ("2026-11-27 09:00", "2026-11-27T08:00:00.000Z"),
            ("2026-11-27T09:00:00-05:00", "2026-11-27T14:00:00.000Z"),
            ("2026-11-27T09:00:00Z", "2026-11-27T09:00:00.000Z"),
        ] {
            assert_eq!(read(text, NOW), utc, "{text}");
        }
        assert_eq!(
            read("+1s", "2026-11-26 10:00:30.250"),
            "2026-11-26T09:00:32.000Z"
        );
    }

    #[test]
    fn local_times_are_right_across_daylight_saving() {
        // Clocks go forward on 29 March 2026 at 02:00, and back on 25 October at 03:00.
        assert_eq!(
            read("tomorrow 09:00", "2026-03-27 12:00"),
            "2026-03-28T08:00:00.000Z"
        );
        assert_eq!(
            read("tomorrow 09:00", "2026-03-28 12:00"),
            "2026-03-29T07:00:00.000Z"
        );
        assert_eq!(
            read("tomorrow 09:00", "2026-10-24 12:00"),
            "2026-10-25T08:00:00.000Z"
        );
        assert_eq!(
            read("in 24h", "2026-03-28 12:00"),
            "2026-03-29T11:00:00.000Z"
        );
    }

    #[test]
    fn what_is_no_time_is_refused_with_examples() {
        for text in [
            "",
            "soon",
            "+",
            "+2",
            "2026-13-01 18:00",
            "tomorrow",
            "in",
            "25:00",
            "tomorrow 9",
            "12",
            "in -5s",
        ] {
            let told = read(text, "2026-11-26 10:00");
            assert!(
                told.contains("is not a time; write it like"),
                "{text}: {told}"
            );
        }
    }
}
