//! A directory as it travels piece by piece: its listing, and runs of its files.

use std::collections::BTreeSet;

use cospan_domain::content::Content;
use cospan_domain::ids::Digest;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;
use sha2::Digest as _;

use super::RootedFiles;
use super::manifest::{self, ManifestEntry, ManifestEntryKind};
use super::remote_file_area::PIECE;
use crate::port::{InspectedFile, SiteError};

/// The most runs in one request: each costs a site a process or two.
const RUNS_MAX: usize = 256;

/// The most bytes of names in one request: they become words of a command.
pub(super) const NAMES_MAX: usize = 48 << 10;

/// A file, link or directory below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingEntry {
    /// The path below the directory, without a slash in front.
    pub path: Vec<u8>,
    /// File, link or directory.
    pub kind: ListingEntryKind,
}

impl ListingEntry {
    /// Returns its path and its target, if it is a link.
    fn link_target(&self) -> Option<(&[u8], &[u8])> {
        match &self.kind {
            ListingEntryKind::Link(target) => Some((&self.path, target)),
            ListingEntryKind::Directory | ListingEntryKind::File { .. } => None,
        }
    }
}

/// The kind of a leaf, before its files are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListingEntryKind {
    /// A directory; what is in it has leaves of its own.
    Directory,
    /// A file.
    File {
        /// True if somebody may execute it.
        executable: bool,
        /// The size in bytes.
        size: u64,
    },
    /// A symbolic link, and its target.
    Link(Vec<u8>),
}

/// All that is below a directory, sorted by path. Each path consists of names below directories of
/// the same listing, and no link leads out: whoever rebuilds it makes nothing elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryListing(Vec<ListingEntry>);

/// A run of bytes of a file below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileByteRun {
    /// The path below the directory.
    pub path: Vec<u8>,
    /// Offset of its first byte.
    pub offset: u64,
    /// The length in bytes.
    pub length: u32,
}

impl FileByteRun {
    /// Returns the offset of the byte behind it.
    pub(super) fn end_offset(&self) -> u64 {
        self.offset + u64::from(self.length)
    }
}

impl DirectoryListing {
    /// Checks the leaves that a site reported.
    ///
    /// # Errors
    /// `Refused` if they cannot be in one directory, or a link leads out.
    pub fn new(mut leaves: Vec<ListingEntry>) -> Result<Self, SiteError> {
        leaves.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let mut directories = BTreeSet::<&[u8]>::new();
        let mut last = None;
        for leaf in &leaves {
            let path = &leaf.path[..];
            let parent = path
                .iter()
                .rposition(|byte| *byte == b'/')
                .map(|end| &path[..end]);
            let is_there = parent.is_none_or(|parent| directories.contains(parent));
            if !path
                .split(|byte| *byte == b'/')
                .all(|name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0))
                || !is_there
                || last == Some(path)
            {
                let shown = String::from_utf8_lossy(path);
                return Err(SiteError::Refused(format!(
                    "{shown:?} cannot be in a directory"
                )));
            }
            if leaf.kind == ListingEntryKind::Directory {
                directories.insert(path);
            }
            last = Some(path);
        }
        let links = leaves.iter().filter_map(ListingEntry::link_target);
        manifest::check_links(links).map_err(|error| SiteError::Refused(error.to_string()))?;
        Ok(Self(leaves))
    }

    /// Returns all leaves, sorted by path.
    pub fn leaves(&self) -> &[ListingEntry] {
        &self.0
    }

    /// Divides all files into runs, in their order, in batches of one request each. Empty
    /// files have a run as well.
    pub(super) fn split_into_batches(&self) -> Vec<Vec<FileByteRun>> {
        let mut batches = vec![Vec::new()];
        let mut bytes = 0;
        let mut names = 0;
        for (path, size) in self.file_sizes() {
            let mut offset = 0;
            loop {
                let batch = batches.last().map_or(0, Vec::len);
                if bytes >= PIECE || batch >= RUNS_MAX || names >= NAMES_MAX {
                    batches.push(Vec::new());
                    bytes = 0;
                    names = 0;
                }
                let room = u64::from(PIECE - bytes);
                let length = u32::try_from((size - offset).min(room)).unwrap_or(PIECE);
                bytes += length;
                names += path.len();
                if let Some(batch) = batches.last_mut() {
                    batch.push(FileByteRun {
                        path: path.to_vec(),
                        offset,
                        length,
                    });
                }
                offset += u64::from(length);
                if offset >= size {
                    break;
                }
            }
        }
        batches
    }

    /// Lists all files and their sizes.
    fn file_sizes(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.0.iter().filter_map(|leaf| match leaf.kind {
            ListingEntryKind::File { size, .. } => Some((&leaf.path[..], size)),
            ListingEntryKind::Directory | ListingEntryKind::Link(_) => None,
        })
    }

    /// Returns the bytes of all files.
    pub(super) fn total_bytes(&self) -> u64 {
        self.file_sizes()
            .map(|(_, size)| size)
            .fold(0, u64::saturating_add)
    }
}

/// Computes the digest of a directory while its files pass by, in their order.
pub(super) struct DirectoryDigester<'a> {
    listing: &'a DirectoryListing,
    sizes: Vec<u64>,
    digests: Vec<Digest>,
    file: blake3::Hasher,
    all: sha2::Sha256,
}

impl<'a> DirectoryDigester<'a> {
    pub(super) fn new(listing: &'a DirectoryListing) -> Self {
        let sizes = listing.file_sizes().map(|(_, size)| size).collect();
        let file = blake3::Hasher::new();
        let all = sha2::Sha256::new();
        Self {
            listing,
            sizes,
            digests: Vec::new(),
            file,
            all,
        }
    }

    /// Takes the bytes of the next runs.
    pub(super) fn add_runs(&mut self, runs: &[FileByteRun], mut bytes: &[u8]) {
        for run in runs {
            let (now, rest) = bytes.split_at(bytes.len().min(run.length as usize));
            self.file.update(now);
            self.all.update(now);
            bytes = rest;
            if self
                .sizes
                .get(self.digests.len())
                .is_none_or(|size| run.end_offset() >= *size)
            {
                self.digests.push(Digest(*self.file.finalize().as_bytes()));
                self.file.reset();
            }
        }
    }

    /// Returns the digest of the directory, and the SHA-256 of all files, one behind the other.
    pub(super) fn finish_digests(self) -> (Digest, String) {
        let mut digests = self.digests.into_iter();
        let digest = manifest::digest_entries(
            self.listing
                .0
                .iter()
                .map(|leaf: &ListingEntry| {
                    let kind = match &leaf.kind {
                        ListingEntryKind::Directory => ManifestEntryKind::Directory,
                        ListingEntryKind::Link(target) => ManifestEntryKind::Link {
                            target: target.clone(),
                        },
                        ListingEntryKind::File { executable, size } => ManifestEntryKind::File {
                            executable: *executable,
                            size: *size,
                            digest: digests.next().unwrap_or(Digest([0; 32])),
                        },
                    };
                    ManifestEntry {
                        path: leaf.path.clone(),
                        kind,
                    }
                })
                .collect(),
        );
        (digest, sha256_hex(self.all))
    }
}

/// Formats a SHA-256 as the site's tool prints it.
pub(super) fn sha256_hex(sum: sha2::Sha256) -> String {
    sum.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Finds out what a directory at a site is, by reading all of it.
pub(super) async fn inspect_directory(
    files: &dyn RootedFiles,
    place: &FilePlace,
    listing: &DirectoryListing,
) -> Result<InspectedFile, SiteError> {
    let mut digester = DirectoryDigester::new(listing);
    for runs in listing.split_into_batches() {
        let bytes = files.read_runs(place, &runs).await?;
        digester.add_runs(&runs, &bytes);
    }
    if files.list(place).await?.as_ref() != Some(listing) {
        return Err(SiteError::Refused(
            "it changed while it was read".to_owned(),
        ));
    }
    let content = Content {
        digest: digester.finish_digests().0,
        size: Bytes(listing.total_bytes()),
    };
    Ok(InspectedFile {
        content,
        directory: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(path: &str, kind: ListingEntryKind) -> ListingEntry {
        ListingEntry {
            path: path.into(),
            kind,
        }
    }

    fn file(path: &str, size: u64) -> ListingEntry {
        leaf(
            path,
            ListingEntryKind::File {
                executable: false,
                size,
            },
        )
    }

    #[test]
    fn what_would_be_made_elsewhere_is_no_listing() {
        let directory = || leaf("d", ListingEntryKind::Directory);
        assert!(DirectoryListing::new(vec![file("d/x", 1), directory(), file("d.x", 0)]).is_ok());
        for wrong in [
            vec![file("", 1)],
            vec![file("../x", 1)],
            vec![file("/x", 1)],
            vec![file("d/x", 1)],
            vec![directory(), file("d/./x", 1)],
            vec![directory(), file("d/..", 1)],
            vec![file("d", 1), file("d/x", 1)],
            vec![directory(), directory()],
            vec![
                leaf("d", ListingEntryKind::Link("e".into())),
                file("d/x", 1),
            ],
            vec![leaf("x", ListingEntryKind::Link("..".into()))],
            vec![leaf("x", ListingEntryKind::Link("/etc".into()))],
        ] {
            let refused = DirectoryListing::new(wrong.clone());
            assert!(matches!(refused, Err(SiteError::Refused(_))), "{wrong:?}");
        }
    }

    #[test]
    fn batches_have_all_bytes_of_all_files_once_and_never_too_many() {
        let sizes = [0, 1, u64::from(PIECE), u64::from(PIECE) * 2 + 5, 0, 7];
        let many = (0..1_000).map(|n| file(&format!("many-{n:04}"), 3));
        let leaves = sizes
            .iter()
            .enumerate()
            .map(|(n, size)| file(&format!("{n}"), *size));
        let listing = DirectoryListing::new(leaves.chain(many).collect()).unwrap();
        let batches = listing.split_into_batches();
        let mut read = Vec::<(Vec<u8>, u64)>::new();
        for run in batches.iter().flatten() {
            match read.last_mut().filter(|(path, _)| *path == run.path) {
                Some((_, end)) => {
                    assert_eq!(*end, run.offset);
                    *end = run.end_offset();
                }
                None => {
                    assert_eq!(run.offset, 0);
                    read.push((run.path.clone(), run.end_offset()));
                }
            }
        }
        let files = listing
            .file_sizes()
            .map(|(path, size)| (path.to_vec(), size));
        assert_eq!(read, files.collect::<Vec<_>>());
        for batch in &batches {
            let bytes: u32 = batch.iter().map(|run| run.length).sum();
            assert!(batch.len() <= RUNS_MAX && bytes <= PIECE);
        }
    }
}
