//! The durable state of a logical file.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::content::Content;
use crate::ids::{KeyName, LogicalName, SiteName};
use crate::transfer::file_place::FilePlace;
use crate::units::Timestamp;

/// The most replicas of one logical file.
pub const MAX_REPLICAS: usize = 32;

/// The durable record of one logical file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRecord {
    pub name: LogicalName,
    /// The registration; `None`: the name is not registered, and the record is to be removed.
    pub entry: Option<CatalogueEntry>,
}

/// The registration of a logical name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueEntry {
    pub content: Content,
    /// True for a directory: the digest is that of its manifest.
    pub directory: bool,
    /// Places of the content: sorted, without duplicates, at most [`MAX_REPLICAS`].
    pub replicas: Vec<(SiteName, FilePlace)>,
    /// The time at which this content was registered.
    pub registered_at: Timestamp,
    /// The key that registered it.
    pub registered_by: KeyName,
    /// The stamps of replicas at the time when they were known to have this content.
    pub stamps: BTreeMap<(SiteName, FilePlace), FileStamp>,
}

/// A stamp: what a file looks like without being read, that is size, time of modification and the
/// like, as its site writes it. While the stamp stays the same, so does the content; equal content
/// may have different stamps.
pub type FileStamp = Arc<str>;

impl FileRecord {
    /// Makes the record of a name that is not registered.
    pub fn new(name: LogicalName) -> Self {
        Self { name, entry: None }
    }

    /// Returns true if nothing is left to remember and the record is to be removed.
    pub fn is_gone(&self) -> bool {
        self.entry.is_none()
    }
}
