//! The public view of a directory that a component left.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Most entries that are listed.
pub const ENTRIES_MAX: usize = 50_000;

/// Everything below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct TreeReport {
    /// The entries sorted by path: a directory comes before its entries.
    pub entries: Vec<TreeEntry>,
}

/// An entry below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TreeEntry {
    /// A directory; its content has entries of its own.
    Directory {
        /// Path below the directory that was asked for.
        path: String,
    },
    /// A file.
    File {
        /// Path below the directory that was asked for.
        path: String,
        /// Size in bytes.
        size_bytes: u64,
        /// True if it is executable.
        executable: bool,
    },
    /// A symbolic link. It never leads out of the directory.
    Link {
        /// Path below the directory that was asked for.
        path: String,
        /// Target of the link, relative to its place.
        target: String,
    },
}
