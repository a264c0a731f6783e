//! The control plane as the HTTP edge needs it.

use std::pin::Pin;
use std::sync::Arc;

use actix_web::web::Bytes;
use async_trait::async_trait;
use cospan_actors::api::{
    ApiAnswer, ApiCommand, ApiRefusal, CommittedView, FreeProcessorsAnswer, JobSubmission,
    StartComputation,
};
use cospan_domain::ids::{
    Attempt, ComponentIndex, JobId, KeyName, LogicalName, RelPath, Seq, SiteName,
};
use cospan_domain::job::job_event::JobEvent;
use cospan_domain::job::job_state::Job;
use cospan_domain::queue::QueueStanding;
use cospan_domain::reservation::{EqualParts, StartWindow};
use cospan_domain::units::DurationMs;
use cospan_sites::files::tree_pieces::DirectoryListing;
use cospan_sites::port::UploadStep;
use futures_util::Stream;

use crate::chaos::Rehearsals;
use cospan_api::v1::explain::ExplainReport;
use cospan_api::v1::file::{FilePage, FileReport};
use cospan_api::v1::ranking::RankingReport;
use cospan_api::v1::site::{LinkReport, NeedsReport, SiteList};
use cospan_api::v1::stderr_tail::LastWordsReport;
use cospan_api::v1::store::StoreReport;

/// The control plane as the edge sees it. Calls without `async` read memory and return at once,
/// except `preview`, `would_accept` and `explain`.
#[async_trait]
pub trait ControlPlanePort: Send + Sync + 'static {
    /// Carries out a command, durably, or gives the reason why not.
    async fn run_command(&self, command: ApiCommand) -> Result<ApiAnswer, ApiRefusal>;

    /// Previews a submission with this key: refuses it with every reason that would refuse it, else
    /// reports where it would go, with at most about `rows` verdicts. The computing time grows with
    /// the job.
    fn preview(
        &self,
        by: &KeyName,
        submission: JobSubmission,
        rows: usize,
    ) -> Result<ExplainReport, ApiRefusal>;

    /// Refuses a submission with this key for every reason for which it would be refused.
    fn check_submission(&self, by: &KeyName, submission: JobSubmission) -> Result<(), ApiRefusal>;

    /// Ranks the sites that may grant the submission's reservations, if it has preferences.
    async fn rankings(&self, _by: &KeyName, _submission: JobSubmission) -> Vec<RankingReport> {
        Vec::new()
    }

    /// Asks the sites for fresh reports, unless they have just been asked: a user is looking at
    /// them.
    fn refresh_site_reports(&self) {}

    /// Waits a moment until no report of a site that answers has expired.
    async fn await_current_reports(&self) {}

    /// The warning for the user of a job that was just accepted: the reason why it cannot start as
    /// things are.
    fn submission_warning(&self, _id: JobId) -> Option<String> {
        None
    }

    /// The committed state.
    fn view(&self) -> Arc<CommittedView>;

    /// Lists logical files by name: after a name and at a site, if given, and only those that were
    /// registered by a key for which `shows` holds.
    fn list_files(
        &self,
        after: Option<&LogicalName>,
        site: Option<&SiteName>,
        shows: &dyn Fn(&KeyName) -> bool,
        limit: usize,
    ) -> FilePage;

    fn file_owner(&self, name: &LogicalName) -> Option<KeyName>;

    fn find_file(&self, name: &LogicalName) -> Option<FileReport>;

    fn list_sites(&self) -> SiteList;

    /// Lists the links that bring files to a site, by their origin.
    fn links_to(&self, site: &SiteName) -> Vec<LinkReport>;

    /// Lists the jobs whose attempts at sites are still needed.
    fn list_needed_attempts(&self) -> NeedsReport;

    /// Computes the times at which parts could start within a window, at one site or at all. Sites
    /// are asked.
    async fn possible_starts(
        &self,
        site: Option<&SiteName>,
        parts: &EqualParts,
        window: StartWindow,
    ) -> StartComputation;

    /// Asks a site for its free slots from now on, for this long.
    async fn free_slots(&self, site: &SiteName, within: DurationMs) -> FreeProcessorsAnswer;

    fn store_report(&self) -> StoreReport;

    /// Finds a job, archived or not.
    async fn find_job(&self, id: JobId) -> Result<Option<Arc<Job>>, ApiRefusal>;

    /// The history of a job, oldest event first; `None` if there is no such job.
    async fn history(&self, id: JobId) -> Result<Option<JobHistory>, ApiRefusal>;

    /// Collects the facts that explaining a page of a job needs from others; `None` if there is no
    /// such job. Facts that only a first page shows are not collected for later pages.
    async fn collect_job_facts(
        &self,
        id: JobId,
        page: ExplanationPage,
    ) -> Result<Option<ExplanationFacts>, ApiRefusal>;

    /// Explains why a job waits or was placed where it is. The computing time grows with the job.
    fn explain(
        &self,
        facts: ExplanationFacts,
        page: ExplanationPage,
    ) -> Result<ExplainReport, ApiRefusal>;

    /// Reads a piece of the output or of a file of a component.
    async fn read_file_piece(&self, what: &FileReadRequest) -> Result<ReadPiece, ApiRefusal>;

    /// Lists what lies below a directory that an attempt left at this path; `None` if it is no
    /// directory.
    async fn list_directory(
        &self,
        what: &DirectoryListRequest,
    ) -> Result<Option<DirectoryListing>, ApiRefusal>;

    /// Takes one step of bringing a file of a key to a site.
    async fn take_upload_step(
        &self,
        by: &KeyName,
        site: &SiteName,
        step: UploadStep,
    ) -> Result<(), ApiRefusal>;

    /// Exports the whole store, piece by piece, in the format of `store import`.
    async fn export_store(&self) -> Result<PieceStream, ApiRefusal>;

    /// Subscribes to committed changes from now on. A change must be in [`ControlPlanePort::view`]
    /// before it is sent here.
    fn subscribe(&self) -> JobChangeStream;

    /// Faults that are injected on purpose.
    fn rehearsals(&self) -> &Rehearsals;

    /// Returns `Ok` if work can be accepted, else the reason why not.
    fn readiness(&self) -> Result<(), String>;

    /// The reason why the server only reads its store, if it does.
    fn read_only_reason(&self) -> Option<&str> {
        None
    }
}

/// A job to explain, with the facts that were collected for it.
#[derive(Debug, Clone)]
pub struct ExplanationFacts {
    pub job: Arc<Job>,
    /// The job's position in its queue.
    pub standing: Option<QueueStanding>,
    /// The last lines that its failed components printed.
    pub last_words: Vec<LastWordsReport>,
}

/// The components that an explanation covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExplanationPage {
    /// Components to skip.
    pub after: usize,
    /// Most components.
    pub limit: usize,
    /// Bound on the verdicts of all its components together, roughly.
    pub rows: usize,
}

impl ExplanationPage {
    /// Verdicts on a page: about a megabyte.
    pub const ROWS: usize = 5_000;
    /// The first page, with as many components as it has room for.
    pub const FIRST: Self = Self {
        after: 0,
        limit: usize::MAX,
        rows: Self::ROWS,
    };
}

/// The kept history of a job.
#[derive(Debug, Clone, Default)]
pub struct JobHistory {
    /// The events, oldest first.
    pub events: Vec<JobEvent>,
    /// True if older events were dropped.
    pub shortened: bool,
}

/// A request for a piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReadRequest {
    /// The job as it was when the file was requested.
    pub job: Arc<Job>,
    pub component: ComponentIndex,
    pub attempt: Attempt,
    pub file: AttemptFile,
    /// Position of the first byte.
    pub offset: u64,
    /// Most bytes.
    pub limit: u32,
}

/// A request to list a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryListRequest {
    pub job: Arc<Job>,
    pub component: ComponentIndex,
    pub attempt: Attempt,
    /// Path of the directory below the work directory.
    pub path: RelPath,
}

/// A file of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptFile {
    /// The standard output.
    Stdout,
    /// The standard error.
    Stderr,
    /// An output, by its path below the work directory.
    Output(RelPath),
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadPiece {
    pub bytes: Bytes,
    /// Present size of the whole file.
    pub size: u64,
}

/// Pieces of a stream; after an error nothing follows.
pub type PieceStream = Pin<Box<dyn Stream<Item = Result<Bytes, String>> + Send>>;

/// A committed change to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobChange {
    /// The position in the journal.
    pub seq: Seq,
    pub job: JobId,
    pub owner: KeyName,
    /// True if this change accepted the job.
    pub submitted: bool,
    /// The events of the change.
    pub events: Vec<JobEvent>,
}

/// An item of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionItem {
    Change(JobChange),
    /// Changes were lost, because the follower was too slow.
    Lost,
}

/// Committed changes, in the order of the journal.
pub type JobChangeStream = Pin<Box<dyn Stream<Item = SubscriptionItem> + Send>>;
