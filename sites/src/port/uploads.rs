//! What users send, on its way to a site.

use std::sync::Arc;

use cospan_domain::units::Bytes;

/// The folder for it, below the site's file root.
pub const UPLOADS: &str = "uploads";

/// A step in bringing a file to a site, or in taking it away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadStep {
    /// Appends to the file; at its beginning it is begun anew. Said twice, it is done once.
    Append {
        /// Its name in [`UPLOADS`].
        name: Arc<str>,
        /// So many bytes are there.
        offset: Bytes,
        /// What comes next.
        bytes: Vec<u8>,
        /// That was all: it is durable once this is answered.
        last: bool,
    },
    /// Removes the file; fine if it is not there.
    Remove {
        /// Its name in [`UPLOADS`].
        name: Arc<str>,
    },
}
