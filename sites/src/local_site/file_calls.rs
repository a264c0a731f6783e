//! File calls: passed on to the site's file area, once the root is known to be the site's.

use std::time::Duration;

use cospan_domain::ids::RelPath;
use cospan_domain::units::Bytes;

use super::attempt_root::ATTEMPTS;
use super::{LocalShared, LocalSite};
use crate::files::{FileArea, InspectStatus, SourceArea};
use crate::port::{CopyRequest, Excerpt, FilePlace, Inspected, PayloadStream, Readable, SiteError};

/// The first pause between two looks at an inspection: short ones are over at once.
const LOOK_MIN: Duration = Duration::from_millis(5);
const LOOK_MAX: Duration = Duration::from_millis(500);

impl LocalShared {
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
        let source = SourceArea {
            root: root.clone(),
            attempts: ATTEMPTS.to_owned(),
        };
        self.reachable_area()?.start_copy(order, &source)
    }

    pub(super) fn read_piece(
        &self,
        what: &Readable,
        offset: Bytes,
        limit: u32,
    ) -> Result<Excerpt, SiteError> {
        match what {
            Readable::File(place) => self.reachable_area()?.read_piece(place, offset, limit),
            Readable::Log(tag, stream) => {
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

impl LocalSite {
    /// Waits for the agent that reads the file, as long as that takes.
    pub(super) async fn inspect_file(&self, place: &FilePlace) -> Result<Inspected, SiteError> {
        let asked = place.clone();
        self.run_blocking(move |shared| shared.reachable_area()?.start_inspect(&asked))
            .await?;
        let mut pause = LOOK_MIN;
        loop {
            let asked = place.clone();
            let status = self
                .run_blocking(move |shared| shared.reachable_area()?.inspect_status(&asked))
                .await?;
            let result = match status {
                InspectStatus::Running { .. } => None,
                InspectStatus::Done(inspected) => Some(Ok(inspected)),
                InspectStatus::Failed(error) => Some(Err(error)),
                // Another caller that inspected the same file took its result.
                InspectStatus::Absent => Some(Err(SiteError::NotSent(
                    "the inspection is over; ask again".to_owned(),
                ))),
            };
            if let Some(result) = result {
                let asked = place.clone();
                self.run_blocking(move |shared| shared.reachable_area()?.forget_inspect(&asked))
                    .await?;
                return result;
            }
            tokio::time::sleep(pause).await;
            pause = LOOK_MAX.min(pause * 2);
        }
    }
}
