//! The public view of the store.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct StoreReport {
    /// `sled`, `redb` or `memory`.
    pub engine: String,
    /// The id that tells this control plane's work at sites from that of others.
    pub instance: String,
    /// The epoch: a later server that opens the store has a higher one.
    pub epoch: u64,
    /// Position of the last committed unit.
    pub seq: u64,
    /// Size on disk.
    pub size_bytes: u64,
    /// Jobs that are not archived.
    pub jobs: u64,
}
