//! A server over a store whose jobs do not fit into memory: it shows single jobs and exports the
//! store, and does nothing else, so that nobody has to repair anything by hand to reach them.

use std::sync::Arc;

use async_trait::async_trait;
use cospan_actors::api::{
    ApiAnswer, ApiCommand, ApiRefusal, CommittedView, FreeProcessorsAnswer, JobSubmission,
    PossibleStartOverview, StartComputation,
};
use cospan_domain::ids::{JobId, KeyName, LogicalName, SiteName};
use cospan_domain::job::job_state::Job;
use cospan_domain::reservation::{EqualParts, StartWindow};
use cospan_domain::units::{Bytes, DurationMs};
use cospan_sites::files::tree_pieces::DirectoryListing;
use cospan_sites::port::UploadStep;
use cospan_storage::OpenedStore;

use super::records;
use crate::chaos::Rehearsals;
use crate::http::control_plane_port::{
    ControlPlanePort, DirectoryListRequest, ExplanationFacts, ExplanationPage, FileReadRequest,
    JobChangeStream, JobHistory, PieceStream, ReadPiece,
};
use cospan_api::v1::explain::ExplainReport;
use cospan_api::v1::file::{FilePage, FileReport};
use cospan_api::v1::site::{LinkReport, NeedsReport, SiteList};
use cospan_api::v1::store::StoreReport;

/// Memory that the jobs of a store would take, and the bound.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobMemoryExcess {
    pub(super) jobs: u64,
    pub(super) needed: Bytes,
    pub(super) most: Bytes,
}

/// A store that is only read.
pub(super) struct ReadOnlyStore {
    opened: OpenedStore,
    engine: &'static str,
    jobs: u64,
    why: String,
    rehearsals: Rehearsals,
}

impl ReadOnlyStore {
    pub(super) fn new(opened: OpenedStore, engine: &'static str, found: JobMemoryExcess) -> Self {
        let JobMemoryExcess { jobs, needed, most } = found;
        let why = format!(
            "the {jobs} jobs in the store would take about {needed} of memory, and all jobs \
             together may take {most} of what this server has (`server.memory`); the server is \
             read-only: only `cospan show` of single jobs and `cospan store export` work; what \
             runs at sites goes on"
        );
        Self {
            opened,
            engine,
            jobs,
            why,
            rehearsals: Rehearsals::disallowed(),
        }
    }

    fn refuse<T>(&self) -> Result<T, ApiRefusal> {
        Err(ApiRefusal::ReadOnly(self.why.clone()))
    }
}

#[async_trait]
impl ControlPlanePort for ReadOnlyStore {
    async fn run_command(&self, _: ApiCommand) -> Result<ApiAnswer, ApiRefusal> {
        self.refuse()
    }

    fn preview(
        &self,
        _: &KeyName,
        _: JobSubmission,
        _: usize,
    ) -> Result<ExplainReport, ApiRefusal> {
        self.refuse()
    }

    fn check_submission(&self, _: &KeyName, _: JobSubmission) -> Result<(), ApiRefusal> {
        self.refuse()
    }

    fn view(&self) -> Arc<CommittedView> {
        Arc::default()
    }

    fn list_files(
        &self,
        _: Option<&LogicalName>,
        _: Option<&SiteName>,
        _: &dyn Fn(&KeyName) -> bool,
        _: usize,
    ) -> FilePage {
        FilePage {
            files: Vec::new(),
            next: None,
        }
    }

    fn file_owner(&self, _: &LogicalName) -> Option<KeyName> {
        None
    }

    fn find_file(&self, _: &LogicalName) -> Option<FileReport> {
        None
    }

    fn list_sites(&self) -> SiteList {
        SiteList {
            sites: Vec::new(),
            isolated: false,
        }
    }

    fn links_to(&self, _: &SiteName) -> Vec<LinkReport> {
        Vec::new()
    }

    fn list_needed_attempts(&self) -> NeedsReport {
        NeedsReport::default()
    }

    async fn possible_starts(
        &self,
        _: Option<&SiteName>,
        _: &EqualParts,
        _: StartWindow,
    ) -> StartComputation {
        Box::new(PossibleStartOverview::default)
    }

    async fn free_slots(&self, _: &SiteName, _: DurationMs) -> FreeProcessorsAnswer {
        FreeProcessorsAnswer::GrantsNone
    }

    fn store_report(&self) -> StoreReport {
        StoreReport {
            engine: self.engine.into(),
            instance: self.opened.instance.to_string(),
            epoch: self.opened.epoch.0,
            seq: 0,
            size_bytes: self.opened.journal.size().disk_bytes,
            jobs: self.jobs,
        }
    }

    async fn find_job(&self, id: JobId) -> Result<Option<Arc<Job>>, ApiRefusal> {
        let store = self.opened.journal.clone();
        records::read_on_thread(move || match records::find_live(&*store, id)? {
            Some(job) => Ok(Some(job)),
            None => records::find_archived(&*store, id),
        })
        .await
    }

    async fn history(&self, id: JobId) -> Result<Option<JobHistory>, ApiRefusal> {
        let store = self.opened.journal.clone();
        records::read_on_thread(move || {
            let is_live = records::find_live(&*store, id)?.is_some();
            records::read_history(&*store, id, is_live)
        })
        .await
    }

    async fn collect_job_facts(
        &self,
        _: JobId,
        _: ExplanationPage,
    ) -> Result<Option<ExplanationFacts>, ApiRefusal> {
        self.refuse()
    }

    fn explain(
        &self,
        _: ExplanationFacts,
        _: ExplanationPage,
    ) -> Result<ExplainReport, ApiRefusal> {
        self.refuse()
    }

    async fn read_file_piece(&self, _: &FileReadRequest) -> Result<ReadPiece, ApiRefusal> {
        self.refuse()
    }

    async fn list_directory(
        &self,
        _: &DirectoryListRequest,
    ) -> Result<Option<DirectoryListing>, ApiRefusal> {
        self.refuse()
    }

    async fn take_upload_step(
        &self,
        _: &KeyName,
        _: &SiteName,
        _: UploadStep,
    ) -> Result<(), ApiRefusal> {
        self.refuse()
    }

    async fn export_store(&self) -> Result<PieceStream, ApiRefusal> {
        let OpenedStore {
            journal,
            instance,
            epoch,
            ..
        } = self.opened.clone();
        Ok(records::export_pieces(journal, instance, epoch))
    }

    fn subscribe(&self) -> JobChangeStream {
        Box::pin(futures_util::stream::empty())
    }

    fn rehearsals(&self) -> &Rehearsals {
        &self.rehearsals
    }

    fn readiness(&self) -> Result<(), String> {
        Err(self.why.clone())
    }

    fn read_only_reason(&self) -> Option<&str> {
        Some(&self.why)
    }
}
