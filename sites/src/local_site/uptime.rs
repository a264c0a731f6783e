//! The uptime of this machine, which nobody sets.

use std::io;

use cospan_domain::units::{ClockSkew, DurationMs, Timestamp};

use super::steady_now;

/// A clock that differs by at least this was set, rather than corrected.
const STEP: DurationMs = DurationMs(2_000);

/// Reads the uptime in hundredths of a second, as a wrapper counts.
fn read_uptime() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/uptime")?;
    parse_uptime(&text).ok_or_else(|| io::Error::other("/proc/uptime cannot be read"))
}

/// Parses `SECONDS.HUNDREDTHS IDLE`. As a number with a fraction, one in twenty would lose a
/// hundredth: a process that has just started would seem to start later than now.
fn parse_uptime(text: &str) -> Option<u64> {
    let (secs, hundredths) = text.split(' ').next()?.split_once('.')?;
    if hundredths.len() != 2 {
        return None;
    }
    let secs: u64 = secs.parse().ok()?;
    let hundredths: u64 = hundredths.parse().ok()?;
    secs.checked_mul(100)?.checked_add(hundredths)
}

/// Converts a time of the present clock to such hundredths.
pub(super) fn uptime_at(time: Timestamp) -> io::Result<u64> {
    let left = ClockSkew::between(time, steady_now()).0 / 10;
    Ok(read_uptime()?.saturating_add_signed(left))
}

/// Corrects the time of a file by the start of its process, in such hundredths. Files keep the time
/// of the clock as it was. If somebody has set that since, the result is the time by the present
/// clock that gives the true age.
pub(super) fn correct_file_time(written: Timestamp, start: u64) -> Timestamp {
    let Ok(uptime) = read_uptime() else {
        return written;
    };
    let ago = uptime.saturating_sub(start);
    choose_time(written, steady_now(), DurationMs(ago.saturating_mul(10)))
}

fn choose_time(written: Timestamp, now: Timestamp, ago: DurationMs) -> Timestamp {
    let by_uptime = now - ago;
    if written.0.abs_diff(by_uptime.0) <= STEP.0 {
        written
    } else {
        by_uptime
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uptime_is_read_to_the_hundredth() {
        for hundredths in 0..20_000_u64 {
            let text = format!("{}.{:02} 7.13\n", hundredths / 100, hundredths % 100);
            assert_eq!(parse_uptime(&text), Some(hundredths));
        }
        for text in [
            "",
            "12",
            "12.3 1.00",
            "12.345 1.00",
            "-1.00 1.00",
            "a.bc 1.00",
        ] {
            assert_eq!(parse_uptime(text), None, "{text}");
        }
    }

    #[test]
    fn a_process_that_starts_this_moment_has_its_file_dated_now() {
        let start = read_uptime().unwrap() + 100;
        let hour_ago = Timestamp(steady_now().0 - 3_600_000);
        let dated = correct_file_time(hour_ago, start);
        assert!(steady_now().since(dated) < DurationMs(60_000), "{dated:?}");
    }

    #[test]
    fn a_time_is_true_whatever_the_clock_was_when_it_was_written() {
        let now = Timestamp(1_800_000_000_000);
        let ago = DurationMs(60_000);
        let of = |written: u64| choose_time(Timestamp(written), now, ago).0;
        assert_eq!(
            of(1_799_999_940_700),
            1_799_999_940_700,
            "no clock is exact"
        );
        for written in [
            1_799_996_340_000,
            1_800_003_540_000,
            1_802_592_000_000,
            10_000,
        ] {
            assert_eq!(of(written), 1_799_999_940_000, "{written}");
        }
    }
}
