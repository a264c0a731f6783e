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
pub mod accept_loss;
#[cfg(any(feature = "sled", feature = "redb"))]
pub mod check;
#[cfg(feature = "contract")]
pub mod contract;
mod decide_group;
mod engine_port;
mod envelope;
pub mod export;
pub mod fault;
#[cfg(any(feature = "sled", feature = "redb"))]
pub mod import;
mod inline_journal;
pub mod memory;
#[cfg(any(feature = "sled", feature = "redb"))]
mod open;
pub mod port;
pub mod record;
#[cfg(feature = "redb")]
mod redb;
mod scans;
#[cfg(feature = "sled")]
mod sled;
pub mod store_floor;
mod store_totals;
mod take_over;
mod threaded_journal;

#[cfg(any(feature = "sled", feature = "redb"))]
pub use open::{EngineKind, StoreOptions, check_openable, open, open_and_load};
pub use port::OpenedStore;
pub use store_totals::{FORMAT, RESERVED_PREFIX};
pub use threaded_journal::FlushLimits;
