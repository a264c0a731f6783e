//! Copies a directory through this process, from any source to a site that takes pieces.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use cospan_domain::content::Content;
use cospan_domain::units::Bytes;
use tokio::time::Instant;

use super::push_copy::{PATIENCE, PAUSE, PushDestination, PushError, RunningPush};
use super::push_copy::{blame_destination, blame_source, pace_to_limit, retry_while_passing};
use super::tree_pieces::{DirectoryDigester, DirectoryListing, FileByteRun, ListingEntryKind};
use crate::port::{CopyBlame, SiteError};

/// The bytes that are there of each file.
pub(super) type ArrivedFileSizes = BTreeMap<Vec<u8>, u64>;

/// A site that takes pieces of directories.
#[async_trait]
pub(super) trait TreePushDestination: PushDestination {
    /// Begins a copy, or resumes what is there of it; makes its directories.
    async fn begin_tree(
        &self,
        name: &str,
        listing: &DirectoryListing,
    ) -> Result<ArrivedFileSizes, SiteError>;
    /// Appends to files that are there up to the run; each run says whether its file is executable.
    async fn append_runs(
        &self,
        name: &str,
        runs: &[(FileByteRun, bool)],
        bytes: Vec<u8>,
    ) -> Result<(), SiteError>;
    /// Makes its links, checks that exactly the listing is there, and gives it its place; the sum
    /// is the SHA-256 of all its files, one behind the other, in hexadecimal digits.
    async fn commit_tree(
        &self,
        name: &str,
        listing: &DirectoryListing,
        content: Content,
        sum: &str,
    ) -> Result<(), SiteError>;
}

impl<D: TreePushDestination> RunningPush<D> {
    pub(super) async fn run_tree_copy(&self, listing: &DirectoryListing) -> Result<(), PushError> {
        if self.order.chunk.is_some() {
            let why = "it is a directory, and was to be read in chunks";
            return Err((CopyBlame::Source, why.to_owned()));
        }
        if Bytes(listing.total_bytes()) != self.order.content.size {
            let is = listing.total_bytes();
            let wanted = self.order.content.size.0;
            return Err((
                CopyBlame::Source,
                format!("it has {is} bytes instead of {wanted}"),
            ));
        }
        let there = if self.is_own {
            ArrivedFileSizes::new()
        } else {
            self.begin_tree_with_retries(listing).await?
        };
        let resumed = !there.is_empty();
        match self.push_tree_once(listing, there).await {
            // The files that were there may be to blame.
            Err((CopyBlame::Destination, _)) if resumed => {
                retry_while_passing(|| self.to.discard_copy(&self.name))
                    .await
                    .map_err(blame_destination)?;
                let there = self.begin_tree_with_retries(listing).await?;
                self.push_tree_once(listing, there).await
            }
            done => done,
        }
    }

    async fn begin_tree_with_retries(
        &self,
        listing: &DirectoryListing,
    ) -> Result<ArrivedFileSizes, PushError> {
        retry_while_passing(|| self.to.begin_tree(&self.name, listing))
            .await
            .map_err(blame_destination)
    }

    /// Reads all of the source, to know that it is what was asked for; bytes that are there
    /// already are not sent again.
    async fn push_tree_once(
        &self,
        listing: &DirectoryListing,
        mut there: ArrivedFileSizes,
    ) -> Result<(), PushError> {
        let content = self.order.content;
        let place = &self.order.source.place;
        let executable: BTreeMap<&[u8], bool> = executable_files(listing);
        let mut digester = DirectoryDigester::new(listing);
        let mut done = 0;
        for runs in listing.split_into_batches() {
            let started = Instant::now();
            let bytes = retry_while_passing(|| self.source.read_runs(place, &runs))
                .await
                .map_err(blame_source)?;
            digester.add_runs(&runs, &bytes);
            if !self.is_own {
                self.send_runs(listing, &runs, &bytes, &executable, &mut there)
                    .await?;
                pace_to_limit(self.order.limit, bytes.len(), started).await;
            }
            done += bytes.len() as u64;
            self.done.store(done, Ordering::Relaxed);
        }
        let (digest, sum) = digester.finish_digests();
        if digest != content.digest {
            return Err((
                CopyBlame::Source,
                "it is not the expected content".to_owned(),
            ));
        }
        if self.is_own {
            retry_while_passing(|| self.to.duplicate_own(&self.name, place))
                .await
                .map_err(blame_destination)?;
        }
        retry_while_passing(|| self.to.commit_tree(&self.name, listing, content, &sum))
            .await
            .map_err(blame_destination)
    }

    /// Sends what is missing of these runs.
    async fn send_runs(
        &self,
        listing: &DirectoryListing,
        runs: &[FileByteRun],
        bytes: &[u8],
        executable: &BTreeMap<&[u8], bool>,
        there: &mut ArrivedFileSizes,
    ) -> Result<(), PushError> {
        let tried = Instant::now();
        loop {
            let missing = missing_runs(runs, there);
            if missing.is_empty() {
                return Ok(());
            }
            let bytes = missing_bytes(&missing, runs, bytes);
            let missing: Vec<_> = missing
                .into_iter()
                .map(|run: FileByteRun| {
                    let executable = executable.get(&run.path[..]).copied().unwrap_or(false);
                    (run, executable)
                })
                .collect();
            match self.to.append_runs(&self.name, &missing, bytes).await {
                Ok(()) => {
                    there.extend(missing.into_iter().map(|(run, _)| {
                        let end = run.end_offset();
                        (run.path, end)
                    }));
                }
                Err(error) if error.is_passing() && tried.elapsed() < PATIENCE => {
                    tokio::time::sleep(PAUSE).await;
                    *there = self.begin_tree_with_retries(listing).await?;
                }
                Err(error) => return Err(blame_destination(error)),
            }
        }
    }
}

fn executable_files(listing: &DirectoryListing) -> BTreeMap<&[u8], bool> {
    let leaves = listing.leaves().iter();
    let files = leaves.filter_map(|leaf| match leaf.kind {
        ListingEntryKind::File { executable, .. } => Some((&leaf.path[..], executable)),
        ListingEntryKind::Directory | ListingEntryKind::Link(_) => None,
    });
    files.collect()
}

/// Returns what is missing of these runs.
pub(super) fn missing_runs(runs: &[FileByteRun], there: &ArrivedFileSizes) -> Vec<FileByteRun> {
    runs.iter()
        .filter_map(|run: &FileByteRun| {
            let known = there.get(&run.path).copied();
            let offset = known.unwrap_or(0).max(run.offset);
            let length = u32::try_from(run.end_offset().saturating_sub(offset)).unwrap_or(0);
            (length > 0 || known.is_none()).then(|| FileByteRun {
                path: run.path.clone(),
                offset,
                length,
            })
        })
        .collect()
}

/// Returns the bytes of the missing parts of these runs, whose bytes are `bytes`.
fn missing_bytes(missing: &[FileByteRun], runs: &[FileByteRun], mut bytes: &[u8]) -> Vec<u8> {
    let mut missing = missing.iter().peekable();
    let mut to_send = Vec::new();
    for run in runs {
        let (own, rest) = bytes.split_at(bytes.len().min(run.length as usize));
        bytes = rest;
        if let Some(left) = missing.next_if(|left| left.path == run.path) {
            let known = (left.offset - run.offset) as usize;
            to_send.extend_from_slice(own.get(known..).unwrap_or_default());
        }
    }
    to_send
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_run(path: &str, offset: u64, length: u32) -> FileByteRun {
        FileByteRun {
            path: path.into(),
            offset,
            length,
        }
    }

    #[test]
    fn only_what_is_not_there_is_sent_and_empty_files_are_made() {
        let runs = [
            make_run("a", 4, 3),
            make_run("b", 0, 4),
            make_run("c", 0, 2),
            make_run("d", 0, 0),
            make_run("e", 0, 0),
        ];
        let there = [("a", 7), ("b", 1), ("e", 0)].map(|(path, size)| (path.into(), size));
        let left = missing_runs(&runs, &there.into());
        assert_eq!(
            left,
            [
                make_run("b", 1, 3),
                make_run("c", 0, 2),
                make_run("d", 0, 0)
            ]
        );
        assert_eq!(missing_bytes(&left, &runs, b"456bcde12"), b"cde12");
    }
}
