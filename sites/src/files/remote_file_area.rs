//! The files of a site that only an agent can reach: they pass through this process in pieces.
//!
//! All that is digested or copied passes through here, so that its BLAKE3 is known without
//! anything of ours at the site. What arrived there is compared by its SHA-256, if the site has a
//! tool for that. Directories travel as their listing and the bytes of their files, one behind the
//! other. A copy is a task of this process: after a restart it counts as one that failed half-way,
//! and the next one resumes it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use cospan_domain::catalogue::file_state::FileStamp;
use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, SiteName};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;
use tokio::task::JoinHandle;

use super::RootedFiles;
use super::file_root::{FILES, STORE, WORK};
use super::push_copy::{PushDestination, RunningPush};
use super::tree_pieces::{self, DirectoryListing, FileByteRun};
use crate::agent::{self, SiteAgentClient, SiteAgentRequest};
use crate::exec::CommandChannel;
use crate::local_site::attempt_root::ATTEMPTS;
use crate::port::{
    CopyBlame, CopyRequest, CopyStatus, FileExcerpt, InspectedFile, PayloadStream, ReadableFile,
    SiteCopies, SiteError, SiteFiles, UploadStep,
};

/// The most that is requested at a time, in bytes: everything else waits as long as that takes.
pub(super) const PIECE: u32 = 1 << 20;

/// Sources of copies, by their sites.
pub type SourcesBySite = BTreeMap<SiteName, Arc<dyn RootedFiles>>;

/// The file area of one site.
#[derive(Debug)]
pub(crate) struct RemoteFileArea {
    place: Arc<SharedAgentClient>,
    /// The sites that copies may come from.
    sources: SourcesBySite,
    copies: Mutex<BTreeMap<String, InProcessCopy>>,
}

/// The agent of the site, shared by all that work on its files.
#[derive(Debug)]
pub(super) struct SharedAgentClient {
    pub(super) agent: SiteAgentClient,
}

/// A copy that this process makes.
#[derive(Debug)]
struct InProcessCopy {
    done: Arc<AtomicU64>,
    task: JoinHandle<()>,
    failed: Arc<Mutex<Option<(CopyBlame, String)>>>,
}

impl RemoteFileArea {
    pub(crate) fn new(agent: SiteAgentClient, sources: SourcesBySite) -> Self {
        Self {
            place: Arc::new(SharedAgentClient { agent }),
            sources,
            copies: Mutex::default(),
        }
    }

    fn lock_copies(&self) -> MutexGuard<'_, BTreeMap<String, InProcessCopy>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of a copy of this process.
    fn own_copy_status(&self, name: &str) -> Option<CopyStatus> {
        let mut copies = self.lock_copies();
        let copying = copies.get(name)?;
        if !copying.task.is_finished() {
            return Some(CopyStatus::Running {
                done: Bytes(copying.done.load(Ordering::Relaxed)),
            });
        }
        let failed = copying
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match failed {
            Some((blame, detail)) => Some(CopyStatus::Failed { blame, detail }),
            None => {
                copies.remove(name);
                None
            }
        }
    }
}

/// Returns the path of a place, below the root.
pub(super) fn place_path(place: &FilePlace) -> String {
    match place {
        FilePlace::Store(digest) => format!("{STORE}/{digest}"),
        FilePlace::User(path) => format!("{FILES}/{path}"),
        FilePlace::Output(tag, path) => format!("{ATTEMPTS}/{tag}/{WORK}/{path}"),
    }
}

impl SharedAgentClient {
    /// Reads a piece of the file at this path below the root.
    async fn read_piece(
        &self,
        path: &str,
        offset: u64,
        limit: u32,
    ) -> Result<FileExcerpt, SiteError> {
        let offset = offset.to_string();
        let limit = limit.min(PIECE).to_string();
        let words = ["get", path, &offset, &limit];
        let command =
            self.agent
                .build_command(&words, SiteAgentRequest::default(), CommandChannel::Bulk);
        let output = self.agent.exec.run(command).await?;
        let end = output
            .stdout
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(0);
        let (first, rest) = output.stdout.split_at(end);
        let size = std::str::from_utf8(first)
            .ok()
            .and_then(|line| line.strip_prefix("size "));
        match size.and_then(|size| size.parse().ok()) {
            Some(size) => Ok(FileExcerpt {
                bytes: rest[1..].to_vec(),
                size: Bytes(size),
            }),
            None => match agent::read_answer(&output) {
                Err(failure) => Err(failure.into()),
                Ok(_) => Err(SiteError::OutcomeUnknown(
                    "the answer is no piece".to_owned(),
                )),
            },
        }
    }

    pub(super) async fn ask_agent(
        &self,
        words: &[&str],
    ) -> Result<agent::SiteAgentAnswer, SiteError> {
        Ok(self
            .agent
            .send_request(words, SiteAgentRequest::default())
            .await?)
    }

    pub(super) async fn copied_bytes(
        &self,
        name: &str,
        digest: Digest,
    ) -> Result<(bool, Option<u64>), SiteError> {
        let answer = self
            .ask_agent(&["copied", name, &digest.to_string()])
            .await?;
        let whole = answer.0.lines().any(|line| line == "whole");
        Ok((
            whole,
            answer.last_value("size").and_then(|size| size.parse().ok()),
        ))
    }
}

#[async_trait]
impl PushDestination for SharedAgentClient {
    async fn arrived_bytes(&self, name: &str) -> Result<u64, SiteError> {
        Ok(self
            .copied_bytes(name, Digest([0; 32]))
            .await?
            .1
            .unwrap_or(0))
    }

    async fn append_bytes(&self, name: &str, offset: u64, bytes: Vec<u8>) -> Result<(), SiteError> {
        let offset = offset.to_string();
        let length = bytes.len().to_string();
        let words = ["put", name, &offset, &length];
        let command = self.agent.build_command(
            &words,
            SiteAgentRequest::from_bytes(bytes),
            CommandChannel::Bulk,
        );
        agent::read_answer(&self.agent.exec.run(command).await?)?;
        Ok(())
    }

    async fn duplicate_own(&self, name: &str, from: &FilePlace) -> Result<(), SiteError> {
        self.agent
            .send_long_request(&["duplicate", name, &place_path(from)])
            .await
            .map(drop)
    }

    async fn commit_copy(&self, name: &str, content: Content, sum: &str) -> Result<(), SiteError> {
        let digest = content.digest.to_string();
        let size = content.size.0.to_string();
        self.agent
            .send_long_request(&["commit", name, &digest, &size, sum])
            .await
            .map(drop)
    }

    async fn discard_copy(&self, name: &str) -> Result<(), SiteError> {
        self.ask_agent(&["drop", name]).await.map(drop)
    }
}

#[async_trait]
impl SiteFiles for RemoteFileArea {
    async fn list(&self, place: &FilePlace) -> Result<Option<DirectoryListing>, SiteError> {
        self.place.list_tree(&place_path(place)).await
    }

    async fn read(
        &self,
        what: &ReadableFile,
        offset: Bytes,
        limit: u32,
    ) -> Result<FileExcerpt, SiteError> {
        let path = match what {
            ReadableFile::File(place) => place_path(place),
            ReadableFile::Log(tag, PayloadStream::Stdout) => format!("{ATTEMPTS}/{tag}/stdout"),
            ReadableFile::Log(tag, PayloadStream::Stderr) => format!("{ATTEMPTS}/{tag}/stderr"),
        };
        self.place.read_piece(&path, offset.0, limit).await
    }

    async fn upload(&self, step: &UploadStep) -> Result<(), SiteError> {
        self.place.send_upload_step(step).await
    }

    async fn inspect(&self, place: &FilePlace) -> Result<InspectedFile, SiteError> {
        if let Some(listing) = self.list(place).await? {
            return tree_pieces::inspect_directory(self, place, &listing).await;
        }
        let path = place_path(place);
        let mut hasher = blake3::Hasher::new();
        let mut offset = 0_u64;
        let mut first = None;
        loop {
            let piece = self.place.read_piece(&path, offset, PIECE).await?;
            let size = *first.get_or_insert(piece.size);
            if piece.size != size {
                return Err(SiteError::Refused(format!(
                    "{path} changed while it was read"
                )));
            }
            hasher.update(&piece.bytes);
            offset += piece.bytes.len() as u64;
            if offset >= size.0 || piece.bytes.is_empty() {
                let digest = Digest(*hasher.finalize().as_bytes());
                let content = Content {
                    digest,
                    size: Bytes(offset),
                };
                return Ok(InspectedFile {
                    content,
                    directory: false,
                });
            }
        }
    }

    /// Without another command only the size of a remote file is known.
    async fn stamp(&self, place: &FilePlace) -> Result<Option<FileStamp>, SiteError> {
        let piece = self.place.read_piece(&place_path(place), 0, 1).await?;
        Ok(Some(format!("size {}", piece.size.0).into()))
    }

    async fn has_content(&self, digest: Digest) -> Result<bool, SiteError> {
        let answer = self.place.ask_agent(&["has", &digest.to_string()]).await?;
        Ok(answer.0.lines().any(|line| line == "whole"))
    }

    async fn delete_content(&self, digest: Digest) -> Result<(), SiteError> {
        self.place
            .ask_agent(&["delete", &digest.to_string()])
            .await
            .map(drop)
    }
}

#[async_trait]
impl SiteCopies for RemoteFileArea {
    async fn start_copy(&self, order: &CopyRequest) -> Result<(), SiteError> {
        let name = super::copy_tasks::copy_task_name(order)?;
        let own = order.source.site == self.place.agent.site;
        let source: Arc<dyn RootedFiles> = match self.sources.get(&order.source.site) {
            _ if own => Arc::new(Self::new(self.place.agent.clone(), SourcesBySite::new())),
            Some(source) => source.clone(),
            None => {
                let site = &order.source.site;
                let why = format!("copies from {site} are not possible: it is no neighbour");
                return Err(SiteError::Refused(why));
            }
        };
        self.check_root().await?;
        let mut copies = self.lock_copies();
        if copies
            .get(&name)
            .is_some_and(|copying| !copying.task.is_finished())
        {
            return Ok(());
        }
        let done = Arc::new(AtomicU64::new(0));
        let failed = Arc::new(Mutex::new(None));
        let push = RunningPush {
            name: name.clone(),
            order: order.clone(),
            source,
            is_own: own,
            to: self.place.clone(),
            done: done.clone(),
        };
        let ended = failed.clone();
        let task = tokio::spawn(async move {
            let outcome = push.run_copy().await.err();
            *ended.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
        });
        copies.insert(name, InProcessCopy { done, task, failed });
        Ok(())
    }

    async fn copy_status(&self, order: &CopyRequest) -> Result<CopyStatus, SiteError> {
        let name = super::copy_tasks::copy_task_name(order)?;
        if let Some(status) = self.own_copy_status(&name) {
            return Ok(status);
        }
        Ok(
            match self.place.copied_bytes(&name, order.content.digest).await? {
                (true, _) => CopyStatus::Complete,
                (false, None) => CopyStatus::Absent,
                (false, Some(_)) => CopyStatus::Failed {
                    blame: CopyBlame::Process,
                    detail: "the process that copied it is gone".to_owned(),
                },
            },
        )
    }

    async fn stop_copy(&self, order: &CopyRequest, discard: bool) -> Result<(), SiteError> {
        let name = super::copy_tasks::copy_task_name(order)?;
        let copying = self.lock_copies().remove(&name);
        if let Some(copying) = copying {
            copying.task.abort();
            // An abort is an end, too.
            let _ = copying.task.await;
        }
        if discard {
            self.place.discard_copy(&name).await
        } else {
            Ok(())
        }
    }
}

#[async_trait]
impl RootedFiles for RemoteFileArea {
    async fn prepare(&self) -> Result<(), SiteError> {
        self.place.ask_agent(&["prepare"]).await.map(drop)
    }

    async fn check_root(&self) -> Result<(), SiteError> {
        self.place.ask_agent(&["has", "-"]).await.map(drop)
    }

    async fn read_runs(
        &self,
        place: &FilePlace,
        runs: &[FileByteRun],
    ) -> Result<Vec<u8>, SiteError> {
        self.place.fetch_runs(&place_path(place), runs).await
    }
}
