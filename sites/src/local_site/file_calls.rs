//! File calls: passed on to the site's file area, once the root is known to be the site's.

use cospan_domain::ids::RelPath;
use cospan_domain::units::Bytes;

use super::attempt_root::ATTEMPTS;
use super::{LocalSite, LocalSiteState};
use crate::files::awaited_inspection::FileAreaAccess;
use crate::files::{CopySourceArea, FileArea};
use crate::port::{CopyRequest, FileExcerpt, PayloadStream, ReadableFile, SiteError};

impl LocalSiteState {
    /// Returns the file area, if the site is there.
    pub(super) fn reachable_area(&self) -> Result<&FileArea, SiteError> {
        self.open_root()?;
        Ok(&self.area)
    }

    pub(super) fn start_copy(&self, order: &CopyRequest) -> Result<(), SiteError> {
        let site = &order.source.site;
        let root = if *site == self.config.name {
            Some(&self.config.root)
        } else {
            self.config.neighbours.get(site)
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

    pub(super) fn read_piece(
        &self,
        what: &ReadableFile,
        offset: Bytes,
        limit: u32,
    ) -> Result<FileExcerpt, SiteError> {
        match what {
            ReadableFile::File(place) => self.reachable_area()?.read_piece(place, offset, limit),
            ReadableFile::Log(tag, stream) => {
                let file = match stream {
                    PayloadStream::Stdout => "stdout",
                    PayloadStream::Stderr => "stderr",
                };
                let path = RelPath::new(&format!("{ATTEMPTS}/{tag}/{file}"))
                    .map_err(|error| SiteError::Refused(error.to_string()))?;
                self.reachable_area()?.read_own_piece(&path, offset, limit)
            }
        }
    }
}

impl FileAreaAccess for LocalSite {
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
