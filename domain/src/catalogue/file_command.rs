//! The commands to a logical file.

use thiserror::Error;

use crate::catalogue::file_state::{CatalogueEntry, FileStamp, MAX_REPLICAS};
use crate::content::Content;
use crate::ids::{Digest, KeyName, SiteName};
use crate::transfer::file_place::FilePlace;

/// A command to one logical file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileCommand {
    /// Makes the name stand for this content. If it does already, adds the replicas.
    Register {
        content: Content,
        /// True for a directory.
        directory: bool,
        /// Places of the content; at least one.
        replicas: Vec<(SiteName, FilePlace)>,
        by: RequestingKey,
        /// True if the name may stand for other content now, which is then forgotten.
        replace: bool,
        /// Matters if `replace` takes something from unfinished jobs.
        grip: TakingPermission,
    },
    /// Adds a replica of the same content.
    AddReplica {
        site: SiteName,
        /// The place at that site.
        place: FilePlace,
        /// The digest that was found there.
        digest: Digest,
        by: RequestingKey,
    },
    /// Removes a replica.
    RemoveReplica {
        site: SiteName,
        /// The place at that site.
        place: FilePlace,
        by: RequestingKey,
        /// Matters if this is the last replica.
        grip: TakingPermission,
    },
    /// Records that a replica was seen with the content while it had this stamp.
    NoteStamp {
        site: SiteName,
        /// The place at that site.
        place: FilePlace,
        stamp: FileStamp,
        /// The content that it had then.
        content: Content,
    },
    /// Removes the name.
    Unregister {
        by: RequestingKey,
        grip: TakingPermission,
    },
}

impl FileCommand {
    /// Returns who asks; `None` if nothing changes that belongs to anybody.
    pub(super) fn requesting_key(&self) -> Option<&RequestingKey> {
        match self {
            FileCommand::Register { by, .. }
            | FileCommand::AddReplica { by, .. }
            | FileCommand::RemoveReplica { by, .. }
            | FileCommand::Unregister { by, .. } => Some(by),
            FileCommand::NoteStamp { .. } => None,
        }
    }
}

/// The key that asks, and the files that it may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestingKey {
    pub key: KeyName,
    /// True if it may change what other keys registered, too.
    pub reaches_all: bool,
}

impl RequestingKey {
    /// Makes an asker that changes only what its own key registered.
    pub fn for_own_files(key: KeyName) -> Self {
        Self {
            key,
            reaches_all: false,
        }
    }

    pub(super) fn may_change(&self, entry: &CatalogueEntry) -> bool {
        self.reaches_all || entry.registered_by == self.key
    }
}

/// The permission to take something from jobs that need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TakingPermission {
    /// Number of unfinished jobs that need the content.
    pub needed_by: u32,
    /// True to take it nevertheless.
    pub force: bool,
}

/// The reason why a command changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum FileRejection {
    #[error("no file is registered under this name")]
    NotRegistered,
    #[error(
        "the name is that of another key's file; choose another, or ask that key or an administrator to remove it"
    )]
    Anothers,
    #[error(
        "the name stands for other content ({known}); ask for replacement if it is to stand for {given}"
    )]
    OtherContent { known: Digest, given: Digest },
    #[error("the name stands for a {}; ask for replacement if it is to be a {}", file_kind_name(*.known_directory), file_kind_name(!*.known_directory))]
    OtherKind { known_directory: bool },
    #[error("the file there has digest {found}, but the name stands for {known}")]
    DigestDiffers { known: Digest, found: Digest },
    #[error("a file needs at least one replica")]
    NoReplica,
    #[error("a file has at most {} replicas; remove one first", MAX_REPLICAS)]
    TooManyReplicas,
    #[error("the file has no such replica")]
    NoSuchReplica,
    #[error("{jobs} unfinished jobs need it; wait for them, cancel them, or force it")]
    NeededByJobs { jobs: u32 },
}

fn file_kind_name(directory: bool) -> &'static str {
    if directory { "directory" } else { "file" }
}
