//! Counts of the kinds of resource that a site has, as plain numbers in a fixed order.

use std::sync::Arc;

use thiserror::Error;

use crate::resources::Resources;

/// The most kinds of resource that a site can count.
pub const KINDS_MAX: usize = 8;
/// The largest amount of a kind that can be asked for, or be there: far from where sums overflow.
pub const AMOUNT_MAX: i64 = 1 << 48;

/// The reason why resources are not amounts of a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ResourceKindsError {
    /// The site counts too many kinds.
    #[error("{count} kinds of resource are more than the {KINDS_MAX} that can be planned with")]
    TooMany { count: usize },
    /// The site does not count it.
    #[error("the site has no {kind}")]
    Unknown { kind: Arc<str> },
    /// The amount is beyond any site.
    #[error("{amount} {kind} are more than the {AMOUNT_MAX} that can be planned with")]
    TooMuch {
        kind: Arc<str>,
        /// The amount that was given.
        amount: u64,
    },
}

/// The kinds of resource of one site: processors, and then the others by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceKinds {
    others: Vec<Arc<str>>,
}

impl ResourceKinds {
    /// Collects the kinds that `resources` name.
    ///
    /// # Errors
    /// More than [`KINDS_MAX`].
    pub fn from_resources(resources: &Resources) -> Result<Self, ResourceKindsError> {
        let kinds = Self {
            others: resources.others.keys().cloned().collect(),
        };
        match kinds.len() {
            count if count > KINDS_MAX => Err(ResourceKindsError::TooMany { count }),
            _ => Ok(kinds),
        }
    }

    /// The number of kinds; at least one.
    #[expect(clippy::len_without_is_empty, reason = "processors are always counted")]
    pub fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// Converts `resources` to amounts in the order of these kinds.
    ///
    /// # Errors
    /// Some of a kind that is not among these, or more than [`AMOUNT_MAX`].
    pub fn to_amounts(&self, resources: &Resources) -> Result<ResourceAmounts, ResourceKindsError> {
        let mut amounts = ResourceAmounts::processors(resources.processors);
        for (kind, &amount) in resources.others.iter().filter(|(_, amount)| **amount > 0) {
            let Ok(index) = self.others.binary_search(kind) else {
                return Err(ResourceKindsError::Unknown { kind: kind.clone() });
            };
            amounts.0[1 + index] = i64::try_from(amount)
                .ok()
                .filter(|amount| *amount <= AMOUNT_MAX)
                .ok_or_else(|| ResourceKindsError::TooMuch {
                    kind: kind.clone(),
                    amount,
                })?;
        }
        Ok(amounts)
    }

    /// Converts `amounts` to resources by name; what is below zero counts as nothing.
    pub fn to_resources(&self, amounts: &ResourceAmounts) -> Resources {
        let others = self.others.iter().cloned().zip(
            amounts.0[1..]
                .iter()
                .copied()
                .map(|amount: i64| u64::try_from(amount).unwrap_or(0)),
        );
        Resources {
            processors: amounts.whole_processors(),
            others: others.collect(),
        }
    }
}

/// An amount of each kind, in the order of the timeline's [`ResourceKinds`]: processors first. As a
/// need, zero and below is no need at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ResourceAmounts(pub(super) [i64; KINDS_MAX]);

impl ResourceAmounts {
    /// Creates an amount of processors and nothing else.
    pub fn processors(processors: u32) -> Self {
        let mut amounts = Self::default();
        amounts.0[0] = processors.into();
        amounts
    }

    /// The number of processors; below zero where more are reserved than there are.
    pub fn free_processor_count(&self) -> i64 {
        self.0[0]
    }

    /// The number of processors that can be had.
    pub fn whole_processors(&self) -> u32 {
        u32::try_from(self.0[0].max(0)).unwrap_or(u32::MAX)
    }

    /// Adds `self` and `other`, kind by kind.
    pub fn plus(&self, other: &Self) -> Self {
        self.zip_with(other, i64::saturating_add)
    }

    /// Subtracts `other` from `self`, kind by kind.
    pub fn minus(&self, other: &Self) -> Self {
        self.zip_with(other, i64::saturating_sub)
    }

    /// Returns true if it has all that `need` needs.
    pub fn covers_need(&self, need: &Self) -> bool {
        self.0
            .iter()
            .zip(&need.0)
            .all(|(free, need)| free >= need || *need <= 0)
    }

    pub(super) fn negated(&self) -> Self {
        Self::default().minus(self)
    }

    pub(super) fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn min(&self, other: &Self) -> Self {
        self.zip_with(other, Ord::min)
    }

    pub(super) fn max(&self, other: &Self) -> Self {
        self.zip_with(other, Ord::max)
    }

    /// Returns true if each kind is at least as much.
    pub(in crate::reservation) fn reaches_all(&self, needed: &Self) -> bool {
        self.0
            .iter()
            .zip(&needed.0)
            .all(|(free, needed)| free >= needed)
    }

    /// Converts a need to a bar to be reached: a kind that is not needed is reached however little
    /// is free.
    pub(super) fn as_bar(&self) -> Self {
        Self(
            self.0
                .map(|need| if need <= 0 { i64::MIN / 2 } else { need }),
        )
    }

    fn zip_with(&self, other: &Self, f: impl Fn(i64, i64) -> i64) -> Self {
        Self(std::array::from_fn(|kind| f(self.0[kind], other.0[kind])))
    }
}
