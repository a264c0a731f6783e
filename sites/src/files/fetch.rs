//! A site of this machine that gets copies from sites which only an agent can reach: a source is
//! first fetched to this machine, piece by piece, and then copied as from a neighbour.
//!
//! The site itself knows such a source as a neighbour whose root is `relay/<source>`, which has a
//! store and nothing else. A fetched file is removed when its copy is complete.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, SiteName};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::fetch_tree::fetch_tree;
use super::file_root::STORE;
use super::open_beneath::DirectoryHandle;
use super::push_copy::{pace_to_limit, retry_while_passing};
use super::remote_file_area::PIECE;
use super::{RootedFiles, SourcesBySite};
use crate::port::{
    CopyBlame, CopyRequest, CopySource, CopyStatus, Gate, ReadableFile, Site, SiteCopies,
    SiteError, SiteFiles, SiteMonitor, SiteQueue, SiteReservations,
};

/// Returns the directory in which a site of this machine finds what was fetched from a source.
pub fn relay_root(directory: &Path, to: &SiteName, from: &SiteName) -> PathBuf {
    directory.join(to.as_str()).join(from.as_str())
}

/// A site, and the remote sources of its copies.
pub struct FetchingSite {
    site: Arc<dyn Site>,
    sources: SourcesBySite,
    /// See [`relay_root`].
    directory: PathBuf,
    fetches: Mutex<BTreeMap<String, RunningFetch>>,
}

/// The fetching for one copy.
struct RunningFetch {
    done: Arc<AtomicU64>,
    task: JoinHandle<()>,
    failed: Arc<Mutex<Option<(CopyBlame, String)>>>,
}

impl FetchingSite {
    /// Wraps `site`: copies from `sources` go through a directory of this machine.
    pub fn new(site: Arc<dyn Site>, sources: SourcesBySite, directory: PathBuf) -> Self {
        Self {
            site,
            sources,
            directory,
            fetches: Mutex::default(),
        }
    }

    fn lock_fetches(&self) -> MutexGuard<'_, BTreeMap<String, RunningFetch>> {
        self.fetches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn needs_fetch(&self, order: &CopyRequest) -> bool {
        self.sources.contains_key(&order.source.site)
    }

    fn relay_path(&self, order: &CopyRequest) -> PathBuf {
        let root = relay_root(&self.directory, self.site.name(), &order.source.site);
        root.join(STORE)
            .join(source_content(order).digest.to_string())
    }

    fn start_fetch(&self, order: &CopyRequest, source: &Arc<dyn RootedFiles>, name: String) {
        let mut fetches = self.lock_fetches();
        if fetches
            .get(&name)
            .is_some_and(|fetch| !fetch.task.is_finished())
        {
            return;
        }
        let done = Arc::new(AtomicU64::new(0));
        let failed = Arc::new(Mutex::new(None));
        let site = self.site.clone();
        let to = self.relay_path(order);
        let order = order.clone();
        let source = source.clone();
        let counter = done.clone();
        let ended = failed.clone();
        let task = tokio::spawn(async move {
            let outcome = async {
                fetch_file(&*source, &order, &to, &counter).await?;
                let place = FilePlace::Store(source_content(&order).digest);
                let source = CopySource {
                    site: order.source.site.clone(),
                    place,
                };
                // The limit of the link was applied while fetching.
                let copy = CopyRequest {
                    source,
                    limit: None,
                    ..order
                };
                let started = site.copies().start_copy(&copy).await;
                started.map_err(|error| (CopyBlame::Destination, error.to_string()))
            };
            let failed = outcome.await.err();
            *ended.lock().unwrap_or_else(PoisonError::into_inner) = failed;
        });
        fetches.insert(name, RunningFetch { done, task, failed });
    }

    /// Returns the state of a fetch; `None` if the site itself knows more.
    fn fetch_status(&self, name: &str) -> Option<CopyStatus> {
        let fetches = self.lock_fetches();
        let fetch = fetches.get(name)?;
        if !fetch.task.is_finished() {
            return Some(CopyStatus::Running {
                done: Bytes(fetch.done.load(Ordering::Relaxed)),
            });
        }
        let failed = fetch
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        failed.map(|(blame, detail)| CopyStatus::Failed { blame, detail })
    }

    fn forget_fetch(&self, order: &CopyRequest, name: &str) -> Option<RunningFetch> {
        // It may never have been there.
        let _ = remove_path(&self.relay_path(order));
        self.lock_fetches().remove(name)
    }
}

/// Returns what the source has to be.
fn source_content(order: &CopyRequest) -> Content {
    order.chunk.map_or(order.content, |chunk| chunk.of)
}

/// Fetches a file to its place in a relay's store. Parts that are there are not fetched again.
async fn fetch_file(
    source: &dyn RootedFiles,
    order: &CopyRequest,
    to: &Path,
    done: &AtomicU64,
) -> Result<(), (CopyBlame, String)> {
    let here = |error: io::Error| (CopyBlame::Destination, format!("{}: {error}", to.display()));
    if tokio::fs::try_exists(to).await.map_err(here)? {
        return Ok(());
    }
    if let Some(store) = to.parent() {
        tokio::fs::create_dir_all(store).await.map_err(here)?;
    }
    let wanted = source_content(order);
    let part = to.with_extension("part");
    let listing = retry_while_passing(|| source.list(&order.source.place)).await;
    if let Some(listing) = listing.map_err(|error| (CopyBlame::Source, error.to_string()))? {
        fetch_tree(source, order, Arc::new(listing), part.clone(), done).await?;
        return put_in_place(part, to).await.map_err(here);
    }
    let mut data = tokio::fs::OpenOptions::new();
    let mut data = data
        .read(true)
        .append(true)
        .create(true)
        .open(&part)
        .await
        .map_err(here)?;
    let mut hasher = blake3::Hasher::new();
    let mut offset = hash_existing(&mut data, &mut hasher).await.map_err(here)?;
    let what = ReadableFile::File(order.source.place.clone());
    while offset < wanted.size.0 {
        let started = Instant::now();
        let piece = retry_while_passing(|| source.read(&what, Bytes(offset), PIECE)).await;
        let piece = piece.map_err(|error| (CopyBlame::Source, error.to_string()))?;
        if piece.bytes.is_empty() || piece.size != wanted.size {
            let why = format!("it has {} bytes instead of {}", piece.size.0, wanted.size.0);
            return Err((CopyBlame::Source, why));
        }
        hasher.update(&piece.bytes);
        data.write_all(&piece.bytes).await.map_err(here)?;
        offset += piece.bytes.len() as u64;
        done.store(offset, Ordering::Relaxed);
        pace_to_limit(order.limit, piece.bytes.len(), started).await;
    }
    data.sync_all().await.map_err(here)?;
    if offset != wanted.size.0 || Digest(*hasher.finalize().as_bytes()) != wanted.digest {
        tokio::fs::remove_file(&part).await.map_err(here)?;
        return Err((
            CopyBlame::Source,
            "it is not the expected content".to_owned(),
        ));
    }
    put_in_place(part, to).await.map_err(here)
}

/// Gives a fetched file its name, safely also on a power cut: it will not be fetched again.
async fn put_in_place(part: PathBuf, to: &Path) -> io::Result<()> {
    let to = to.to_path_buf();
    tokio::task::spawn_blocking(move || {
        if part.is_dir() {
            DirectoryHandle::open(&part)?.sync_file_system()?;
        }
        cospan_durable::rename_durably(&part, &to)
    })
    .await
    .map_err(io::Error::other)?
}

/// Removes a file, or a directory with all below it.
pub(super) fn remove_path(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    DirectoryHandle::open(parent)?.remove_tree(name)
}

async fn hash_existing(from: &mut tokio::fs::File, hasher: &mut blake3::Hasher) -> io::Result<u64> {
    let mut buffer = vec![0; 256 << 10];
    let mut length = 0;
    loop {
        match from.read(&mut buffer).await? {
            0 => return Ok(length),
            read => {
                hasher.update(&buffer[..read]);
                length += read as u64;
            }
        }
    }
}

#[async_trait]
impl SiteCopies for FetchingSite {
    async fn start_copy(&self, order: &CopyRequest) -> Result<(), SiteError> {
        match self.sources.get(&order.source.site) {
            None => self.site.copies().start_copy(order).await,
            Some(source) => {
                let name = super::copy_tasks::copy_task_name(order)?;
                self.start_fetch(order, source, name);
                Ok(())
            }
        }
    }

    async fn copy_status(&self, order: &CopyRequest) -> Result<CopyStatus, SiteError> {
        if !self.needs_fetch(order) {
            return self.site.copies().copy_status(order).await;
        }
        let name = super::copy_tasks::copy_task_name(order)?;
        if let Some(status) = self.fetch_status(&name) {
            return Ok(status);
        }
        let status = self.site.copies().copy_status(order).await?;
        if status == CopyStatus::Complete {
            self.forget_fetch(order, &name);
        }
        Ok(status)
    }

    async fn stop_copy(&self, order: &CopyRequest, discard: bool) -> Result<(), SiteError> {
        if self.needs_fetch(order) {
            let name = super::copy_tasks::copy_task_name(order)?;
            if let Some(fetch) = self.forget_fetch(order, &name) {
                fetch.task.abort();
                // An abort is an end, too.
                let _ = fetch.task.await;
            }
        }
        self.site.copies().stop_copy(order, discard).await
    }
}

impl Site for FetchingSite {
    fn name(&self) -> &SiteName {
        self.site.name()
    }

    fn monitor(&self) -> &dyn SiteMonitor {
        self.site.monitor()
    }

    fn queue(&self) -> &dyn SiteQueue {
        self.site.queue()
    }

    fn gate(&self) -> &dyn Gate {
        self.site.gate()
    }

    fn files(&self) -> &dyn SiteFiles {
        self.site.files()
    }

    fn copies(&self) -> &dyn SiteCopies {
        self
    }

    fn reservations(&self) -> Option<&dyn SiteReservations> {
        self.site.reservations()
    }
}
