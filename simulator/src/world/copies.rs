//! Files at simulated sites, and copies between them over shared links.

use cospan_domain::content::Content;
use cospan_domain::ids::{AttemptTag, Digest, RelPath, SiteName};
use cospan_domain::units::Bytes;
use cospan_sites::port::{
    CopyBlame, CopyRequest, CopyStatus, FileExcerpt, FilePlace, InspectedFile, ReadableFile,
    SiteError,
};

use super::SimulatedWorld;
use super::agenda::SiteIndex;
use super::attempt::AttemptStage;
use super::network::FlowId;
use super::site_faults::count_effect;
use crate::fault_kinds::FaultKind;

/// Size of every file that a payload writes.
pub const OUTPUT_BYTES: Bytes = Bytes(1_000_000);

/// A copy that is under way, or that broke off.
#[derive(Debug, Clone)]
pub(super) struct SimulatedCopy {
    flow: Option<FlowId>,
    from: SiteName,
    content: Content,
    failed: Option<(CopyBlame, String)>,
}

/// Returns the content that the payload of an attempt writes to a path: different for each attempt.
pub fn output_content(tag: AttemptTag, path: &RelPath) -> Content {
    let text = format!("{tag}-{path}");
    let digest = blake3::hash(text.as_bytes());
    Content {
        digest: Digest(*digest.as_bytes()),
        size: OUTPUT_BYTES,
    }
}

impl SimulatedWorld {
    fn content_at(&self, site: SiteIndex, place: &FilePlace) -> Option<Content> {
        let cluster = &self.sites[site.0];
        match place {
            FilePlace::Store(digest) => {
                let size = *cluster.store.get(digest)?;
                Some(Content {
                    digest: *digest,
                    size,
                })
            }
            FilePlace::User(path) => cluster.files.get(path).copied(),
            FilePlace::Output(tag, path) => {
                let attempt = cluster.attempts.get(tag)?;
                matches!(attempt.stage, AttemptStage::Exited(_)).then(|| output_content(*tag, path))
            }
        }
    }

    /// Returns digest and size of a file.
    ///
    /// # Errors
    /// Fails if there is no such file.
    pub fn inspect(&self, site: SiteIndex, place: &FilePlace) -> Result<InspectedFile, SiteError> {
        let content = self.content_at(site, place);
        Ok(InspectedFile {
            content: content.ok_or_else(|| SiteError::Refused(format!("there is no {place:?}")))?,
            directory: false,
        })
    }

    /// Starts a copy to a site, or finds it under way.
    ///
    /// # Errors
    /// Fails if there is no link to the source, or no room.
    pub fn start_copy(&mut self, site: SiteIndex, order: &CopyRequest) -> Result<(), SiteError> {
        let running = self.sites[site.0].copies.get(&order.nonce);
        if running.is_some_and(|copy| copy.failed.is_none()) {
            return Ok(());
        }
        if self.sites[site.0].ailments.disk_full {
            count_effect(&mut self.struck, FaultKind::DiskFull, "copying");
            return Err(SiteError::Refused("No space left on device".into()));
        }
        let content = order.content;
        let from = self.index_of(&order.source.site);
        let source = from.and_then(|from| self.content_at(from, &order.source.place));
        let failed = match source {
            Some(found) if found == order.chunk.map_or(content, |chunk| chunk.of) => None,
            Some(_) => Some((
                CopyBlame::Source,
                "the source has another digest".to_owned(),
            )),
            None => Some((CopyBlame::Source, "the source has no such file".to_owned())),
        };
        let mut copy = SimulatedCopy {
            flow: None,
            from: order.source.site.clone(),
            content,
            failed,
        };
        if copy.failed.is_none() {
            let here = self.sites[site.0].name.clone();
            copy.flow = self.start_flow(&order.source.site, &here, order)?;
            if copy.flow.is_none() {
                self.sites[site.0]
                    .store
                    .insert(content.digest, content.size);
                return Ok(());
            }
        }
        self.sites[site.0].copies.insert(order.nonce.clone(), copy);
        Ok(())
    }

    /// Starts a flow; `None` within a site, as that takes no time.
    fn start_flow(
        &mut self,
        from: &SiteName,
        to: &SiteName,
        order: &CopyRequest,
    ) -> Result<Option<FlowId>, SiteError> {
        if from == to {
            return Ok(None);
        }
        let id = FlowId(self.next_flow);
        self.next_flow += 1;
        let size = order.content.size;
        let started = self
            .network
            .start_flow(id, from, to, size, order.limit, self.now);
        started.map_err(|problem| SiteError::Refused(problem.to_string()))?;
        Ok(Some(id))
    }

    /// Returns the state of a copy.
    pub fn copy_status(&mut self, site: SiteIndex, order: &CopyRequest) -> CopyStatus {
        let cluster = &self.sites[site.0];
        if cluster.store.contains_key(&order.content.digest) {
            return CopyStatus::Complete;
        }
        match cluster.copies.get(&order.nonce) {
            None => CopyStatus::Absent,
            Some(SimulatedCopy {
                failed: Some((blame, detail)),
                ..
            }) => CopyStatus::Failed {
                blame: *blame,
                detail: detail.clone(),
            },
            Some(SimulatedCopy { flow, .. }) => {
                let done = flow.and_then(|flow| self.network.bytes_arrived(flow, self.now));
                CopyStatus::Running {
                    done: done.unwrap_or(Bytes(0)),
                }
            }
        }
    }

    /// Stops a copy. Data that arrived stay unless they are discarded.
    pub fn stop_copy(&mut self, site: SiteIndex, order: &CopyRequest, discard: bool) {
        let Some(copy) = self.sites[site.0].copies.get_mut(&order.nonce) else {
            return;
        };
        let flow = copy.flow.take();
        copy.failed
            .get_or_insert((CopyBlame::Process, "stopped".to_owned()));
        if let Some(flow) = flow {
            self.network.stop_flow(flow, self.now);
        }
        if discard {
            self.sites[site.0].copies.remove(&order.nonce);
        }
    }

    /// Puts the copies that have arrived by now into the stores.
    pub(super) fn finish_copies(&mut self) {
        for flow in self.network.take_completed(self.now) {
            for at in 0..self.sites.len() {
                let cluster = &mut self.sites[at];
                let arrived = cluster
                    .copies
                    .iter()
                    .find(|(_, copy)| copy.flow == Some(flow));
                let Some((nonce, copy)) = arrived else {
                    continue;
                };
                let nonce = nonce.clone();
                let content = copy.content;
                if cluster.ailments.corrupt_from.contains(&copy.from) {
                    let mut copy = copy.clone();
                    copy.flow = None;
                    let text = "what arrived has another digest".to_owned();
                    copy.failed = Some((CopyBlame::Source, text));
                    cluster.copies.insert(nonce, copy);
                    count_effect(&mut self.struck, FaultKind::Corrupts, "copying");
                } else {
                    cluster.copies.remove(&nonce);
                    cluster.store.insert(content.digest, content.size);
                }
                self.mark_touched(SiteIndex(at));
            }
        }
    }

    /// Counts the copies on their way to a site, all or those from one other site.
    pub(super) fn count_copies_to(&self, to: SiteIndex, from: Option<&SiteName>) -> usize {
        let copies = self.sites[to.0]
            .copies
            .values()
            .filter(|copy| copy.flow.is_some());
        copies
            .filter(|copy| from.is_none_or(|from| copy.from == *from))
            .count()
    }

    /// Returns true if the store of a site has a content, whole.
    pub fn has_content(&self, site: SiteIndex, digest: Digest) -> bool {
        self.sites[site.0].store.contains_key(&digest)
    }

    /// Deletes a content.
    pub fn delete_content(&mut self, site: SiteIndex, digest: Digest) {
        self.sites[site.0].store.remove(&digest);
    }

    /// Reads a piece of a file. Simulated files have a size and no bytes.
    ///
    /// # Errors
    /// Fails if there is no such file.
    pub fn read(&self, site: SiteIndex, what: &ReadableFile) -> Result<FileExcerpt, SiteError> {
        match what {
            ReadableFile::Log(..) => Ok(FileExcerpt {
                bytes: Vec::new(),
                size: Bytes(0),
            }),
            ReadableFile::File(place) => {
                let size = self.inspect(site, place)?.content.size;
                Ok(FileExcerpt {
                    bytes: Vec::new(),
                    size,
                })
            }
        }
    }
}
