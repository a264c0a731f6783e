//! The seed of Close-to-Files' history table, as the configuration has it.

use std::collections::BTreeSet;

use cospan_domain::ids::SiteName;
use cospan_domain::placement::SitePairHistory;
use toml::de::DeValue;

use super::value::{OptionValue, kind_of_value, quote};

/// `"all"`, or a list of pairs, each `"SITE<FILE_SITE"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitialPairHistory(pub SitePairHistory);

impl InitialPairHistory {
    /// The sites that the seed names.
    pub fn sites(&self) -> BTreeSet<&SiteName> {
        match &self.0 {
            SitePairHistory::All => BTreeSet::new(),
            SitePairHistory::Pairs(pairs) => pairs
                .iter()
                .flat_map(|(execution, file)| [execution, file])
                .collect(),
        }
    }
}

impl OptionValue for InitialPairHistory {
    fn form() -> String {
        "\"all\" or a list, each a pair like \"delft<leiden\"".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::String(text) if text == "all" => Ok(InitialPairHistory(SitePairHistory::All)),
            DeValue::Array(_) => {
                let texts = Vec::<String>::read(value)?;
                if texts.is_empty() {
                    return Err(
                        "no pairs, with which close-to-files could place nothing: give some, or \"all\""
                            .into(),
                    );
                }
                let pairs = texts
                    .iter()
                    .map(|text| parse_pair(text))
                    .collect::<Result<_, _>>()?;
                Ok(InitialPairHistory(SitePairHistory::Pairs(pairs)))
            }
            other => Err(format!(
                "{} where {} is expected",
                kind_of_value(other),
                Self::form()
            )),
        }
    }

    fn show(&self) -> String {
        match &self.0 {
            SitePairHistory::All => quote("all"),
            SitePairHistory::Pairs(pairs) => {
                format!(
                    "[{}]",
                    pairs
                        .iter()
                        .map(|(execution, file): &(SiteName, SiteName)| {
                            quote(&format!("{execution}<{file}"))
                        })
                        .collect::<Vec<_>>()
                        .join(", ")
                )
            }
        }
    }
}

fn parse_pair(text: &str) -> Result<(SiteName, SiteName), String> {
    let (execution, file) = text
        .split_once('<')
        .ok_or_else(|| format!("{text:?} is no pair like \"delft<leiden\""))?;
    let execution = SiteName::new(execution.trim()).map_err(|e| e.to_string())?;
    let file = SiteName::new(file.trim()).map_err(|e| e.to_string())?;
    Ok((execution, file))
}
