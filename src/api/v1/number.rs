//! Whole numbers on the wire, with errors that name the range.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// A kind of whole number that can be read.
pub(super) trait WholeNumber: TryFrom<u64> {
    /// Its largest value.
    const MAX: u64;
}

impl WholeNumber for u32 {
    const MAX: u64 = u32::MAX as u64;
}

/// What every reader of JSON takes for a whole number of 64 bits.
impl WholeNumber for u64 {
    const MAX: u64 = i64::MAX as u64;
}

struct WholeVisitor<T> {
    least: u64,
    kind: PhantomData<T>,
}

impl<T: WholeNumber> WholeVisitor<T> {
    fn new(least: u64) -> Self {
        Self {
            least,
            kind: PhantomData,
        }
    }
}

impl<T: WholeNumber> Visitor<'_> for WholeVisitor<T> {
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

    /// In JSON `3.0` is a whole number, too.
    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        if value.fract() == 0.0 && (0.0..i64::MAX as f64).contains(&value) {
            return self.visit_u64(value as u64);
        }
        Err(E::invalid_value(Unexpected::Float(value), &self))
    }
}

/// A number that must be at least 1. Every format says what it found instead of choosing the words
/// itself: told that a number is wanted, YAML would only say that there is none.
pub(super) fn positive<'de, D: Deserializer<'de>, T: WholeNumber>(from: D) -> Result<T, D::Error> {
    from.deserialize_any(WholeVisitor::new(1))
}

/// A number that may be 0.
pub(super) fn any<'de, D: Deserializer<'de>, T: WholeNumber>(from: D) -> Result<T, D::Error> {
    from.deserialize_any(WholeVisitor::new(0))
}

struct Positive<T>(T);

impl<'de, T: WholeNumber> Deserialize<'de> for Positive<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        positive(from).map(Positive)
    }
}

/// A number that is missing, or at least 1.
pub(super) fn positive_option<'de, D, T: WholeNumber>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
{
    Option::<Positive<T>>::deserialize(from).map(|number| number.map(|Positive(number)| number))
}

struct Any<T>(T);

impl<'de, T: WholeNumber> Deserialize<'de> for Any<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        any(from).map(Any)
    }
}

/// A number that may be missing, or 0.
pub(super) fn any_option<'de, D, T: WholeNumber>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
{
    Option::<Any<T>>::deserialize(from).map(|number| number.map(|Any(number)| number))
}

/// Numbers that may be 0.
pub(super) fn list<'de, D, T: WholeNumber>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
{
    let list = Vec::<Any<T>>::deserialize(from)?;
    Ok(list.into_iter().map(|Any(number)| number).collect())
}

/// Lists of such numbers.
pub(super) fn lists<'de, D, T: WholeNumber>(from: D) -> Result<Vec<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
{
    let lists = Vec::<Vec<Any<T>>>::deserialize(from)?;
    Ok(lists
        .into_iter()
        .map(|list: Vec<Any<T>>| list.into_iter().map(|Any(number)| number).collect())
        .collect())
}

/// Counts by name, each at least 1.
pub(super) fn positive_map<'de, D>(from: D) -> Result<BTreeMap<Arc<str>, u64>, D::Error>
where
    D: Deserializer<'de>,
{
    let map = BTreeMap::<Arc<str>, Positive<u64>>::deserialize(from)?;
    Ok(map
        .into_iter()
        .map(|(name, Positive(count))| (name, count))
        .collect())
}
