//! Instants as whole milliseconds in serialized records.

use cospan_domain::units::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes the milliseconds of `at`.
pub(super) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    at.0.serialize(to)
}

/// Reads milliseconds.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    u64::deserialize(from).map(Timestamp)
}

/// The same for an instant that may never have come.
pub(super) mod optional {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Timestamp};

    /// Writes the milliseconds of `at`, or nothing.
    pub(crate) fn serialize<S: Serializer>(
        at: &Option<Timestamp>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        at.map(|at| at.0).serialize(to)
    }

    /// Reads milliseconds, or nothing.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Timestamp))
    }
}
