//! Weights of dimensions as numbers on the wire.

use cospan_domain::bid::DimensionWeight;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A weight, written as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Factor(pub DimensionWeight);

impl Serialize for Factor {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.0.factor())
    }
}

impl<'de> Deserialize<'de> for Factor {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        DimensionWeight::new(f64::deserialize(from)?)
            .map(Factor)
            .map_err(Error::custom)
    }
}
