//! Conversions between the domain's types and those in the store.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;

use cospan_domain::acquisition::BenchmarkScore;
use cospan_domain::ids::{
    Attempt, AttemptTag, ComponentIndex, ComponentName, Digest, IdempotencyKey, InstanceId, JobId,
    KeyName, LogicalName, LrmId, PolicyName, RelPath, ReservationName, Round, RunnerName, SiteName,
    TargetName,
};
use cospan_domain::reservation::ReservationSerial;
use cospan_domain::site::site_state::SiteNotificationId;
use cospan_domain::transfer::copy_state::TryNonce;
use cospan_domain::units::{Bytes, ClockSkew, DurationMs, Timestamp};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The reason why a stored record is not valid.
pub(crate) type RecordProblem = String;

/// A domain type with a form in the store.
pub(crate) trait WireConversion<W>: Sized {
    /// Returns the form in the store.
    fn to_wire(&self) -> W;

    /// Restores the value from it.
    fn from_wire(wire: W) -> Result<Self, RecordProblem>;
}

macro_rules! as_itself {
    ($($type:ty),*) => {$(
        impl WireConversion<$type> for $type {
            fn to_wire(&self) -> $type {
                self.clone()
            }

            fn from_wire(wire: $type) -> Result<Self, RecordProblem> {
                Ok(wire)
            }
        }
    )*};
}
as_itself!(u8, u32, u64, i64, bool, Arc<str>);

macro_rules! as_number {
    ($($type:ident($number:ty)),*) => {$(
        impl WireConversion<$number> for $type {
            fn to_wire(&self) -> $number {
                self.0
            }

            fn from_wire(wire: $number) -> Result<Self, RecordProblem> {
                Ok($type(wire))
            }
        }
    )*};
}
impl WireConversion<u32> for usize {
    fn to_wire(&self) -> u32 {
        u32::try_from(*self).unwrap_or(u32::MAX)
    }

    fn from_wire(wire: u32) -> Result<Self, RecordProblem> {
        Ok(wire as usize)
    }
}

as_number!(
    JobId(u64),
    ComponentIndex(u32),
    Round(u32),
    Attempt(u32),
    Timestamp(u64),
    ClockSkew(i64),
    DurationMs(u64),
    Bytes(u64),
    TryNonce(u64),
    SiteNotificationId(u64),
    ReservationSerial(u32),
    BenchmarkScore(u64)
);

/// A name, written as text and read without a detour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextValue<T>(pub(crate) T);

impl<T: Clone> WireConversion<TextValue<T>> for T {
    fn to_wire(&self) -> TextValue<T> {
        TextValue(self.clone())
    }

    fn from_wire(wire: TextValue<T>) -> Result<Self, RecordProblem> {
        Ok(wire.0)
    }
}

/// A type that is written as text.
pub(crate) trait TextForm: Display {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl TextForm for Digest {}
impl TextForm for InstanceId {}
impl TextForm for AttemptTag {}

/// Names are text already: displaying them takes several times as long.
macro_rules! names {
    ($($name:ty)*) => {
        $(impl TextForm for $name {
            fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        })*
    };
}

names! {
    ComponentName IdempotencyKey KeyName LogicalName LrmId PolicyName RelPath ReservationName RunnerName SiteName
    String TargetName
}

impl<T: TextForm> Serialize for TextValue<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.write(to)
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for TextValue<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct NameVisitor<T>(PhantomData<T>);

        impl<T: FromStr<Err: Display>> Visitor<'_> for NameVisitor<T> {
            type Value = TextValue<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TextValue<T>, E> {
                text.parse().map(TextValue).map_err(E::custom)
            }
        }

        from.deserialize_str(NameVisitor(PhantomData))
    }
}

impl<T: WireConversion<W>, W> WireConversion<Option<W>> for Option<T> {
    fn to_wire(&self) -> Option<W> {
        self.as_ref().map(T::to_wire)
    }

    fn from_wire(wire: Option<W>) -> Result<Self, RecordProblem> {
        wire.map(T::from_wire).transpose()
    }
}

macro_rules! as_list {
    ($($list:ident[$($item:ident)?]);*) => {$(
        impl<T: WireConversion<W> $(+ $item)?, W> WireConversion<Vec<W>> for $list<T> {
            fn to_wire(&self) -> Vec<W> {
                self.iter().map(T::to_wire).collect()
            }

            fn from_wire(wire: Vec<W>) -> Result<Self, RecordProblem> {
                wire.into_iter().map(T::from_wire).collect()
            }
        }
    )*};
}
as_list!(VecDeque[]; BTreeSet[Ord]);

impl<T: WireConversion<W>, W> WireConversion<Vec<W>> for Vec<T> {
    fn to_wire(&self) -> Vec<W> {
        self.iter().map(T::to_wire).collect()
    }

    /// Without spare capacity: the list is kept for long.
    fn from_wire(wire: Vec<W>) -> Result<Self, RecordProblem> {
        let mut values = Vec::with_capacity(wire.len());
        for value in wire {
            values.push(T::from_wire(value)?);
        }
        Ok(values)
    }
}

impl<K: WireConversion<A> + Ord, V: WireConversion<B>, A, B> WireConversion<Vec<(A, B)>>
    for BTreeMap<K, V>
{
    fn to_wire(&self) -> Vec<(A, B)> {
        self.iter()
            .map(|(key, value)| (key.to_wire(), value.to_wire()))
            .collect()
    }

    fn from_wire(wire: Vec<(A, B)>) -> Result<Self, RecordProblem> {
        wire.into_iter()
            .map(|(key, value)| Ok((K::from_wire(key)?, V::from_wire(value)?)))
            .collect()
    }
}

impl<T: WireConversion<A>, U: WireConversion<B>, A, B> WireConversion<(A, B)> for (T, U) {
    fn to_wire(&self) -> (A, B) {
        (self.0.to_wire(), self.1.to_wire())
    }

    fn from_wire(wire: (A, B)) -> Result<Self, RecordProblem> {
        Ok((T::from_wire(wire.0)?, U::from_wire(wire.1)?))
    }
}

/// Returns true if a field need not be written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Defines a struct of the store and its domain type. Fields after `;` are left out while they have
/// their default.
macro_rules! wire_struct {
    ($name:ident = $domain:ty {
        $($field:ident: $type:ty),* $(,)? $(; $($extra:ident: $extra_type:ty),* $(,)?)?
    }) => {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        pub(crate) struct $name {
            $(pub(crate) $field: $type,)*
            $($(
                #[serde(default, skip_serializing_if = "crate::record::v1::convert::is_default")]
                pub(crate) $extra: $extra_type,
            )*)?
        }

        impl crate::record::v1::WireConversion<$name> for $domain {
            fn to_wire(&self) -> $name {
                $name {
                    $($field: crate::record::v1::WireConversion::to_wire(&self.$field),)*
                    $($($extra: crate::record::v1::WireConversion::to_wire(&self.$extra),)*)?
                }
            }

            fn from_wire(wire: $name) -> Result<Self, crate::record::v1::RecordProblem> {
                Ok(Self {
                    $($field: crate::record::v1::WireConversion::from_wire(wire.$field)?,)*
                    $($($extra: crate::record::v1::WireConversion::from_wire(wire.$extra)?,)*)?
                })
            }
        }
    };
}

/// Defines an enum of the store and its domain type: variants with fields, with one value, or with
/// nothing.
macro_rules! wire_enum {
    ($name:ident = $domain:ident {
        $($variant:ident
            $({ $($field:ident: $type:ty),* $(,)? })?
            $(($inner:ty))?
        ),* $(,)?
    }) => {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        pub(crate) enum $name {
            $($variant $({ $($field: $type),* })? $(($inner))?),*
        }

        impl crate::record::v1::WireConversion<$name> for $domain {
            fn to_wire(&self) -> $name {
                match self {
                    $($domain::$variant
                        $({ $($field),* })?
                        $((wire_inner!($inner => inner)))?
                    => $name::$variant
                        $({ $($field: crate::record::v1::WireConversion::to_wire($field)),* })?
                        $((<_ as crate::record::v1::WireConversion<$inner>>::to_wire(inner)))?
                    ),*
                }
            }

            fn from_wire(wire: $name) -> Result<Self, crate::record::v1::RecordProblem> {
                Ok(match wire {
                    $($name::$variant
                        $({ $($field),* })?
                        $((wire_inner!($inner => inner)))?
                    => $domain::$variant
                        $({ $($field: crate::record::v1::WireConversion::from_wire($field)?),* })?
                        $((<_ as crate::record::v1::WireConversion<$inner>>::from_wire(inner)?))?
                    ),*
                })
            }
        }
    };
}

/// Names a variant's only value.
macro_rules! wire_inner {
    ($type:ty => $name:ident) => {
        $name
    };
}

pub(crate) use {wire_enum, wire_inner, wire_struct};
