//! Demands on site labels as people write them: `arch=x86_64`, `os!=windows`,
//! `mpi=openmpi|mpich`, `nodes>=4`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use cospan_domain::ids::SiteName;
use cospan_domain::job::spec::OverrideScope;
use cospan_domain::labels::{LabelConstraint, LabelRule};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use super::text;

/// The error of a text that is not a demand on a label.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{0:?} is not a demand on a label; write it like \"arch=x86_64\", \"os!=windows\", \
     \"mpi=openmpi|mpich\" or \"nodes>=4\", with letters, digits and . _ - + / : @ in keys and values"
)]
pub struct LabelDemandError(String);

/// A demand on the labels of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand(pub LabelConstraint);

fn parse_word(text: &str) -> Option<Arc<str>> {
    let valid = !text.is_empty()
        && text.len() <= 255
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || "._-+/:@".contains(c));
    valid.then(|| text.into())
}

/// Parses a number that is small enough for every reader of JSON to keep it exactly.
fn parse_count(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|number| *number < 1 << 53)
}

fn parse_demand(text: &str) -> Option<LabelConstraint> {
    if let Some((key, least)) = text.split_once(">=") {
        return Some(LabelConstraint {
            key: parse_word(key.trim())?,
            rule: LabelRule::AtLeast(parse_count(least)?),
        });
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Some(LabelConstraint {
            key: parse_word(key.trim())?,
            rule: LabelRule::IsNot(parse_word(value.trim())?),
        });
    }
    let (key, values) = text.split_once('=')?;
    let key = parse_word(key.trim())?;
    let rule = if values.contains('|') {
        LabelRule::OneOf(
            values
                .split('|')
                .map(|value| parse_word(value.trim()))
                .collect::<Option<_>>()?,
        )
    } else {
        LabelRule::Is(parse_word(values.trim())?)
    };
    Some(LabelConstraint { key, rule })
}

impl FromStr for Demand {
    type Err = LabelDemandError;

    fn from_str(text: &str) -> Result<Self, LabelDemandError> {
        parse_demand(text)
            .map(Demand)
            .ok_or_else(|| LabelDemandError(text.chars().take(80).collect()))
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.0.key;
        match &self.0.rule {
            LabelRule::Is(value) => write!(f, "{key}={value}"),
            LabelRule::IsNot(value) => write!(f, "{key}!={value}"),
            LabelRule::AtLeast(least) => write!(f, "{key}>={least}"),
            LabelRule::OneOf(values) => {
                let values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
                // A single alternative keeps its bar, so that it is read back unchanged.
                let bar = if values.len() == 1 { "|" } else { "" };
                write!(
                    f,
                    "{key}={}{bar}{}",
                    values.join("|"),
                    if bar.is_empty() { "" } else { values[0] }
                )
            }
        }
    }
}

impl Serialize for Demand {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        text::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for Demand {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::deserialize(from)
    }
}

/// The sites for which an override holds: a site's name, or `label=value`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OverrideTarget(pub OverrideScope);

impl FromStr for OverrideTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((key, value)) = text.split_once('=') {
            let label = parse_word(key.trim()).zip(parse_word(value.trim()));
            return label
                .map(|(key, value)| OverrideTarget(OverrideScope::Label(key, value)))
                .ok_or_else(|| {
                    format!("{text:?} is neither a site's name nor a label like \"arch=x86_64\"")
                });
        }
        SiteName::new(text)
            .map(|site| OverrideTarget(OverrideScope::Site(site)))
            .map_err(|error| error.to_string())
    }
}

impl fmt::Display for OverrideTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for OverrideTarget {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        text::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for OverrideTarget {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::deserialize(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_demand_is_read_back_as_it_was_written() {
        for text in [
            "arch=x86_64",
            "os!=windows",
            "mpi=mpich|openmpi",
            "nodes>=4",
        ] {
            let demand: Demand = text.parse().unwrap();
            assert_eq!(demand.to_string(), text);
        }
        let one = Demand(LabelConstraint {
            key: "a".into(),
            rule: LabelRule::OneOf(["b".into()].into()),
        });
        assert_eq!(one.to_string().parse(), Ok(one));
    }

    #[test]
    fn a_text_without_a_label_is_refused_with_examples() {
        for text in ["", "gcc", "=gcc", "arch=", "a b=c", "a=b|", "a>=b", "a>=-1"] {
            let error = text.parse::<Demand>().unwrap_err().to_string();
            assert!(error.contains("arch=x86_64"), "{error}");
        }
    }

    #[test]
    fn a_place_is_a_site_or_a_label() {
        assert_eq!(
            "delft".parse(),
            Ok(OverrideTarget(OverrideScope::Site(
                SiteName::new("delft").unwrap()
            )))
        );
        assert_eq!(
            "arch=arm64".parse(),
            Ok(OverrideTarget(OverrideScope::Label(
                "arch".into(),
                "arm64".into()
            )))
        );
        assert!("not a site".parse::<OverrideTarget>().is_err());
        assert!("=x".parse::<OverrideTarget>().is_err());
    }
}
