//! What is durable about a logical file.

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
    pub entry: Option<Entry>,
}

/// What a logical name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
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
}

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
