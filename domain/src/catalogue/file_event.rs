//! The events of a logical file, which are journalled.

use crate::catalogue::file_state::FileStamp;
use crate::content::Content;
use crate::ids::{KeyName, SiteName};
use crate::transfer::file_place::FilePlace;
use crate::units::Timestamp;

/// An event with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEvent {
    /// The time of the decision.
    pub at: Timestamp,
    pub what: FileEventKind,
}

/// The kinds of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileEventKind {
    /// The name stands for this content from now on; what it stood for before is forgotten.
    FileRegistered {
        content: Content,
        /// True for a directory.
        directory: bool,
        replicas: Vec<(SiteName, FilePlace)>,
        /// The key that registered it.
        by: KeyName,
    },
    /// A replica was added.
    ReplicaAdded {
        site: SiteName,
        /// The place at that site.
        place: FilePlace,
        /// The key that added it.
        by: KeyName,
    },
    /// A replica was removed.
    ReplicaRemoved {
        site: SiteName,
        /// The place at that site.
        place: FilePlace,
        /// The key that removed it.
        by: KeyName,
    },
    /// A replica was seen with the content while it had this stamp.
    ReplicaStamped {
        site: SiteName,
        /// The place at that site.
        place: FilePlace,
        stamp: FileStamp,
    },
    /// The name stands for nothing any more.
    FileUnregistered {
        /// The key that removed it.
        by: KeyName,
    },
}

impl FileEventKind {
    /// Returns its name in the journal and in the event stream.
    pub fn name(&self) -> &'static str {
        match self {
            FileEventKind::FileRegistered { .. } => "FileRegistered",
            FileEventKind::ReplicaAdded { .. } => "ReplicaAdded",
            FileEventKind::ReplicaRemoved { .. } => "ReplicaRemoved",
            FileEventKind::ReplicaStamped { .. } => "ReplicaStamped",
            FileEventKind::FileUnregistered { .. } => "FileUnregistered",
        }
    }
}
