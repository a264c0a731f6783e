//! The place of a file at a site.

use crate::ids::{AttemptTag, Digest, RelPath};

/// The place of a file at a site.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilePlace {
    /// In the site's content store.
    Store(Digest),
    /// A user's file below the site's file root.
    User(RelPath),
    /// Left by an attempt, below its work directory.
    Output(AttemptTag, RelPath),
}
