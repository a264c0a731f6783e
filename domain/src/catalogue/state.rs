//! What is durable about a logical file.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::content::Content;
use crate::ids::{KeyName, LogicalName, SiteName};
use crate::transfer::place::FilePlace;
use crate::units::Timestamp;

/// Replicas of one logical file.
pub const MAX_REPLICAS: usize = 32;

/// One logical file's durable record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRecord {
    /// Its name.
    pub name: LogicalName,
    /// What it names; `None`: it is not registered, and its record is to be removed.
    pub entry: Option<CatalogueEntry>,
}

/// What a logical name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// Its content.
    pub content: Content,
    /// It is a directory: the digest is that of its manifest.
    pub directory: bool,
    /// Where it is: in order, each once, at most [`MAX_REPLICAS`].
    pub replicas: Vec<(SiteName, FilePlace)>,
    /// When this content was registered.
    pub registered_at: Timestamp,
    /// The key that registered it.
    pub registered_by: KeyName,
    /// Of replicas that are known to have had this content: what they looked like then.
    pub stamps: BTreeMap<(SiteName, FilePlace), FileStamp>,
}

/// What a file looks like without being read: size, time of modification and the like, as
/// its site writes it. While it stays the same, so does the content; equal content may have
/// different ones.
pub type FileStamp = Arc<str>;

impl FileRecord {
    /// A name that is not registered.
    pub fn new(name: LogicalName) -> Self {
        Self { name, entry: None }
    }

    /// Whether nothing is left to remember: its record is to be removed.
    pub fn is_gone(&self) -> bool {
        self.entry.is_none()
    }
}
