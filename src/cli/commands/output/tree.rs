//! Directories: everything below them is fetched, each file whole or not at all. Nothing that is
//! there already is removed, and nothing is written through a link.

use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cospan_sites::files::manifest::{self, ManifestEntry, ManifestEntryKind};
use cospan_sites::files::tree_pieces::{DirectoryListing, ListingEntry, ListingEntryKind};

use super::{DownloadedFile, OutputDownload, check_download};
use crate::cli::exit::{CliError, CliExitCode};
use cospan_api::v1::job::OutputReport;
use cospan_api::v1::tree::{TreeEntry, TreeReport};

/// Fetches everything below a directory that is not there already.
pub(super) fn download_tree(
    way: &OutputDownload<'_>,
    listed: TreeReport,
    overwrite: bool,
) -> Result<DownloadedFile, CliError> {
    // A path from the server must not lead out of the directory.
    let listing = DirectoryListing::new(list_leaves(listed)).map_err(|_| {
        CliError::usage_error("its paths lead elsewhere", "do not trust this server")
    })?;
    let mut tree = DirectoryDownload {
        way,
        overwrite,
        fetched: false,
        size: 0,
        entries: Vec::new(),
    };
    tree.make_directory(way.file)?;
    let mut kept = None;
    // Links come last: until then no path below the directory goes through a link.
    let (links, rest): (Vec<&ListingEntry>, Vec<&ListingEntry>) = listing
        .leaves()
        .iter()
        .partition(|leaf| matches!(leaf.kind, ListingEntryKind::Link(_)));
    for leaf in rest.into_iter().chain(links) {
        match tree.download_leaf(leaf) {
            Ok(kind) => tree.entries.push(ManifestEntry {
                path: leaf.path.clone(),
                kind,
            }),
            // A file in the way stays, and the user can remove it; all others are fetched.
            Err(error) if error.exit == CliExitCode::Usage && error.remedy.is_some() => {
                kept = kept.or(Some(error))
            }
            Err(error) => return Err(error),
        }
    }
    match kept {
        Some(error) => Err(error),
        None => tree.into_downloaded(),
    }
}

/// Returns the entries as the site reports them. They must be checked before they are created.
fn list_leaves(listed: TreeReport) -> Vec<ListingEntry> {
    let leaves = listed.entries.into_iter().map(|entry| match entry {
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

/// A directory on its way.
struct DirectoryDownload<'w> {
    way: &'w OutputDownload<'w>,
    overwrite: bool,
    /// True if something came that was not there before.
    fetched: bool,
    size: u64,
    entries: Vec<ManifestEntry>,
}

impl DirectoryDownload<'_> {
    fn download_leaf(&mut self, leaf: &ListingEntry) -> Result<ManifestEntryKind, CliError> {
        let to = self.way.file.join(std::ffi::OsStr::from_bytes(&leaf.path));
        match &leaf.kind {
            ListingEntryKind::Directory => self
                .make_directory(&to)
                .map(|()| ManifestEntryKind::Directory),
            ListingEntryKind::File { executable, .. } => {
                self.download_leaf_file(leaf, &to, *executable)
            }
            ListingEntryKind::Link(target) => {
                self.make_link(&to, target)?;
                Ok(ManifestEntryKind::Link {
                    target: target.clone(),
                })
            }
        }
    }

    fn make_directory(&mut self, to: &Path) -> Result<(), CliError> {
        match fs::symlink_metadata(to) {
            Ok(there) if there.is_dir() => Ok(()),
            Ok(_) if !self.overwrite => Err(path_taken_in_tree(to)),
            found => {
                let cleared = if found.is_ok() {
                    fs::remove_file(to)
                } else {
                    Ok(())
                };
                let made = cleared.and_then(|()| fs::create_dir_all(to));
                made.map_err(|error| CliError::file_error("make the directory", to, &error))?;
                self.fetched = true;
                Ok(())
            }
        }
    }

    fn download_leaf_file(
        &mut self,
        leaf: &ListingEntry,
        to: &Path,
        executable: bool,
    ) -> Result<ManifestEntryKind, CliError> {
        let below = String::from_utf8_lossy(&leaf.path);
        let output = OutputReport {
            path: format!("{}/{below}", self.way.output.path),
            digest: None,
            size_bytes: None,
            ..self.way.output.clone()
        };
        let way = OutputDownload {
            output: &output,
            file: to,
            ..*self.way
        };
        let arrived = way
            .download_file(self.overwrite)
            .map_err(|error| CliError {
                message: format!("{below}: {}", error.message),
                ..error
            })?;
        if executable && !arrived.was_there {
            fs::metadata(to)
                .and_then(|meta| {
                    // Executable for everybody who may read it.
                    let mode = meta.permissions().mode();
                    fs::set_permissions(to, Permissions::from_mode(mode | (mode & 0o444) >> 2))
                })
                .map_err(|error| CliError::file_error("make executable", to, &error))?;
        }
        self.fetched |= !arrived.was_there;
        self.size += arrived.size;
        let digest = arrived.digest.parse().map_err(|_| path_taken_in_tree(to))?;
        Ok(ManifestEntryKind::File {
            executable,
            size: arrived.size,
            digest,
        })
    }

    fn make_link(&mut self, to: &Path, target: &[u8]) -> Result<(), CliError> {
        let target = PathBuf::from(std::ffi::OsStr::from_bytes(target));
        match fs::symlink_metadata(to) {
            Ok(there) if there.is_symlink() && fs::read_link(to).is_ok_and(|is| is == target) => {
                return Ok(());
            }
            Ok(_) if !self.overwrite => return Err(path_taken_in_tree(to)),
            Ok(_) => fs::remove_file(to)
                .map_err(|error| CliError::file_error("make the link", to, &error))?,
            Err(_) => {}
        }
        self.fetched = true;
        std::os::unix::fs::symlink(&target, to)
            .map_err(|error| CliError::file_error("make the link", to, &error))
    }

    fn into_downloaded(self) -> Result<DownloadedFile, CliError> {
        let digest = manifest::digest_entries(self.entries).to_string();
        check_download(self.way.output, None, self.size, &digest)?;
        Ok(DownloadedFile {
            size: self.size,
            digest,
            was_there: !self.fetched,
        })
    }
}

fn path_taken_in_tree(there: &Path) -> CliError {
    CliError::usage_error(
        format!(
            "{} is already there, and stays as it is; --overwrite replaces it",
            there.display()
        ),
        "fetch it with --overwrite, or to another directory with --to",
    )
}
