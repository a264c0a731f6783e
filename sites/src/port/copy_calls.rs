//! Copies to a site, as they are requested and reported.

use async_trait::async_trait;
use cospan_domain::content::{Content, FileChunk};
use cospan_domain::ids::SiteName;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::{BitsPerSecond, Bytes};

use super::SiteError;

/// A copy to be made at this site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyRequest {
    /// The content to copy.
    pub content: Content,
    /// For a part of the source: the bytes, and the file that they are from. The source has that
    /// file, and is checked against its digest; `content` names what is kept.
    pub chunk: Option<FileChunk>,
    /// The source.
    pub source: CopySource,
    /// Tells the partial data of one try from another's: instance and a drawn number.
    pub nonce: String,
    /// The bandwidth to keep to.
    pub limit: Option<BitsPerSecond>,
}

/// The origin of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySource {
    /// The site that has it.
    pub site: SiteName,
    /// The place of the file there.
    pub place: FilePlace,
}

/// The state of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyStatus {
    /// No process and no data under this nonce.
    Absent,
    /// A process is copying.
    Running {
        /// Bytes that arrived.
        done: Bytes,
    },
    /// Complete, checked and in the content store.
    Complete,
    /// The process ended without completing; partial data may remain.
    Failed {
        /// The party at fault, as far as it is known.
        blame: CopyBlame,
        /// The message about it.
        detail: String,
    },
}

/// The party at fault for a failed copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyBlame {
    /// The source could not be read, is short or has another digest: try another replica.
    Source,
    /// The destination could not be written (full disk, directory gone).
    Destination,
    /// The copying process was killed or is gone.
    Process,
}

/// The copies that are made to a site.
#[async_trait]
pub trait SiteCopies: Send + Sync {
    /// Starts a copy to this site, or joins the one that runs under the same nonce.
    async fn start_copy(&self, order: &CopyRequest) -> Result<(), SiteError>;

    /// Returns the state of the copy under this nonce.
    async fn copy_status(&self, order: &CopyRequest) -> Result<CopyStatus, SiteError>;

    /// Stops a copy; its partial data stays unless `discard`.
    async fn stop_copy(&self, order: &CopyRequest, discard: bool) -> Result<(), SiteError>;
}
