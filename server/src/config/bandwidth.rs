//! Bandwidths as people write them: `100Mbit/s`, `2.5Gbit/s`, `12MB/s`.

use cospan_domain::units::BitsPerSecond;

/// In ascending order for those that are written; bytes are only read.
const UNITS: [(&str, u64); 8] = [
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
    ("Tbit/s", 1_000_000_000_000),
    ("kB/s", 8_000),
    ("MB/s", 8_000_000),
    ("GB/s", 8_000_000_000),
];
const WRITTEN: usize = 5;

/// Reads a bandwidth.
///
/// # Errors
/// What is wrong with the text and how to write it.
pub fn parse_bandwidth(text: &str) -> Result<BitsPerSecond, String> {
    parse_bits_per_second(text)
        .map(BitsPerSecond)
        .map_err(|problem| {
            format!("{text:?} is not a bandwidth: {problem}; write it like 100Mbit/s or 12MB/s")
        })
}

/// Writes a bandwidth so that [`parse_bandwidth`] reads exactly the same value back.
pub fn format_bandwidth(bandwidth: BitsPerSecond) -> String {
    let exact =
        |(_, scale): &&(&str, u64)| bandwidth.0 >= *scale && bandwidth.0.is_multiple_of(*scale);
    match UNITS[..WRITTEN].iter().rev().find(exact) {
        Some((unit, scale)) => format!("{}{unit}", bandwidth.0 / scale),
        None => format!("{}bit/s", bandwidth.0),
    }
}

fn parse_bits_per_second(text: &str) -> Result<u64, &'static str> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start();
    if unit.is_empty() {
        return Err("its unit is missing");
    }
    let known = UNITS.iter().find(|(name, _)| *name == unit);
    let (_, scale) = known.ok_or("its unit is not known")?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: u128 = format!("{whole}{fraction}")
        .parse()
        .map_err(|_| "it does not begin with a number")?;
    let product = digits
        .checked_mul(u128::from(*scale))
        .ok_or("it is too large")?;
    let divisor = u32::try_from(fraction.len())
        .ok()
        .and_then(|n| 10u128.checked_pow(n));
    match divisor {
        Some(divisor) if product % divisor == 0 => {
            u64::try_from(product / divisor).map_err(|_| "it is too large")
        }
        _ => Err("its fraction is finer than one bit per second"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_bytes_are_kept_apart() {
        assert_eq!(parse_bandwidth("100Mbit/s"), Ok(BitsPerSecond(100_000_000)));
        assert_eq!(parse_bandwidth("12MB/s"), Ok(BitsPerSecond(96_000_000)));
        assert_eq!(
            parse_bandwidth("2.5 Gbit/s"),
            Ok(BitsPerSecond(2_500_000_000))
        );
    }

    #[test]
    fn a_bandwidth_that_could_be_misread_is_refused() {
        for text in [
            "",
            "100",
            "100MB",
            "100Mb/s",
            "fast",
            "1.2.3MB/s",
            "0.5bit/s",
            "-1bit/s",
        ] {
            assert!(parse_bandwidth(text).is_err(), "{text}");
        }
        assert!(
            parse_bandwidth("99999999999999999999GB/s")
                .unwrap_err()
                .contains("too large")
        );
    }

    #[test]
    fn what_is_written_is_read_back_as_it_was() {
        for n in [0, 1, 1_000, 1_024, 4_000_000_000, u64::MAX] {
            let link = BitsPerSecond(n);
            assert_eq!(parse_bandwidth(&format_bandwidth(link)), Ok(link));
        }
    }
}
