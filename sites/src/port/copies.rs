//! Copies to a site, as it is asked for them and as it tells of them.

use cospan_domain::content::{Chunk, Content};
use cospan_domain::ids::SiteName;
use cospan_domain::transfer::place::FilePlace;
use cospan_domain::units::{BitsPerSecond, Bytes};

/// A copy to be made at this site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyRequest {
    /// What to copy.
    pub content: Content,
    /// If it is to be cut from the source: which bytes of which file. The source has that
    /// file, and is checked against its digest; `content` names what is kept.
    pub chunk: Option<Chunk>,
    /// Where from.
    pub source: CopySource,
    /// Tells the partial data of one try from another's: instance and a drawn number.
    pub nonce: String,
    /// Bandwidth to keep to.
    pub limit: Option<BitsPerSecond>,
}

/// Where a copy comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySource {
    /// The site that has it.
    pub site: SiteName,
    /// Where it is there.
    pub place: FilePlace,
}

/// How a copy is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyStatus {
    /// No process and no data under this nonce.
    Absent,
    /// A process is copying.
    Running {
        /// Bytes that arrived.
        done: Bytes,
    },
    /// Whole, checked and in the content store.
    Complete,
    /// The process ended without completing; partial data may remain.
    Failed {
        /// Whose fault, as far as it is known.
        blame: CopyBlame,
        /// What happened.
        detail: String,
    },
}

/// Whose fault a failed copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyBlame {
    /// The source could not be read, is short or has another digest: try another replica.
    Source,
    /// The destination could not be written (full disk, directory gone).
    Destination,
    /// The copying process was killed or is gone.
    Process,
}
