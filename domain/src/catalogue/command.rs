//! What can be asked of a logical file.

use thiserror::Error;

use crate::catalogue::state::{CatalogueEntry, FileStamp, MAX_REPLICAS};
use crate::content::Content;
use crate::ids::{Digest, KeyName, SiteName};
use crate::transfer::place::FilePlace;

/// A command to one logical file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileCommand {
    /// Let the name stand for this content. If it does already, the replicas are added.
    Register {
        /// Its content.
        content: Content,
        /// It is a directory.
        directory: bool,
        /// Where it is; at least one.
        replicas: Vec<(SiteName, FilePlace)>,
        /// Who asks.
        by: Asker,
        /// The name may stand for something else now, which is then forgotten.
        replace: bool,
        /// How firmly it is asked, should `replace` take something from unfinished jobs.
        grip: Grip,
    },
    /// The same content is in one place more.
    AddReplica {
        /// At which site.
        site: SiteName,
        /// Where there.
        place: FilePlace,
        /// What was found there.
        digest: Digest,
        /// Who asks.
        by: Asker,
    },
    /// It is not in this place any more.
    RemoveReplica {
        /// At which site.
        site: SiteName,
        /// Where there.
        place: FilePlace,
        /// Who asks.
        by: Asker,
        /// How firmly it is asked, should this be the last replica.
        grip: Grip,
    },
    /// A replica was seen to have the content while it looked like this.
    NoteStamp {
        /// At which site.
        site: SiteName,
        /// Where there.
        place: FilePlace,
        /// What it looked like.
        stamp: FileStamp,
        /// The content that it had.
        content: Content,
    },
    /// Let the name stand for nothing.
    Unregister {
        /// Who asks.
        by: Asker,
        /// How firmly it is asked.
        grip: Grip,
    },
}

impl FileCommand {
    /// Who asks; `None` if nothing that belongs to anybody changes.
    pub(super) fn asker(&self) -> Option<&Asker> {
        match self {
            FileCommand::Register { by, .. }
            | FileCommand::AddReplica { by, .. }
            | FileCommand::RemoveReplica { by, .. }
            | FileCommand::Unregister { by, .. } => Some(by),
            FileCommand::NoteStamp { .. } => None,
        }
    }
}

/// Who asks, and whose files that reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// The key.
    pub key: KeyName,
    /// What other keys registered, too.
    pub reaches_all: bool,
}

impl Asker {
    /// A key that changes only what it registered itself.
    pub fn only(key: KeyName) -> Self {
        Self {
            key,
            reaches_all: false,
        }
    }

    pub(super) fn reaches(&self, entry: &CatalogueEntry) -> bool {
        self.reaches_all || entry.registered_by == self.key
    }
}

/// Whether something may be taken from those who need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grip {
    /// Unfinished jobs that need the content.
    pub needed_by: u32,
    /// Take it nevertheless.
    pub force: bool,
}

/// Why a command changes nothing.
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
    #[error("the name stands for a {}; ask for replacement if it is to be a {}", kind(*.known_directory), kind(!*.known_directory))]
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

fn kind(directory: bool) -> &'static str {
    if directory { "directory" } else { "file" }
}
