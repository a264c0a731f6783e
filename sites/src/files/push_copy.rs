//! Copies a file through this process, from any source to a site that takes pieces.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cospan_domain::content::Content;
use cospan_domain::ids::Digest;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::{BitsPerSecond, Bytes};
use sha2::Digest as _;
use tokio::time::Instant;

use super::RootedFiles;
use super::push_tree::TreePushDestination;
use super::remote_file_area::PIECE;
use super::tree_pieces::sha256_hex;
use crate::port::{CopyBlame, CopyRequest, FileExcerpt, ReadableFile, SiteError};

/// The longest that we wait for a connection that is gone.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// The pause between two tries.
pub(super) const PAUSE: Duration = Duration::from_secs(2);

/// A site that takes pieces.
#[async_trait]
pub(super) trait PushDestination: Send + Sync {
    /// Returns how many bytes of a copy are there.
    async fn arrived_bytes(&self, name: &str) -> Result<u64, SiteError>;
    /// Appends to a copy of which `offset` bytes are there.
    async fn append_bytes(&self, name: &str, offset: u64, bytes: Vec<u8>) -> Result<(), SiteError>;
    /// Makes a copy of a file or directory that the site has itself.
    async fn duplicate_own(&self, name: &str, from: &FilePlace) -> Result<(), SiteError>;
    /// Gives a complete copy its place; the sum is its SHA-256 in hexadecimal digits.
    async fn commit_copy(&self, name: &str, content: Content, sum: &str) -> Result<(), SiteError>;
    /// Drops a copy.
    async fn discard_copy(&self, name: &str) -> Result<(), SiteError>;
}

/// A copy in progress.
pub(super) struct RunningPush<D> {
    pub(super) name: String,
    pub(super) order: CopyRequest,
    pub(super) source: Arc<dyn RootedFiles>,
    /// True if the source is a file of the destination.
    pub(super) is_own: bool,
    pub(super) to: Arc<D>,
    pub(super) done: Arc<AtomicU64>,
}

pub(super) type PushError = (CopyBlame, String);

pub(super) fn blame_source(error: SiteError) -> PushError {
    (CopyBlame::Source, error.to_string())
}

pub(super) fn blame_destination(error: SiteError) -> PushError {
    (CopyBlame::Destination, error.to_string())
}

/// Repeats a call until it succeeds, fails for certain, or has taken too long.
pub(super) async fn retry_while_passing<T, F: Future<Output = Result<T, SiteError>>>(
    mut what: impl FnMut() -> F,
) -> Result<T, SiteError> {
    let started = Instant::now();
    loop {
        match what().await {
            Err(error) if error.is_passing() && started.elapsed() < PATIENCE => {
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}

/// Waits until these bytes, begun at `started`, have taken as long as the link allows.
pub(super) async fn pace_to_limit(limit: Option<BitsPerSecond>, bytes: usize, started: Instant) {
    if let Some(BitsPerSecond(limit @ 1..)) = limit {
        let least = Duration::from_secs_f64(bytes as f64 * 8.0 / limit as f64);
        tokio::time::sleep(least.saturating_sub(started.elapsed())).await;
    }
}

impl<D: TreePushDestination> RunningPush<D> {
    pub(super) async fn run_copy(self) -> Result<(), PushError> {
        let place = &self.order.source.place;
        if let Some(listing) = retry_while_passing(|| self.source.list(place))
            .await
            .map_err(blame_source)?
        {
            return self.run_tree_copy(&listing).await;
        }
        let resumed = retry_while_passing(|| self.to.arrived_bytes(&self.name))
            .await
            .map_err(blame_destination)?;
        match self.push_once(resumed).await {
            // The bytes that were there may be to blame.
            Err((CopyBlame::Destination, _)) if resumed > 0 => {
                retry_while_passing(|| self.to.discard_copy(&self.name))
                    .await
                    .map_err(blame_destination)?;
                self.push_once(0).await
            }
            done => done,
        }
    }

    /// Reads all of the source, to know that it is what was asked for; bytes that are there
    /// already are not sent again.
    async fn push_once(&self, mut arrived: u64) -> Result<(), PushError> {
        let wanted = self.order.content;
        let (file, from) = match self.order.chunk {
            Some(chunk) => (chunk.of, chunk.offset.0),
            None => (wanted, 0),
        };
        let run = from..from.saturating_add(wanted.size.0);
        let mut whole = blake3::Hasher::new();
        let mut sum = sha2::Sha256::new();
        let mut offset = 0;
        while offset < file.size.0 {
            let piece = self.read_piece(offset).await?;
            if piece.bytes.is_empty() || piece.size != file.size {
                let why = format!("it has {} bytes instead of {}", piece.size.0, file.size.0);
                return Err((CopyBlame::Source, why));
            }
            whole.update(&piece.bytes);
            let ends = offset + piece.bytes.len() as u64;
            let inside = run.start.clamp(offset, ends)..run.end.clamp(offset, ends);
            let cut =
                &piece.bytes[(inside.start - offset) as usize..(inside.end - offset) as usize];
            sum.update(cut);
            if !self.is_own || self.order.chunk.is_some() {
                let at = inside.start.saturating_sub(run.start);
                arrived = self.send_missing(cut, at, arrived).await?;
            }
            offset = ends;
            self.done
                .store(inside.end.saturating_sub(run.start), Ordering::Relaxed);
        }
        if Digest(*whole.finalize().as_bytes()) != file.digest {
            return Err((
                CopyBlame::Source,
                "it is not the expected content".to_owned(),
            ));
        }
        if self.is_own && self.order.chunk.is_none() {
            let from = &self.order.source.place;
            retry_while_passing(|| self.to.duplicate_own(&self.name, from))
                .await
                .map_err(blame_destination)?;
        } else if wanted.size.0 == 0 {
            retry_while_passing(|| self.to.append_bytes(&self.name, 0, Vec::new()))
                .await
                .map_err(blame_destination)?;
        }
        let sum = sha256_hex(sum);
        retry_while_passing(|| self.to.commit_copy(&self.name, wanted, &sum))
            .await
            .map_err(blame_destination)
    }

    async fn read_piece(&self, offset: u64) -> Result<FileExcerpt, PushError> {
        let what = ReadableFile::File(self.order.source.place.clone());
        retry_while_passing(|| self.source.read(&what, Bytes(offset), PIECE))
            .await
            .map_err(blame_source)
    }

    /// Sends those of these bytes, which begin at an offset of the copy, that are not there.
    /// Returns how many are there then.
    async fn send_missing(&self, bytes: &[u8], at: u64, arrived: u64) -> Result<u64, PushError> {
        let started = Instant::now();
        let ends = at + bytes.len() as u64;
        let mut arrived = arrived;
        let mut tried = Instant::now();
        while arrived < ends {
            let known = arrived.saturating_sub(at) as usize;
            match self
                .to
                .append_bytes(&self.name, arrived, bytes[known..].to_vec())
                .await
            {
                Ok(()) => arrived = ends,
                Err(error) if error.is_passing() && tried.elapsed() < PATIENCE => {
                    tokio::time::sleep(PAUSE).await;
                    let now = retry_while_passing(|| self.to.arrived_bytes(&self.name))
                        .await
                        .map_err(blame_destination)?;
                    if now < at || now > ends {
                        return Err(blame_destination(error));
                    }
                    if now > arrived {
                        tried = Instant::now();
                    }
                    arrived = now;
                }
                Err(error) => return Err(blame_destination(error)),
            }
        }
        pace_to_limit(self.order.limit, bytes.len(), started).await;
        Ok(arrived.max(ends))
    }
}
