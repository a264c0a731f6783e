//! The files of a site: what is there, and pieces of it.

use async_trait::async_trait;
use cospan_domain::catalogue::file_state::FileStamp;
use cospan_domain::content::Content;
use cospan_domain::ids::{AttemptTag, Digest};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;

use super::{SiteError, UploadStep};
use crate::files::tree_pieces::DirectoryListing;

/// The result of inspecting a file at a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectedFile {
    /// Digest and size of the content.
    pub content: Content,
    /// True if it is a directory.
    pub directory: bool,
}

/// The progress of an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InspectionProgress {
    /// Bytes that were read.
    pub done: Bytes,
    /// Size of the file; `None` for a directory.
    pub of: Option<Bytes>,
}

/// A piece of a file, for logs and outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileExcerpt {
    /// The bytes, at most as many as were requested.
    pub bytes: Vec<u8>,
    /// Size of the whole file now.
    pub size: Bytes,
}

/// A stream of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A file to read piece by piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadableFile {
    /// The output of a payload.
    Log(AttemptTag, PayloadStream),
    /// A file at the site.
    File(FilePlace),
}

/// The files of a site: its content store, what users keep there, and what payloads print.
#[async_trait]
pub trait SiteFiles: Send + Sync {
    /// Returns digest, size and kind of a file (a process of its own reads it as a whole). The
    /// reading ends soon after the last future that waits for it was dropped.
    async fn inspect(&self, place: &FilePlace) -> Result<InspectedFile, SiteError>;

    /// Returns how far an inspection is, from memory; `None` if there is none, or the site does
    /// not know.
    fn read_so_far(&self, _place: &FilePlace) -> Option<InspectionProgress> {
        None
    }

    /// Returns the stamp of a file, without reading it; see [`FileStamp`]. `None` if the site has
    /// none. `Refused` if the file is missing.
    async fn stamp(&self, _place: &FilePlace) -> Result<Option<FileStamp>, SiteError> {
        Ok(None)
    }

    /// Returns true if the content store has this content, complete.
    async fn has_content(&self, digest: Digest) -> Result<bool, SiteError>;

    /// Deletes from the content store; `Ok` even if it was not there.
    async fn delete_content(&self, digest: Digest) -> Result<(), SiteError>;

    /// Reads a piece of a file; `Refused` if it does not exist.
    async fn read(
        &self,
        what: &ReadableFile,
        offset: Bytes,
        limit: u32,
    ) -> Result<FileExcerpt, SiteError>;

    /// Lists what is below a directory; `None` if the place is no directory. `Refused` if
    /// there is nothing, or something below it that can be neither read nor made anew.
    /// Sites of some kinds list none.
    async fn list(&self, _place: &FilePlace) -> Result<Option<DirectoryListing>, SiteError> {
        Err(SiteError::Unfit("it lists no directories".to_owned()))
    }

    /// Takes a step in bringing a user's file below the site's file root. The steps of one file
    /// come one after the other; sites of some kinds take none.
    async fn upload(&self, _step: &UploadStep) -> Result<(), SiteError> {
        Err(SiteError::Unfit(
            "it takes no uploads; register files that are there".to_owned(),
        ))
    }
}
