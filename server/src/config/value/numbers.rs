//! Numbers as values.

use cospan_domain::acquisition::BenchmarkScore;
use cospan_domain::bid::{DimensionWeight, DimensionWeights};
use cospan_domain::units::{Mflops, PerMillion};
use toml::de::DeValue;

use super::{OptionValue, kind_of_value, read_entries};

macro_rules! whole_number {
    ($($type:ty),*) => {$(
        impl OptionValue for $type {
            fn form() -> String {
                "a whole number".into()
            }

            fn read(value: &DeValue<'_>) -> Result<Self, String> {
                let DeValue::Integer(number) = value else {
                    return Err(format!("{} where a whole number is expected", kind_of_value(value)));
                };
                <$type>::from_str_radix(number.as_str(), number.radix()).map_err(|_| {
                    format!("{number} is out of range: give 0 to {}", <$type>::MAX)
                })
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

whole_number!(u16, u32, u64);

/// A ratio, kept to the millionth.
impl OptionValue for PerMillion {
    fn form() -> String {
        "a ratio like 0.75".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        let number = read_decimal(value)
            .filter(|number| (0.0..=4_000.0).contains(number))
            .ok_or_else(|| {
                format!(
                    "{} where a ratio from 0 to 1 is expected",
                    kind_of_value(value)
                )
            })?;
        Ok(PerMillion((number * 1e6).round() as u32))
    }

    fn show(&self) -> String {
        let ratio = f64::from(self.0) / 1e6;
        format!("{ratio:?}")
    }
}

fn read_decimal(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(number) => number.as_str().parse().ok(),
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    }
}

/// In GFLOPS, kept to the thousandth.
impl OptionValue for Mflops {
    fn form() -> String {
        "a number like 38.4".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        let number = read_decimal(value).filter(|number| (0.0..=1e9).contains(number));
        Ok(Mflops(
            (number.ok_or_else(|| {
                format!(
                    "{} where a number of GFLOPS is expected",
                    kind_of_value(value)
                )
            })? * 1e3)
                .round() as u64,
        ))
    }

    fn show(&self) -> String {
        format!("{:?}", self.0 as f64 / 1e3)
    }
}

/// A result of a benchmark, kept to the millionth.
pub(super) fn read_score(value: &DeValue<'_>) -> Result<BenchmarkScore, String> {
    read_decimal(value)
        .and_then(BenchmarkScore::new)
        .ok_or_else(|| {
            format!(
                "{} where a number from 0 to {:?} is expected",
                kind_of_value(value),
                BenchmarkScore::MAX.as_f64()
            )
        })
}

/// Factors by dimension: `{ compute = 0.5 }`.
impl OptionValue for DimensionWeights {
    fn form() -> String {
        "a table like { compute = 0.5 }".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        let weights = read_entries(value, |value| {
            let number = read_decimal(value)
                .ok_or_else(|| format!("{} where a number is expected", kind_of_value(value)))?;
            DimensionWeight::new(number).map_err(|error| error.to_string())
        })?;
        let named = weights.iter().map(|(name, weight)| (&**name, *weight));
        DimensionWeights::from_named(named).map_err(|error| error.to_string())
    }

    fn show(&self) -> String {
        let shown = self
            .by_name()
            .map(|(name, weight)| format!("{name} = {:?}", weight.factor()));
        format!("{{ {} }}", shown.collect::<Vec<_>>().join(", "))
    }
}
