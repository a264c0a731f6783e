//! The files of a site whose file system this machine has as well, whatever runs its jobs.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use cospan_domain::catalogue::file_state::FileStamp;
use cospan_domain::ids::{Digest, RelPath, SiteName};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;

use super::awaited_inspection;
use super::tree_pieces::{DirectoryListing, FileByteRun};
use super::{CopySourceArea, FileArea, RootedFiles};
use crate::blocking_calls::BlockingCalls;
use crate::local_site::attempt_root::ATTEMPTS;
use crate::port::{
    CopyRequest, CopyStatus, FileExcerpt, InspectedFile, InspectionProgress, PayloadStream,
    ReadableFile, SiteCopies, SiteError, SiteFiles, UploadStep,
};

/// Says whether a root may be touched.
pub(crate) trait RootGuard: Debug + Send + Sync {
    /// Succeeds if the root is there, and the site's.
    fn check(&self) -> Result<(), SiteError>;
}

/// The file area of one site, for calls that must not hold up the control thread. A clone is
/// another handle of it.
#[derive(Debug, Clone)]
pub(crate) struct AttachedFiles {
    root: Arc<AttachedRoot>,
    calls: BlockingCalls,
}

/// The root of a site that this machine has, and those from which it can copy.
#[derive(Debug)]
pub(crate) struct AttachedRoot {
    pub(crate) area: FileArea,
    pub(crate) guard: Arc<dyn RootGuard>,
    pub(crate) name: SiteName,
    pub(crate) path: PathBuf,
    pub(crate) neighbours: BTreeMap<SiteName, PathBuf>,
}

impl AttachedRoot {
    /// Returns the file area, if the site is there.
    fn reachable_area(&self) -> Result<&FileArea, SiteError> {
        self.guard.check()?;
        Ok(&self.area)
    }

    fn start_copy(&self, order: &CopyRequest) -> Result<(), SiteError> {
        let site = &order.source.site;
        let root = if *site == self.name {
            Some(&self.path)
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
    pub(crate) fn new(root: AttachedRoot, calls: BlockingCalls) -> Self {
        Self {
            root: Arc::new(root),
            calls,
        }
    }

    /// Returns the file area, whether or not the site is there.
    pub(crate) fn known_area(&self) -> &FileArea {
        &self.root.area
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&AttachedRoot) -> Result<T, SiteError> + Send + 'static,
    ) -> Result<T, SiteError> {
        let root = self.root.clone();
        self.calls.run(move || work(&root)).await
    }

    /// Does something with the site's files, off the control thread. A call that has begun is
    /// carried through.
    pub(super) async fn call_area<T: Send + 'static>(
        &self,
        work: impl FnOnce(&FileArea) -> Result<T, SiteError> + Send + 'static,
    ) -> Result<T, SiteError> {
        self.run_blocking(move |root| work(root.reachable_area()?))
            .await
    }
}

#[async_trait]
impl SiteFiles for AttachedFiles {
    async fn stamp(&self, place: &FilePlace) -> Result<Option<FileStamp>, SiteError> {
        let place = place.clone();
        self.call_area(move |area| area.file_stamp(&place)).await
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
        self.run_blocking(move |root| root.read(&what, offset, limit))
            .await
    }

    async fn upload(&self, step: &UploadStep) -> Result<(), SiteError> {
        let step = step.clone();
        self.call_area(move |area| area.take_upload_step(&step))
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
        self.root.area.read_so_far(place)
    }
}

#[async_trait]
impl SiteCopies for AttachedFiles {
    async fn start_copy(&self, order: &CopyRequest) -> Result<(), SiteError> {
        let order = order.clone();
        self.run_blocking(move |root| root.start_copy(&order)).await
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
}

#[async_trait]
impl RootedFiles for AttachedFiles {
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
