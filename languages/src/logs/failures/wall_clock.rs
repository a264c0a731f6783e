//! Dates of the form `6/21/2005 10:54`.

use cospan_domain::units::Timestamp;

const MINUTE_MS: u64 = 60_000;
const DAYS_BEFORE_MONTH: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// Parses month, day, year and minute, read as UTC. Returns `None` if there is no such date, or
/// none from 1970 to 9999.
pub(super) fn parse_wall_clock(text: &str) -> Option<Timestamp> {
    let (date, time) = text.split_once(' ')?;
    let mut parts = date.splitn(3, '/');
    let [month, day, year] = [(); 3].map(|()| parts.next().and_then(parse_number));
    let (hour, minute) = time.trim().split_once(':')?;
    let hour = parse_number(hour)?;
    let minute = parse_number(minute)?;
    if hour > 23 || minute > 59 {
        return None;
    }
    let days = days_since_1970(year?, month?, day?)?;
    Some(Timestamp(((days * 24 + hour) * 60 + minute) * MINUTE_MS))
}

fn parse_number(text: &str) -> Option<u64> {
    text.parse().ok()
}

fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    if !(1..=days_of_month(year, month)).contains(&day) {
        return None;
    }
    let months = DAYS_BEFORE_MONTH[month as usize - 1] + u64::from(is_leap_year(year) && month > 2);
    let leap_days = leap_days_before(year) - leap_days_before(1970);
    Some((year - 1970) * 365 + leap_days + months + day - 1)
}

fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap_year(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap_year(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Counts the leap days of all years before `year`, which is at least 1.
fn leap_days_before(year: u64) -> u64 {
    let years = year - 1;
    years / 4 - years / 100 + years / 400
}
