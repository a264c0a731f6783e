//! Reservations: what is free when, what a site answers, and how several sites begin together.
//!
//! Absent here: calls to sites and timers. A reservation is one way to get processors; claiming
//! them while they are idle is another ([`crate::acquire`]).

pub mod timeline;

pub use timeline::{Amounts, Kinds, KindsError, Opening, Slot, Span, Timeline};
