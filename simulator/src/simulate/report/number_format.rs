//! Numbers in the form that people read.

use super::stats::ConfidenceInterval;

/// Writes a number with three significant digits.
pub(super) fn format_number(value: f64) -> String {
    format_fixed(value, decimals_for(value))
}

/// Percent of a share from 0 to 1.
pub(super) fn format_percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Writes mean and half width with the same decimals: two digits of the half width.
pub(super) fn format_interval(interval: &ConfidenceInterval) -> String {
    let Some(half) = interval.half_width else {
        return format_number(interval.mean);
    };
    let places = match half {
        h if h >= 9.95 => 0,
        h if h >= 0.995 => 1,
        h if h >= 0.0995 => 2,
        h if h > 0.0 => 3,
        _ => decimals_for(interval.mean),
    };
    format!(
        "{} ± {}",
        format_fixed(interval.mean, places),
        format_fixed(half, places)
    )
}

/// Does the same with a sign, for differences.
pub(super) fn format_difference(of: &ConfidenceInterval) -> String {
    let sign = if of.mean > 0.0 { "+" } else { "" };
    format!("{sign}{}", format_interval(of))
}

/// Writes a length of time in its most fitting unit.
pub(super) fn format_seconds(value: f64) -> String {
    let (length, unit) = match value {
        v if v < 100.0 => (v, "s"),
        v if v < 6_000.0 => (v / 60.0, "min"),
        v if v < 172_800.0 => (v / 3_600.0, "h"),
        v => (v / 86_400.0, "d"),
    };
    let shown = format_number(length);
    let short = if shown.contains('.') {
        shown.trim_end_matches('0')
    } else {
        &shown
    };
    format!("{} {unit}", short.trim_end_matches('.'))
}

/// Writes a whole number with thin spaces between its thousands.
pub(super) fn format_count(value: u64) -> String {
    let digits = value.to_string();
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && digits.len() > 4 {
            shown.push('\u{202f}');
        }
        shown.push(digit);
    }
    shown
}

/// Writes a number with its noun, which takes an s unless the number is one.
pub(super) fn count_noun(value: u64, noun: &str) -> String {
    format!(
        "{} {noun}{}",
        format_count(value),
        if value == 1 { "" } else { "s" }
    )
}

/// Cuts `text` to `limit` characters with an ellipsis.
pub(super) fn cut_text(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let kept: String = text.chars().take(limit.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Number of decimals that make three digits.
fn decimals_for(value: f64) -> usize {
    match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 || v == 0.0 => 2,
        _ => 3,
    }
}

/// Writes a number with a true minus sign, and without one before zero.
fn format_fixed(value: f64, places: usize) -> String {
    let shown = format!("{:.places$}", value.abs());
    let is_zero = shown.chars().all(|c| c == '0' || c == '.');
    if value < 0.0 && !is_zero {
        format!("−{shown}")
    } else {
        shown
    }
}
