//! The uptime of this machine, which nobody sets.

use std::io;

use cospan_domain::units::{ClockSkew, DurationMs, Timestamp};

use super::steady_now;

/// A clock that differs by at least this was set, rather than corrected.
const STEP: DurationMs = DurationMs(2_000);

/// Reads the uptime in hundredths of a second, as a wrapper counts.
fn read_uptime() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/uptime")?;
    let uptime = text
        .split(' ')
        .next()
        .and_then(|secs| secs.parse::<f64>().ok());
    let uptime = uptime.ok_or_else(|| io::Error::other("/proc/uptime cannot be read"))?;
    Ok((uptime * 100.0) as u64)
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
    let ago = read_uptime()
        .ok()
        .and_then(|uptime| uptime.checked_sub(start));
    let Some(ago) = ago else { return written };
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
