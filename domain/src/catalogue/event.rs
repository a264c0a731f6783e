//! What happened to a logical file; journalled.

use crate::catalogue::state::FileStamp;
use crate::content::Content;
use crate::ids::{KeyName, SiteName};
use crate::transfer::place::FilePlace;
use crate::units::Timestamp;

/// One event with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEvent {
    /// When it was decided.
    pub at: Timestamp,
    /// What happened.
    pub what: FileEventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileEventKind {
    /// The name stands for this content from now on; what it stood for before is forgotten.
    FileRegistered {
        /// Its content.
        content: Content,
        /// It is a directory.
        directory: bool,
        /// Where it is.
        replicas: Vec<(SiteName, FilePlace)>,
        /// The key that registered it.
        by: KeyName,
    },
    /// The same content is in one place more.
    ReplicaAdded {
        /// At which site.
        site: SiteName,
        /// Where there.
        place: FilePlace,
        /// By which key.
        by: KeyName,
    },
    /// It is not in this place any more.
    ReplicaRemoved {
        /// At which site.
        site: SiteName,
        /// Where there.
        place: FilePlace,
        /// By which key.
        by: KeyName,
    },
    /// A replica had the content while it looked like this.
    ReplicaStamped {
        /// At which site.
        site: SiteName,
        /// Where there.
        place: FilePlace,
        /// What it looked like.
        stamp: FileStamp,
    },
    /// The name stands for nothing any more.
    FileUnregistered {
        /// By which key.
        by: KeyName,
    },
}

impl FileEventKind {
    /// Its name in the journal and in the event stream.
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
