//! Times as people read them.

use std::time::{SystemTime, UNIX_EPOCH};

use cospan_domain::units::{DurationMs, Timestamp};
use jiff::tz::TimeZone;

use cospan_api::v1::Instant;

/// Returns the time of this machine.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Formats the time since an instant: `12s`, `3m`, `5h`, `2d`.
pub(crate) fn format_age(at: Instant, now: Timestamp) -> String {
    format_rough(now.since(at.0))
}

/// Formats a length of time in its largest unit.
pub(crate) fn format_rough(length: DurationMs) -> String {
    match length.0 / 1_000 {
        s @ 0..=119 => format!("{s}s"),
        s @ 120..=7_199 => format!("{}m", s / 60),
        s @ 7_200..=172_799 => format!("{}h", s / 3_600),
        s => format!("{}d", s / 86_400),
    }
}

/// Formats an instant to the second, in the local zone.
pub(crate) fn format_clock(at: Instant) -> String {
    format_in_zone(at, TimeZone::system(), CLOCK)
}

/// Formats an instant to the second, in the local zone, in a form that can be parsed again.
pub(crate) fn format_local(at: Instant) -> String {
    format_in_zone(at, TimeZone::system(), LOCAL)
}

const CLOCK: &str = "%Y-%m-%d %H:%M:%S %:z";
const LOCAL: &str = "%Y-%m-%dT%H:%M:%S%:z";

fn format_in_zone(at: Instant, zone: TimeZone, form: &str) -> String {
    let ms = i64::try_from(at.0.0).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(time) => time.to_zoned_datetime(zone).strftime(form).to_string(),
        Err(_) => at.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_in_one_unit() {
        let now = Timestamp(10_000_000_000);
        for (ms, text) in [
            (0, "0s"),
            (119_000, "119s"),
            (120_000, "2m"),
            (7_200_000, "2h"),
        ] {
            assert_eq!(format_age(Instant(Timestamp(now.0 - ms)), now), text);
        }
        assert_eq!(format_rough(DurationMs::from_secs(3 * 86_400)), "3d");
    }

    #[test]
    fn instants_are_told_in_the_zone_of_whoever_reads_them() {
        let at = Instant(Timestamp(1_772_366_400_123));
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        assert_eq!(
            format_in_zone(at, zone.clone(), CLOCK),
            "2026-03-01 13:00:00 +01:00"
        );
        assert_eq!(format_in_zone(at, zone, LOCAL), "2026-03-01T13:00:00+01:00");
    }
}
