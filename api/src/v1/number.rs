//! Whole numbers on the wire, with errors that name the range.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// A type of whole number that can be read.
pub(super) trait WholeNumber: TryFrom<u64> {
    /// The largest value.
    const MAX: u64;
}

impl WholeNumber for u32 {
    const MAX: u64 = u32::MAX as u64;
}

/// The largest integers that every reader of JSON keeps exactly.
impl WholeNumber for u64 {
    const MAX: u64 = i64::MAX as u64;
}

struct WholeNumberVisitor<T> {
    least: u64,
    kind: PhantomData<T>,
}

impl<T: WholeNumber> WholeNumberVisitor<T> {
    fn new(least: u64) -> Self {
        Self {
            least,
            kind: PhantomData,
        }
    }
}

impl<T: WholeNumber> Visitor<'_> for WholeNumberVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {} to {}", self.least, T::MAX)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        match T::try_from(value) {
            Ok(number) if (self.least..=T::MAX).contains(&value) => Ok(number),
            _ => Err(E::invalid_value(Unexpected::Unsigned(value), &self)),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }

    /// Accepts `3.0`, which is a whole number in JSON.
    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        if value.fract() == 0.0 && (0.0..i64::MAX as f64).contains(&value) {
            return self.visit_u64(value as u64);
        }
        Err(E::invalid_value(Unexpected::Float(value), &self))
    }
}

/// Reads a number of at least 1. It asks the format for any value: asked for a number, YAML would
/// only report that there is none, not what it found.
pub(super) fn positive<'de, D: Deserializer<'de>, T: WholeNumber>(from: D) -> Result<T, D::Error> {
    from.deserialize_any(WholeNumberVisitor::new(1))
}

/// Reads a number that may be 0.
pub(super) fn any<'de, D: Deserializer<'de>, T: WholeNumber>(from: D) -> Result<T, D::Error> {
    from.deserialize_any(WholeNumberVisitor::new(0))
}

struct PositiveNumber<T>(T);

impl<'de, T: WholeNumber> Deserialize<'de> for PositiveNumber<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        positive(from).map(PositiveNumber)
    }
}

/// Reads a number of at least 1 that may be missing.
pub(super) fn positive_option<'de, D, T: WholeNumber>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
{
    Option::<PositiveNumber<T>>::deserialize(from)
        .map(|number| number.map(|PositiveNumber(number)| number))
}

struct UnboundedNumber<T>(T);

impl<'de, T: WholeNumber> Deserialize<'de> for UnboundedNumber<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        any(from).map(UnboundedNumber)
    }
}

/// Reads a number that may be missing or 0.
pub(super) fn any_option<'de, D, T: WholeNumber>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
{
    Option::<UnboundedNumber<T>>::deserialize(from)
        .map(|number| number.map(|UnboundedNumber(number)| number))
}

/// Reads numbers that may be 0.
pub(super) fn list<'de, D, T: WholeNumber>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
{
    let list = Vec::<UnboundedNumber<T>>::deserialize(from)?;
    Ok(list
        .into_iter()
        .map(|UnboundedNumber(number)| number)
        .collect())
}

/// Reads lists of numbers that may be 0.
pub(super) fn lists<'de, D, T: WholeNumber>(from: D) -> Result<Vec<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
{
    let lists = Vec::<Vec<UnboundedNumber<T>>>::deserialize(from)?;
    Ok(lists
        .into_iter()
        .map(|list: Vec<UnboundedNumber<T>>| {
            list.into_iter()
                .map(|UnboundedNumber(number)| number)
                .collect()
        })
        .collect())
}

/// Reads counts by name, each at least 1.
pub(super) fn positive_map<'de, D>(from: D) -> Result<BTreeMap<Arc<str>, u64>, D::Error>
where
    D: Deserializer<'de>,
{
    let map = BTreeMap::<Arc<str>, PositiveNumber<u64>>::deserialize(from)?;
    Ok(map
        .into_iter()
        .map(|(name, PositiveNumber(count))| (name, count))
        .collect())
}
