//! Lengths of time as Slurm writes them, and how long jobs without a limit of their own may run.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::units::DurationMs;

/// Parses minutes, `minutes:seconds`, `hours:minutes:seconds`, or `days-`
/// and hours, minutes, seconds.
pub fn parse_time(text: &str) -> Option<DurationMs> {
    let (days, hours, minutes, seconds) = match text.split_once('-') {
        Some((days, clock)) => match clock_numbers(clock)?[..] {
            [hours] => (parse_digits(days)?, hours, 0, 0),
            [hours, minutes] => (parse_digits(days)?, hours, minutes, 0),
            [hours, minutes, seconds] => (parse_digits(days)?, hours, minutes, seconds),
            _ => return None,
        },
        None => match clock_numbers(text)?[..] {
            [minutes] => (0, 0, minutes, 0),
            [minutes, seconds] => (0, 0, minutes, seconds),
            [hours, minutes, seconds] => (0, hours, minutes, seconds),
            _ => return None,
        },
    };
    let parts = [
        (days, 86_400_000),
        (hours, 3_600_000),
        (minutes, 60_000),
        (seconds, 1_000),
    ];
    parts
        .iter()
        .try_fold(0_u64, |sum, (count, ms)| {
            sum.checked_add(count.checked_mul(*ms)?)
        })
        .map(DurationMs)
}

fn clock_numbers(text: &str) -> Option<Vec<u64>> {
    text.split(':').map(parse_digits).collect()
}

fn parse_digits(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

/// Reads by partition, from lines of `sinfo`, its default time, or else its longest, if it has
/// either. Lines are name, availability, processors, longest time, default time.
pub(super) fn default_times<'a>(
    lines: impl Iterator<Item = &'a str>,
) -> BTreeMap<Arc<str>, DurationMs> {
    lines
        .filter_map(|line: &'a str| {
            let mut fields = line.split('|');
            let name = fields.next()?;
            let mut times = fields.skip(2).map(parse_time);
            let longest = times.next().flatten();
            let default = times.next().flatten();
            let time = default
                .or(longest)
                .filter(|time| *time > DurationMs::ZERO)?;
            Some((name.strip_suffix('*').unwrap_or(name).into(), time))
        })
        .collect()
}

/// Reads the longest time that a job may ask for, by partition, from the same lines.
pub(super) fn longest_times<'a>(
    lines: impl Iterator<Item = &'a str>,
) -> BTreeMap<Arc<str>, DurationMs> {
    lines
        .filter_map(|line: &'a str| {
            let mut fields = line.split('|');
            let name = fields.next()?;
            let longest = fields
                .nth(2)
                .and_then(parse_time)
                .filter(|time| *time > DurationMs::ZERO);
            Some((name.strip_suffix('*').unwrap_or(name).into(), longest?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_in_all_its_forms() {
        for (text, seconds) in [
            ("10", 600),
            ("90:30", 5_430),
            ("1:02:03", 3_723),
            ("2-1", 2 * 86_400 + 3_600),
            ("1-00:30", 86_400 + 1_800),
            ("1-01:02:03", 86_400 + 3_723),
        ] {
            assert_eq!(
                parse_time(text),
                Some(DurationMs::from_secs(seconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "x",
            "1:2:3:4",
            "-1",
            "1-",
            "UNLIMITED",
            "1h",
            "1-2-3",
            "999999999999-0",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn what_gives_no_time_has_the_default_of_its_partition_else_the_longest() {
        let lines = [
            "normal*|up|8/120/64/192|1-00:00:00|1:00:00",
            "short|up|8/120/64/192|30:00|n/a",
            "urgent|up|1/2/0/3|infinite|n/a",
            "endless|up|1/2/0/3|infinite|2:00:00",
            "old|up|1/2/0/3|10:00",
            "odd",
        ];
        let minutes = |minutes: u64| DurationMs(minutes * 60_000);
        let expected = [("endless", 120), ("normal", 60), ("old", 10), ("short", 30)];
        let expected = expected.map(|(name, count)| (Arc::from(name), minutes(count)));
        assert_eq!(default_times(lines.into_iter()), expected.into());
        let longest = |name: &str| longest_times(lines.into_iter()).get(name).copied();
        assert_eq!(longest("normal"), Some(minutes(1_440)));
        assert_eq!(
            (longest("endless"), longest("urgent"), longest("odd")),
            (None, None, None)
        );
    }
}
