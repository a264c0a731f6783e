//! Labels of sites (architecture, software, ...) and what components demand of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Labels of a site; a key may have several values (`software` = gcc, mpi).
pub type Labels = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

/// A value that stands for any: the site takes whatever is asked for under this key.
pub const ANY: &str = "*";

/// One demand on a site's labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constraint {
    /// The label's key.
    pub key: Arc<str>,
    /// What its values must be.
    pub rule: Rule,
}

/// How a label must be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The site has this value.
    Is(Arc<str>),
    /// The site has one of these values.
    OneOf(BTreeSet<Arc<str>>),
    /// The site does not have this value.
    IsNot(Arc<str>),
}

impl Constraint {
    /// Whether a site with these labels satisfies the demand.
    pub fn holds(&self, labels: &Labels) -> bool {
        let values = labels.get(&self.key);
        let has = |value: &str| values.is_some_and(|values| values.contains(value));
        match &self.rule {
            Rule::Is(value) => has(value) || has(ANY),
            Rule::OneOf(accepted) => accepted.iter().any(|value| has(value)) || has(ANY),
            Rule::IsNot(value) => !has(value),
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            Rule::Is(value) => write!(f, "{} = {value}", self.key),
            Rule::IsNot(value) => write!(f, "{} is not {value}", self.key),
            Rule::OneOf(accepted) => {
                let accepted: Vec<&str> = accepted.iter().map(AsRef::as_ref).collect();
                write!(f, "{} is one of {}", self.key, accepted.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Labels {
        [("software".into(), ["gcc".into(), "mpi".into()].into())].into()
    }

    #[test]
    fn one_of_several_values_is_enough() {
        let demand = |rule| Constraint { key: "software".into(), rule };
        assert!(demand(Rule::Is("mpi".into())).holds(&labels()));
        assert!(demand(Rule::OneOf(["icc".into(), "gcc".into()].into())).holds(&labels()));
        assert!(!demand(Rule::IsNot("gcc".into())).holds(&labels()));
    }

    #[test]
    fn a_site_with_any_value_takes_whatever_is_asked_for() {
        let labels: Labels = [("account".into(), [ANY.into()].into())].into();
        let demand = |rule| Constraint { key: "account".into(), rule };
        assert!(demand(Rule::Is("physics".into())).holds(&labels));
        assert!(demand(Rule::OneOf(["a".into(), "b".into()].into())).holds(&labels));
        assert!(demand(Rule::IsNot("physics".into())).holds(&labels));
    }

    #[test]
    fn a_label_that_the_site_lacks_satisfies_only_a_not() {
        let demand = |rule| Constraint { key: "arch".into(), rule };
        assert!(!demand(Rule::Is("arm64".into())).holds(&labels()));
        assert!(demand(Rule::IsNot("arm64".into())).holds(&labels()));
    }
}
