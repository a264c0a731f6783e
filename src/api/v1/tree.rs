//! What a directory that a component left looks like from outside.

use cospan_domain::ids::RelPath;
use cospan_sites::files::listing::{LeafKind, ListedLeaf, Listing};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Most entries that are told of.
pub const ENTRIES_MAX: usize = 50_000;

/// All that is below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct TreeReport {
    /// Sorted by path: a directory comes before what is in it.
    pub entries: Vec<TreeEntry>,
}

/// One thing below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TreeEntry {
    /// A directory; what is in it has entries of its own.
    Directory {
        /// Its path below the directory that was asked for.
        path: String,
    },
    /// A file.
    File {
        /// Its path below the directory that was asked for.
        path: String,
        /// How long it is.
        size_bytes: u64,
        /// It may be executed.
        executable: bool,
    },
    /// A symbolic link. It never leads out of the directory.
    Link {
        /// Its path below the directory that was asked for.
        path: String,
        /// Where it points to, as seen from where it is.
        target: String,
    },
}

impl TreeReport {
    /// What a site told.
    ///
    /// # Errors
    /// It has too many entries, or one with a name under which it cannot be asked for.
    pub fn of(listing: &Listing) -> Result<Self, String> {
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
                .map(entry)
                .collect::<Result<_, _>>()?,
        })
    }

    /// The entries as a site tells them; whoever makes them anew checks them first.
    pub fn into_leaves(self) -> Vec<ListedLeaf> {
        let leaves = self.entries.into_iter().map(|entry| match entry {
            TreeEntry::Directory { path } => (path, LeafKind::Directory),
            TreeEntry::File {
                path,
                size_bytes: size,
                executable,
            } => (path, LeafKind::File { executable, size }),
            TreeEntry::Link { path, target } => (path, LeafKind::Link(target.into_bytes())),
        });
        leaves
            .map(|(path, kind)| ListedLeaf {
                path: path.into_bytes(),
                kind,
            })
            .collect()
    }
}

fn entry(leaf: &ListedLeaf) -> Result<TreeEntry, String> {
    let text = |bytes: &[u8]| {
        let odd = || format!("{:?} in it is no UTF-8", String::from_utf8_lossy(bytes));
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| odd())
    };
    let path = text(&leaf.path)?;
    RelPath::new(&path).map_err(|error| error.to_string())?;
    Ok(match &leaf.kind {
        LeafKind::Directory => TreeEntry::Directory { path },
        LeafKind::File { executable, size } => TreeEntry::File {
            path,
            size_bytes: *size,
            executable: *executable,
        },
        LeafKind::Link(target) => TreeEntry::Link {
            path,
            target: text(target)?,
        },
    })
}
