//! The public view of a directory that a component left.

use cospan_domain::ids::RelPath;
use cospan_sites::files::tree_pieces::{DirectoryListing, ListingEntry, ListingEntryKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Most entries that are listed.
pub const ENTRIES_MAX: usize = 50_000;

/// Everything below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct TreeReport {
    /// The entries sorted by path: a directory comes before its entries.
    pub entries: Vec<TreeEntry>,
}

/// An entry below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TreeEntry {
    /// A directory; its content has entries of its own.
    Directory {
        /// Path below the directory that was asked for.
        path: String,
    },
    /// A file.
    File {
        /// Path below the directory that was asked for.
        path: String,
        /// Size in bytes.
        size_bytes: u64,
        /// True if it is executable.
        executable: bool,
    },
    /// A symbolic link. It never leads out of the directory.
    Link {
        /// Path below the directory that was asked for.
        path: String,
        /// Target of the link, relative to its place.
        target: String,
    },
}

impl TreeReport {
    /// Converts the listing of a site.
    ///
    /// # Errors
    ///
    /// There are too many entries, or one has a name under which it cannot be asked for.
    pub fn of(listing: &DirectoryListing) -> Result<Self, String> {
        if listing.leaves().len() > ENTRIES_MAX {
            let many = listing.leaves().len();
            return Err(format!(
                "it has {many} entries, and at most {ENTRIES_MAX} are listed"
            ));
        }
        Ok(Self {
            entries: listing
                .leaves()
                .iter()
                .map(convert_entry)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Returns the entries as the site reports them. They must be checked before they are created.
    pub fn into_leaves(self) -> Vec<ListingEntry> {
        let leaves = self.entries.into_iter().map(|entry| match entry {
            TreeEntry::Directory { path } => (path, ListingEntryKind::Directory),
            TreeEntry::File {
                path,
                size_bytes: size,
                executable,
            } => (path, ListingEntryKind::File { executable, size }),
            TreeEntry::Link { path, target } => (path, ListingEntryKind::Link(target.into_bytes())),
        });
        leaves
            .map(|(path, kind)| ListingEntry {
                path: path.into_bytes(),
                kind,
            })
            .collect()
    }
}

fn convert_entry(leaf: &ListingEntry) -> Result<TreeEntry, String> {
    let path = decode_text(&leaf.path)?;
    RelPath::new(&path).map_err(|error| error.to_string())?;
    Ok(match &leaf.kind {
        ListingEntryKind::Directory => TreeEntry::Directory { path },
        ListingEntryKind::File { executable, size } => TreeEntry::File {
            path,
            size_bytes: *size,
            executable: *executable,
        },
        ListingEntryKind::Link(target) => TreeEntry::Link {
            path,
            target: decode_text(target)?,
        },
    })
}

fn decode_text(bytes: &[u8]) -> Result<String, String> {
    std::str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|_| format!("{:?} in it is no UTF-8", String::from_utf8_lossy(bytes)))
}
