//! What the store looks like from outside.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct StoreReport {
    /// `sled`, `redb` or `memory`.
    pub engine: String,
    /// Tells this control plane's work at sites from that of others.
    pub instance: String,
    /// Ownership of this server over the store.
    pub epoch: u64,
    /// Position of the last committed unit.
    pub seq: u64,
    /// Space that it takes on disk.
    pub size_bytes: u64,
    /// Jobs that are not archived.
    pub jobs: u64,
}
