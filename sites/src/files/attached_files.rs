//! The files of a site whose file system this machine has as well, whatever runs its jobs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cospan_domain::catalogue::file_state::FileStamp;
use cospan_domain::ids::{Digest, RelPath, SiteName};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;
use tokio::sync::Semaphore;

use super::awaited_inspection::{self, FileAreaAccess};
use super::tree_pieces::{DirectoryListing, FileByteRun};
use super::{CopySourceArea, FileArea, SiteFiles};
use crate::local_site::attempt_root::{ATTEMPTS, VerifiedSiteRoot};
use crate::port::{
    CopyRequest, CopyStatus, FileExcerpt, InspectedFile, InspectionProgress, PayloadStream,
    ReadableFile, SiteError, SiteFileCalls, UploadStep,
};

/// Calls that may be inside the site's file system at the same time. If it hangs, this many threads
/// hang with it and no more.
const CALLS_MAX: usize = 8;

/// The file area of one site, for calls that must not hold up the control thread.
#[derive(Debug, Clone)]
pub(crate) struct AttachedFiles {
    shared: Arc<AttachedFilesState>,
    calls: Arc<Semaphore>,
    deadline: Duration,
}

#[derive(Debug)]
struct AttachedFilesState {
    area: FileArea,
    name: SiteName,
    root: PathBuf,
    neighbours: BTreeMap<SiteName, PathBuf>,
}

impl AttachedFilesState {
    /// Returns the file area, if the site is there.
    fn reachable_area(&self) -> Result<&FileArea, SiteError> {
        VerifiedSiteRoot::open(&self.root, &self.name)
            .map_err(|error| SiteError::NotSent(format!("{}: {error}", self.root.display())))?;
        Ok(&self.area)
    }

    fn start_copy(&self, order: &CopyRequest) -> Result<(), SiteError> {
        let site = &order.source.site;
        let root = if *site == self.name {
            Some(&self.root)
        } else {
            self.neighbours.get(site)
        };
        let root = root.ok_or_else(|| {
            SiteError::Refused(format!(
                "copies from {site} are not possible: it is no neighbour"
            ))
        })?;
        let source = CopySourceArea {
            root: root.clone(),
            attempts: ATTEMPTS.to_owned(),
        };
        self.reachable_area()?.start_copy(order, &source)
    }

    fn read(
        &self,
        what: &ReadableFile,
        offset: Bytes,
        limit: u32,
    ) -> Result<FileExcerpt, SiteError> {
        let (tag, file) = match what {
            ReadableFile::File(place) => {
                return self.reachable_area()?.read_piece(place, offset, limit);
            }
            ReadableFile::Log(tag, PayloadStream::Stdout) => (tag, "stdout"),
            ReadableFile::Log(tag, PayloadStream::Stderr) => (tag, "stderr"),
        };
        let path = RelPath::new(&format!("{ATTEMPTS}/{tag}/{file}"))
            .map_err(|error| SiteError::Refused(error.to_string()))?;
        self.reachable_area()?.read_own_piece(&path, offset, limit)
    }
}

impl AttachedFiles {
    pub(crate) fn new(
        area: FileArea,
        name: SiteName,
        root: PathBuf,
        neighbours: BTreeMap<SiteName, PathBuf>,
        deadline: Duration,
    ) -> Self {
        let shared = Arc::new(AttachedFilesState {
            area,
            name,
            root,
            neighbours,
        });
        Self {
            shared,
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            deadline,
        }
    }

    /// Does something with the site's files, within the deadline. A call that has begun is carried
    /// through even if nobody waits for it any more.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&AttachedFilesState) -> Result<T, SiteError> + Send + 'static,
    ) -> Result<T, SiteError> {
        let turn = tokio::time::timeout(self.deadline, self.calls.clone().acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(SiteError::NotSent(
                "earlier calls hang in its file system".to_owned(),
            ));
        };
        let shared = self.shared.clone();
        let task = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&shared)
        });
        match tokio::time::timeout(self.deadline, task).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => Err(SiteError::OutcomeUnknown(format!(
                "the call broke off: {error}"
            ))),
            Err(_) => Err(SiteError::OutcomeUnknown(format!(
                "no answer from its file system within {:?}",
                self.deadline
            ))),
        }
    }
}

impl FileAreaAccess for AttachedFiles {
    fn known_area(&self) -> &FileArea {
        &self.shared.area
    }

    async fn call_area<T: Send + 'static>(
        &self,
        work: impl FnOnce(&FileArea) -> Result<T, SiteError> + Send + 'static,
    ) -> Result<T, SiteError> {
        self.run_blocking(move |shared| work(shared.reachable_area()?))
            .await
    }
}

#[async_trait]
impl SiteFileCalls for AttachedFiles {
    async fn stamp(&self, place: &FilePlace) -> Result<Option<FileStamp>, SiteError> {
        let place = place.clone();
        self.call_area(move |area| area.file_stamp(&place)).await
    }

    async fn start_copy(&self, order: &CopyRequest) -> Result<(), SiteError> {
        let order = order.clone();
        self.run_blocking(move |shared| shared.start_copy(&order))
            .await
    }

    async fn list(&self, place: &FilePlace) -> Result<Option<DirectoryListing>, SiteError> {
        let place = place.clone();
        self.call_area(move |area| area.list_directory(&place))
            .await
    }

    async fn read(
        &self,
        what: &ReadableFile,
        offset: Bytes,
        limit: u32,
    ) -> Result<FileExcerpt, SiteError> {
        let what = what.clone();
        self.run_blocking(move |shared| shared.read(&what, offset, limit))
            .await
    }

    async fn upload(&self, step: &UploadStep) -> Result<(), SiteError> {
        let step = step.clone();
        self.call_area(move |area| area.take_upload_step(&step))
            .await
    }

    async fn copy_status(&self, order: &CopyRequest) -> Result<CopyStatus, SiteError> {
        let order = order.clone();
        self.call_area(move |area| area.copy_status(&order)).await
    }

    async fn stop_copy(&self, order: &CopyRequest, discard: bool) -> Result<(), SiteError> {
        let order = order.clone();
        self.call_area(move |area| area.stop_copy(&order, discard))
            .await
    }

    async fn has_content(&self, digest: Digest) -> Result<bool, SiteError> {
        self.call_area(move |area| area.has_content(digest)).await
    }

    async fn delete_content(&self, digest: Digest) -> Result<(), SiteError> {
        self.call_area(move |area| area.delete_content(digest))
            .await
    }

    async fn inspect(&self, place: &FilePlace) -> Result<InspectedFile, SiteError> {
        awaited_inspection::inspect_file(self, place).await
    }

    fn read_so_far(&self, place: &FilePlace) -> Option<InspectionProgress> {
        self.shared.area.read_so_far(place)
    }
}

#[async_trait]
impl SiteFiles for AttachedFiles {
    async fn prepare(&self) -> Result<(), SiteError> {
        self.call_area(FileArea::prepare_root).await
    }

    async fn check_root(&self) -> Result<(), SiteError> {
        self.call_area(|_| Ok(())).await
    }

    async fn read_runs(
        &self,
        place: &FilePlace,
        runs: &[FileByteRun],
    ) -> Result<Vec<u8>, SiteError> {
        let place = place.clone();
        let runs = runs.to_vec();
        self.call_area(move |area| area.read_runs(&place, &runs))
            .await
    }
}
