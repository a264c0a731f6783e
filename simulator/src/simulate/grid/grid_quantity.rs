//! Times, sizes and bandwidths as people write them: `1h30m`, `4GB`, `100 Mbit/s`.

use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs};

use cospan_api::v1::quantity::Length;

type UnitTable = [(&'static str, u64)];

const BANDWIDTHS: &UnitTable = &[
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
    ("Tbit/s", 1_000_000_000_000),
    ("kB/s", 8_000),
    ("MB/s", 8_000_000),
    ("GB/s", 8_000_000_000),
];

const SIZES: &UnitTable = &[
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Reads a bandwidth; the error says what is wrong and how to write it.
pub(super) fn parse_bandwidth(text: &str) -> Result<BitsPerSecond, String> {
    parse_scaled(text, BANDWIDTHS)
        .map(BitsPerSecond)
        .map_err(|problem| {
            format!(
                "{text:?} is not a bandwidth: {problem}; write it like \"100 Mbit/s\" or \"12MB/s\""
            )
        })
}

/// Reads a size; the error says what is wrong and how to write it.
pub(super) fn parse_size(text: &str) -> Result<Bytes, String> {
    parse_scaled(text, SIZES).map(Bytes).map_err(|problem| {
        format!("{text:?} is not a size: {problem}; write it like \"4GB\" or \"512MiB\"")
    })
}

/// Reads a length of time; the error says how to write it.
pub(super) fn parse_length(text: &str) -> Result<DurationMs, String> {
    text.parse()
        .map(|Length(length)| length)
        .map_err(|invalid| invalid.to_string())
}

/// Reads a decimal number times its unit, exactly.
fn parse_scaled(text: &str, units: &UnitTable) -> Result<u64, &'static str> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: u128 = match format!("{whole}{fraction}").parse() {
        Ok(digits) => digits,
        Err(_) if number.len() > 30 => return Err("it is too long"),
        Err(_) => return Err("it does not begin with a number"),
    };
    let scale = match (
        unit.trim_start(),
        units.iter().find(|(name, _)| *name == unit.trim_start()),
    ) {
        ("", _) => return Err("its unit is missing"),
        (_, None) => return Err("its unit is not known"),
        (_, Some((_, scale))) => u128::from(*scale),
    };
    let divisor = u32::try_from(fraction.len())
        .ok()
        .and_then(|digits| 10_u128.checked_pow(digits));
    match (digits.checked_mul(scale), divisor) {
        (Some(product), Some(divisor)) if product % divisor == 0 => {
            u64::try_from(product / divisor).map_err(|_| "it is too large")
        }
        (None, _) => Err("it is too large"),
        _ => Err("its fraction is too fine"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_of_time_are_read_in_both_forms() {
        let cases = [
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("30d", 2_592_000_000),
            ("2ms", 2),
            ("1-12:00:00", 129_600_000),
            ("01:30:00", 5_400_000),
            ("2:05", 125_000),
        ];
        for (text, ms) in cases {
            assert_eq!(parse_length(text), Ok(DurationMs(ms)), "{text}");
        }
    }

    #[test]
    fn bits_and_bytes_are_kept_apart() {
        assert_eq!(
            parse_bandwidth("100 Mbit/s"),
            Ok(BitsPerSecond(100_000_000))
        );
        assert_eq!(
            parse_bandwidth("2.5Gbit/s"),
            Ok(BitsPerSecond(2_500_000_000))
        );
        assert_eq!(parse_bandwidth("12MB/s"), Ok(BitsPerSecond(96_000_000)));
        assert_eq!(parse_size("4GB"), Ok(Bytes(4_000_000_000)));
        assert_eq!(parse_size("0.5 GiB"), Ok(Bytes(1 << 29)));
    }

    #[test]
    fn what_could_be_misread_is_refused_with_an_example() {
        for text in [
            "",
            "90",
            "-5s",
            "1:2:3:4",
            "00:61:00",
            "1-5:00",
            "9999999999:00",
            "1e9d",
        ] {
            assert!(parse_length(text).unwrap_err().contains("1h30m"), "{text}");
        }
        for text in [
            "",
            "100",
            "100Mb/s",
            "100MB",
            "1.2.3MB/s",
            "0.5bit/s",
            "-1bit/s",
            ".",
        ] {
            assert!(
                parse_bandwidth(text).unwrap_err().contains("100 Mbit/s"),
                "{text}"
            );
        }
        for text in ["4", "4gb", "GB", "99999999999TB", "0.1B"] {
            assert!(parse_size(text).unwrap_err().contains("4GB"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_reader_fail_other_than_by_an_error(text in "[0-9.:dhms MGTkiBbt/-]{0,60}") {
            let _ = (parse_length(&text), parse_size(&text), parse_bandwidth(&text));
        }

        #[test]
        fn a_number_with_a_fraction_is_read_exactly(thousandths in 0_u64..1_000_000_000) {
            let text = format!("{}.{:03}kbit/s", thousandths / 1000, thousandths % 1000);
            prop_assert_eq!(parse_bandwidth(&text), Ok(BitsPerSecond(thousandths)));
        }
    }
}
