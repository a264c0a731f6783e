//! The weights of the dimensions: the constants K.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::dimensions::Dimension;

/// A factor from 0 to 1,000, in thousandths; an integer, so that requests with weights compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DimensionWeight(u32);

/// A factor for each dimension, at least one of them above 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DimensionWeights([DimensionWeight; Dimension::COUNT]);

/// A mistake in weights.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum DimensionWeightError {
    /// It is negative, too large, or not a number.
    #[error("a weight is {0}; it must be from 0 to 1000, with at most three decimals")]
    OutOfRange(String),
    #[error("no dimension is called {name:?}; there are: {known}")]
    NoSuchDimension {
        /// The name as given.
        name: String,
        /// All known names, as a list.
        known: String,
    },
    /// All weights are 0: every site would be equally near.
    #[error("all weights are 0, so all sites would be equally near; give one above 0")]
    AllZero,
}

impl DimensionWeight {
    /// The published weight.
    pub const ONE: DimensionWeight = DimensionWeight(1_000);
    /// The weight of a dimension that does not count.
    pub const ZERO: DimensionWeight = DimensionWeight(0);

    const MOST: u32 = 1_000_000;

    /// Makes a weight from thousandths.
    ///
    /// # Errors
    /// It is above 1,000.
    pub fn from_thousandths(thousandths: u32) -> Result<Self, DimensionWeightError> {
        match thousandths {
            0..=Self::MOST => Ok(Self(thousandths)),
            _ => Err(DimensionWeightError::OutOfRange(
                Self(thousandths).to_string(),
            )),
        }
    }

    /// Makes a weight from a number.
    ///
    /// # Errors
    /// It is below 0, above 1,000, not a number, or has more than three decimals.
    pub fn new(factor: f64) -> Result<Self, DimensionWeightError> {
        let thousandths = (factor * 1_000.0).round();
        let is_exact = (factor * 1_000.0 - thousandths).abs() < 1e-6;
        if is_exact && (0.0..=f64::from(Self::MOST)).contains(&thousandths) {
            return Ok(Self(thousandths as u32));
        }
        Err(DimensionWeightError::OutOfRange(factor.to_string()))
    }

    /// Returns the weight in thousandths.
    pub fn thousandths(self) -> u32 {
        self.0
    }

    /// Returns the weight as a factor.
    pub fn factor(self) -> f64 {
        f64::from(self.0) / 1_000.0
    }
}

impl fmt::Display for DimensionWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.factor().fmt(f)
    }
}

impl FromStr for DimensionWeight {
    type Err = DimensionWeightError;

    fn from_str(text: &str) -> Result<Self, DimensionWeightError> {
        let factor = text
            .parse()
            .map_err(|_| DimensionWeightError::OutOfRange(format!("{text:?}")))?;
        Self::new(factor)
    }
}

impl Default for DimensionWeights {
    fn default() -> Self {
        Self([DimensionWeight::ONE; Dimension::COUNT])
    }
}

impl DimensionWeights {
    /// Makes weights by name of the dimension; those not named get the published weight.
    ///
    /// # Errors
    /// A name is unknown, or all weights are 0.
    pub fn from_named<'a>(
        named: impl IntoIterator<Item = (&'a str, DimensionWeight)>,
    ) -> Result<Self, DimensionWeightError> {
        let mut weights = Self::default();
        for (name, weight) in named {
            let dimension = Dimension::from_name(name).ok_or_else(|| unknown_dimension(name))?;
            weights.0[dimension as usize] = weight;
        }
        let counts = weights
            .0
            .iter()
            .any(|weight| *weight > DimensionWeight::ZERO);
        if counts {
            Ok(weights)
        } else {
            Err(DimensionWeightError::AllZero)
        }
    }

    /// Returns the weight of a dimension.
    pub fn get(&self, dimension: Dimension) -> DimensionWeight {
        self.0[dimension as usize]
    }

    /// Lists all weights by name.
    pub fn by_name(&self) -> impl Iterator<Item = (&'static str, DimensionWeight)> + '_ {
        Dimension::ALL
            .iter()
            .map(|dimension| (dimension.as_str(), self.get(*dimension)))
    }
}

fn unknown_dimension(name: &str) -> DimensionWeightError {
    let known: Vec<&str> = Dimension::ALL
        .iter()
        .map(|dimension| dimension.as_str())
        .collect();
    DimensionWeightError::NoSuchDimension {
        name: name.into(),
        known: known.join(", "),
    }
}
