//! Labels of sites (architecture, software, ...) and the constraints of components on them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Labels of a site; a key may have several values (`software` = gcc, mpi).
pub type SiteLabels = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

/// A value that stands for any: the site takes whatever is asked for under this key.
pub const ANY: &str = "*";

/// The most nodes of one component.
pub const NODES: &str = "nodes";
/// The most processors of a node.
pub const NODE_PROCESSORS: &str = "node_processors";
/// The most memory of a node, in megabytes.
pub const NODE_MEMORY_MB: &str = "node_memory_mb";
/// The most graphics processors of a node.
pub const NODE_GPUS: &str = "node_gpus";

/// A constraint on a label of a site.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelConstraint {
    /// The label's key.
    pub key: Arc<str>,
    /// The rule for its values.
    pub rule: LabelRule,
}

/// The rule for the values of a label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelRule {
    /// The site has this value.
    Is(Arc<str>),
    /// The site has one of these values.
    OneOf(BTreeSet<Arc<str>>),
    /// The site does not have this value.
    IsNot(Arc<str>),
    /// A value of the site is a number of at least this.
    AtLeast(u64),
}

impl LabelConstraint {
    /// Returns true if a site with these labels satisfies the constraint.
    pub fn matches_labels(&self, labels: &SiteLabels) -> bool {
        let values = labels.get(&self.key);
        let has = |value: &str| values.is_some_and(|values| values.contains(value));
        match &self.rule {
            LabelRule::Is(value) => has(value) || has(ANY),
            LabelRule::OneOf(accepted) => accepted.iter().any(|value| has(value)) || has(ANY),
            LabelRule::IsNot(value) => !has(value),
            LabelRule::AtLeast(least) => {
                values.is_some_and(|values| {
                    values
                        .iter()
                        .any(|value: &Arc<str>| value.parse().is_ok_and(|n: u64| n >= *least))
                }) || has(ANY)
            }
        }
    }
}

impl fmt::Display for LabelConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            LabelRule::Is(value) => write!(f, "{} = {value}", self.key),
            LabelRule::IsNot(value) => write!(f, "{} is not {value}", self.key),
            LabelRule::AtLeast(least) => write!(f, "{} is at least {least}", self.key),
            LabelRule::OneOf(accepted) => {
                let accepted: Vec<&str> = accepted.iter().map(AsRef::as_ref).collect();
                write!(f, "{} is one of {}", self.key, accepted.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> SiteLabels {
        [("software".into(), ["gcc".into(), "mpi".into()].into())].into()
    }

    #[test]
    fn one_of_several_values_is_enough() {
        let demand = |rule| LabelConstraint {
            key: "software".into(),
            rule,
        };
        assert!(demand(LabelRule::Is("mpi".into())).matches_labels(&labels()));
        assert!(
            demand(LabelRule::OneOf(["icc".into(), "gcc".into()].into())).matches_labels(&labels())
        );
        assert!(!demand(LabelRule::IsNot("gcc".into())).matches_labels(&labels()));
    }

    #[test]
    fn the_largest_of_several_numbers_decides_whether_there_is_enough() {
        let labels: SiteLabels = [(
            "nodes".into(),
            ["4".into(), "12".into(), "many".into()].into(),
        )]
        .into();
        let holds = |least| {
            LabelConstraint {
                key: "nodes".into(),
                rule: LabelRule::AtLeast(least),
            }
            .matches_labels(&labels)
        };
        assert_eq!((holds(5), holds(12), holds(13)), (true, true, false));
    }

    #[test]
    fn a_site_with_any_value_takes_whatever_is_asked_for() {
        let labels: SiteLabels = [("account".into(), [ANY.into()].into())].into();
        let demand = |rule| LabelConstraint {
            key: "account".into(),
            rule,
        };
        assert!(demand(LabelRule::Is("physics".into())).matches_labels(&labels));
        assert!(demand(LabelRule::OneOf(["a".into(), "b".into()].into())).matches_labels(&labels));
        assert!(demand(LabelRule::IsNot("physics".into())).matches_labels(&labels));
    }

    #[test]
    fn a_label_that_the_site_lacks_satisfies_only_a_not() {
        let demand = |rule| LabelConstraint {
            key: "arch".into(),
            rule,
        };
        assert!(!demand(LabelRule::Is("arm64".into())).matches_labels(&labels()));
        assert!(demand(LabelRule::IsNot("arm64".into())).matches_labels(&labels()));
    }
}
