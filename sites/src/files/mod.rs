//! Files below a site's root: a store of contents by their digest, copies from other sites, and
//! pieces of all that lies there.
//!
//! ```text
//! <root>/store/<digest>              whole, checked, read-only contents
//! <root>/incoming/<digest>.<nonce>/  a copy under way, or what is left of one
//! <root>/inspect/<place>/            a file whose digest is being found out
//! <root>/trash/                      what is being removed
//! <root>/links/<site>                bandwidth given away on the link from a site
//! <root>/files/                      users' files
//! <root>/files/uploads/              what users sent
//! <root>/<attempts>/<tag>/work/      what attempts leave
//! ```
//!
//! The digest of a file is the BLAKE3 of its bytes; that of a directory is the digest of its
//! [`manifest`]. A file in the store has mode 0555 whatever its mode was elsewhere, so that one
//! content is one file, executable or not; the manifest tells files within directories apart.
//!
//! Copying and digesting is done by [`agent`] processes. The control plane can die and come back:
//! what it needs to know of copies is in the task's directory, and a lock that the kernel keeps for
//! an agent says whether it lives. Inspections end with the control plane that asked for them. The
//! file system must support `flock`, and the same machine must run control plane (or its deputy at
//! the site) and agents.

pub mod agent;
pub mod manifest;
pub mod tree_pieces;

mod agent_messages;
mod agent_task;
pub(crate) mod attached_files;
mod awaited_inspection;
mod contents;
mod copy_tasks;
pub mod fetch;
mod fetch_tree;
mod file_area;
pub(crate) mod file_root;
mod inspect;
mod open_beneath;
mod process_identity;
mod push_copy;
mod push_tree;
pub(crate) mod remote_file_area;
mod remote_tree;
mod shared_bandwidth;
mod stamp;
mod tree_reader;
mod tree_walk;
mod upload_files;

use std::fmt::Debug;

use async_trait::async_trait;
use cospan_domain::transfer::file_place::FilePlace;

use self::tree_pieces::FileByteRun;
use crate::port::{SiteCopies, SiteError, SiteFiles};

pub use contents::PIECE_MAX_BYTES;
pub use file_area::{CopySourceArea, FileArea, FileAreaConfig};
pub use file_root::WORK;
pub use inspect::InspectionStatus;
pub use remote_file_area::SourcesBySite;

/// The files below the root of one site, and the copies that are made there, however it is reached.
#[async_trait]
pub trait RootedFiles: SiteFiles + SiteCopies + Debug {
    /// Makes the directories below the root that are missing.
    async fn prepare(&self) -> Result<(), SiteError>;
    /// Succeeds if the site's root is there.
    async fn check_root(&self) -> Result<(), SiteError>;
    /// Reads runs of files below a directory, one behind the other.
    ///
    /// # Errors
    /// `Refused` if a file is not there any more, or is shorter.
    async fn read_runs(
        &self,
        place: &FilePlace,
        runs: &[FileByteRun],
    ) -> Result<Vec<u8>, SiteError>;
}
