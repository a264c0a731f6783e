//! Files that users send, on their way to a site.

use std::sync::Arc;

use cospan_domain::units::Bytes;

/// The folder for them, below the site's file root.
pub const UPLOADS: &str = "uploads";

/// A step in bringing a file to a site, or in taking it away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadStep {
    /// Appends to the file; at offset 0 it is begun anew. Repeating a step changes nothing.
    Append {
        /// The name of the file in [`UPLOADS`].
        name: Arc<str>,
        /// The bytes that are there already.
        offset: Bytes,
        /// The bytes that follow.
        bytes: Vec<u8>,
        /// True for the last step: the file is durable once this is answered.
        last: bool,
    },
    /// Removes the file; a missing one is no error.
    Remove {
        /// The name of the file in [`UPLOADS`].
        name: Arc<str>,
    },
}
