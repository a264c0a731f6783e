//! A directory that is fetched from a site which only an agent can reach, to one of this machine.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cospan_domain::units::Bytes;
use rustix::fs::{FileType, Mode};
use tokio::time::Instant;

use super::RootedFiles;
use super::agent::directory_content;
use super::fetch::remove_path;
use super::open_beneath::{DirectoryHandle, file_kind};
use super::push_copy::{pace_to_limit, retry_while_passing};
use super::push_tree::{ArrivedFileSizes, missing_runs};
use super::tree_pieces::{DirectoryListing, FileByteRun, ListingEntry, ListingEntryKind};
use crate::port::{CopyBlame, CopyRequest};

/// The mode of files that somebody may execute.
const EXECUTABLE: Mode = Mode::RWXU;

/// Fetches a directory to a place of ours. Files that are there are not fetched again, as long as
/// the result is right; otherwise the next try begins anew.
pub(super) async fn fetch_tree(
    source: &dyn RootedFiles,
    order: &CopyRequest,
    listing: Arc<DirectoryListing>,
    to: PathBuf,
    done: &AtomicU64,
) -> Result<(), (CopyBlame, String)> {
    if order.chunk.is_some() {
        let why = "it is a directory, and was to be read in chunks";
        return Err((CopyBlame::Source, why.to_owned()));
    }
    if Bytes(listing.total_bytes()) != order.content.size {
        let is = listing.total_bytes();
        let wanted = order.content.size.0;
        return Err((
            CopyBlame::Source,
            format!("it has {is} bytes instead of {wanted}"),
        ));
    }
    let place = to.clone();
    let plan = listing.clone();
    let there = run_blocking(&to, move || begin_tree(&place, &plan)).await?;
    let mut arrived = 0;
    for runs in listing.split_into_batches() {
        let started = Instant::now();
        let all: u64 = runs.iter().map(|run| u64::from(run.length)).sum();
        let runs = missing_runs(&runs, &there);
        if !runs.is_empty() {
            let bytes = retry_while_passing(|| source.read_runs(&order.source.place, &runs)).await;
            let bytes = bytes.map_err(|error| (CopyBlame::Source, error.to_string()))?;
            let place = to.clone();
            let length = bytes.len();
            run_blocking(&to, move || write_runs(&place, &runs, &bytes)).await?;
            pace_to_limit(order.limit, length, started).await;
        }
        arrived += all;
        done.store(arrived, Ordering::Relaxed);
    }
    let place = to.clone();
    let plan = listing;
    let wanted = order.content;
    let found = run_blocking(&to, move || {
        add_links_and_modes(&place, &plan)?;
        let found = directory_content(DirectoryHandle::open(&place)?);
        if found.as_ref().ok() != Some(&wanted) {
            remove_path(&place)?;
        }
        Ok(found)
    });
    match found.await? {
        Ok(found) if found == wanted => Ok(()),
        Ok(_) => Err((
            CopyBlame::Source,
            "it is not the expected content".to_owned(),
        )),
        Err(why) => Err((CopyBlame::Source, why)),
    }
}

/// Runs work on our file system in a thread where it holds nobody up.
async fn run_blocking<T: Send + 'static>(
    to: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, (CopyBlame, String)> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| (CopyBlame::Destination, format!("{}: {error}", to.display())))
}

/// Makes the directories; if something stands in their way, once more from nothing.
fn begin_tree(to: &Path, listing: &DirectoryListing) -> io::Result<ArrivedFileSizes> {
    make_directories(to, listing).or_else(|_| {
        remove_path(to)?;
        make_directories(to, listing)
    })
}

fn make_directories(to: &Path, listing: &DirectoryListing) -> io::Result<ArrivedFileSizes> {
    std::fs::DirBuilder::new().recursive(true).create(to)?;
    let top = DirectoryHandle::open(to)?;
    let mut sizes = ArrivedFileSizes::new();
    for leaf in listing.leaves() {
        let (parent, name) = top.open_parent_of(&leaf.path)?;
        let parent = parent.as_ref().unwrap_or(&top);
        match leaf.kind {
            ListingEntryKind::Directory => drop(parent.ensure_dir(name)?),
            ListingEntryKind::Link(_) => {}
            ListingEntryKind::File { .. } => match parent.find_name(name)? {
                Some(stat) if file_kind(&stat) == FileType::RegularFile => {
                    sizes.insert(leaf.path.clone(), stat.st_size.unsigned_abs());
                }
                Some(_) => parent.remove_tree(name)?,
                None => {}
            },
        }
    }
    Ok(sizes)
}

fn write_runs(to: &Path, runs: &[FileByteRun], mut bytes: &[u8]) -> io::Result<()> {
    let top = DirectoryHandle::open(to)?;
    for run in runs {
        let (own, rest) = bytes.split_at(bytes.len().min(run.length as usize));
        bytes = rest;
        let (parent, name) = top.open_parent_of(&run.path)?;
        let file: File = parent.as_ref().unwrap_or(&top).open_to_write(name)?;
        file.write_all_at(own, run.offset)?;
    }
    Ok(())
}

/// Makes the links, and sets the mode of executable files.
fn add_links_and_modes(to: &Path, listing: &DirectoryListing) -> io::Result<()> {
    let top = DirectoryHandle::open(to)?;
    listing
        .leaves()
        .iter()
        .try_for_each(|ListingEntry { path, kind }: &ListingEntry| {
            let (parent, name) = top.open_parent_of(path)?;
            let parent = parent.as_ref().unwrap_or(&top);
            match kind {
                ListingEntryKind::File {
                    executable: true, ..
                } => Ok(rustix::fs::fchmod(parent.open_to_write(name)?, EXECUTABLE)?),
                ListingEntryKind::Link(target) => {
                    parent.remove_tree(name)?;
                    parent.make_link(&target[..], name)
                }
                ListingEntryKind::File { .. } | ListingEntryKind::Directory => Ok(()),
            }
        })
}
