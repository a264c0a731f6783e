//! The journal: what is durable, in which order, and under which version.
//!
//! Deliberately not stored: anything that can be derived from stored data (queues, indexes,
//! capacity in use), try counts, observations of sites, and what is in flight. After a crash these
//! are determined again.

#![cfg_attr(
    not(any(feature = "sled", feature = "redb")),
    allow(dead_code, reason = "what only a store on disk needs")
)]

#[cfg(feature = "contract")]
pub mod contract;
mod decide_group;
#[cfg(any(feature = "sled", feature = "redb"))]
mod directory_store;
mod engine_port;
mod envelope;
pub mod export;
pub mod fault;
#[cfg(any(feature = "sled", feature = "redb"))]
pub mod import;
mod inline_journal;
pub mod memory;
pub mod port;
pub mod record;
#[cfg(feature = "redb")]
mod redb;
mod scans;
#[cfg(feature = "sled")]
mod sled;
pub mod store_floor;
#[cfg(any(feature = "sled", feature = "redb"))]
mod store_place;
mod store_totals;
mod take_over;
mod threaded_journal;

#[cfg(any(feature = "sled", feature = "redb"))]
pub use directory_store::{
    DirectoryStore, EngineKind, StoreOptions, accept_loss, check, check_openable, open,
    open_and_load,
};
pub use port::OpenedStore;
#[cfg(any(feature = "sled", feature = "redb"))]
pub use store_place::StorePlace;
pub use store_totals::{FORMAT, RESERVED_PREFIX};
pub use threaded_journal::FlushLimits;
