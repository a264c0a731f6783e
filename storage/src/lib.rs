//! The journal: what is durable, in which order, and under which version.
//!
//! Deliberately not stored: anything that can be derived from stored data (queues, indexes,
//! capacity in use), try counts, observations of sites, and what is in flight. After a crash these
//! are determined again.

#![cfg_attr(
    not(any(feature = "sled", feature = "redb")),
    allow(dead_code, reason = "what only a store on disk needs")
)]

#[cfg(any(feature = "sled", feature = "redb"))]
pub mod check;
#[cfg(feature = "contract")]
pub mod contract;
mod engine;
mod envelope;
pub mod export;
pub mod fault;
pub mod floor;
mod found;
mod grouped;
#[cfg(any(feature = "sled", feature = "redb"))]
pub mod import;
mod inline;
mod judge;
#[cfg(any(feature = "sled", feature = "redb"))]
pub mod loss;
pub mod memory;
mod meta;
#[cfg(any(feature = "sled", feature = "redb"))]
mod open;
pub mod port;
mod reading;
pub mod record;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "sled")]
mod sled;

pub use grouped::GroupLimits;
pub use meta::{FORMAT, RESERVED_PREFIX};
#[cfg(any(feature = "sled", feature = "redb"))]
pub use open::{EngineKind, StoreOptions, look, open, open_and_load};
pub use port::Opened;
