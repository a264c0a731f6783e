//! What the edge needs of the control plane.

use std::pin::Pin;
use std::sync::Arc;

use actix_web::web::Bytes;
use async_trait::async_trait;
use cospan_actors::api::{
    ApiAnswer, ApiCommand, ApiRefusal, FreeLater, StartsToCompute, Submission, View,
};
use cospan_domain::ids::{
    Attempt, ComponentIndex, JobId, KeyName, LogicalName, RelPath, Seq, SiteName,
};
use cospan_domain::job::event::JobEvent;
use cospan_domain::job::state::Job;
use cospan_domain::queue::QueueStanding;
use cospan_domain::reserve::{EqualParts, StartWindow};
use cospan_domain::units::DurationMs;
use cospan_sites::files::listing::Listing;
use cospan_sites::port::UploadStep;
use futures_util::Stream;

use crate::api::v1::explain::ExplainReport;
use crate::api::v1::file::{FilePage, FileReport};
use crate::api::v1::last_words::LastWordsReport;
use crate::api::v1::ranking::RankingReport;
use crate::api::v1::site::{LinkReport, NeedsReport, SiteList};
use crate::api::v1::store::StoreReport;
use crate::chaos::Rehearsals;

/// The control plane as the edge sees it. Calls without `async` read what is in
/// memory and return at once, but for `preview`, `would_accept` and `explain`.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Does what was asked, durably, or says why not.
    async fn command(&self, command: ApiCommand) -> Result<ApiAnswer, ApiRefusal>;

    /// What would become of a submission with this key: refused with every reason that would
    /// refuse it, else where it would go, with at most about so many verdicts. Computes for as
    /// long as the job is large.
    fn preview(
        &self,
        by: &KeyName,
        submission: Submission,
        rows: usize,
    ) -> Result<ExplainReport, ApiRefusal>;

    /// Refuses a submission with this key for every reason for which it would be refused.
    fn would_accept(&self, by: &KeyName, submission: Submission) -> Result<(), ApiRefusal>;

    /// How the sites that may promise it a start would be ranked, if it says by what.
    async fn rankings(&self, _by: &KeyName, _submission: Submission) -> Vec<RankingReport> {
        Vec::new()
    }

    /// Somebody looks at the sites: they are asked how they are, unless they were just now.
    fn look_at_sites(&self) {}

    /// What the user of a job that was just accepted should know: why it can never start as
    /// things are.
    fn warning(&self, _id: JobId) -> Option<String> {
        None
    }

    /// The committed state.
    fn view(&self) -> Arc<View>;

    /// Logical files in the order of their names, after a name and at a site, if given; only
    /// those that were registered by a key for which `shows` holds.
    fn files(
        &self,
        after: Option<&LogicalName>,
        site: Option<&SiteName>,
        shows: &dyn Fn(&KeyName) -> bool,
        limit: usize,
    ) -> FilePage;

    /// The key that registered a logical file.
    fn file_owner(&self, name: &LogicalName) -> Option<KeyName>;

    /// One logical file.
    fn file(&self, name: &LogicalName) -> Option<FileReport>;

    /// All sites.
    fn sites(&self) -> SiteList;

    /// Links that bring files to a site, by where they begin.
    fn links_to(&self, site: &SiteName) -> Vec<LinkReport>;

    /// Whose attempts at sites are still needed.
    fn needs(&self) -> NeedsReport;

    /// When parts could start within a window, at one site or at all. Sites are asked.
    async fn startable(
        &self,
        site: Option<&SiteName>,
        parts: &EqualParts,
        window: StartWindow,
    ) -> StartsToCompute;

    /// What is free at a site from now on, for so long. The site is asked.
    async fn free_later(&self, site: &SiteName, within: DurationMs) -> FreeLater;

    /// The store.
    fn store(&self) -> StoreReport;

    /// A job, also one that is archived.
    async fn job(&self, id: JobId) -> Result<Option<Arc<Job>>, ApiRefusal>;

    /// What happened to a job, oldest first; `None` if there is no such job.
    async fn history(&self, id: JobId) -> Result<Option<JobHistory>, ApiRefusal>;

    /// What others know of a job of which a page is to be explained; `None` if there is no such
    /// job. What only a first page tells is not asked for on others.
    async fn ask_about(&self, id: JobId, page: ExplainPage)
    -> Result<Option<JobFacts>, ApiRefusal>;

    /// Why a job waits or was placed where it is. Computes for as long as the job is large.
    fn explain(&self, facts: JobFacts, page: ExplainPage) -> Result<ExplainReport, ApiRefusal>;

    /// Reads a piece of what a component printed or left.
    async fn read(&self, what: &ReadOrder) -> Result<ServedPiece, ApiRefusal>;

    /// What is below a directory that an attempt left at this path; `None` if it is none.
    async fn list(&self, what: &ListOrder) -> Result<Option<Listing>, ApiRefusal>;

    /// Takes a step in bringing a user's file to a site.
    async fn upload(&self, site: &SiteName, step: UploadStep) -> Result<(), ApiRefusal>;

    /// The whole store, piece by piece, in the format of `store import`.
    async fn export(&self) -> Result<Pieces, ApiRefusal>;

    /// Committed changes from now on. A change must be in [`Backend::view`]
    /// before it is sent here.
    fn subscribe(&self) -> Changes;

    /// Faults injected on purpose.
    fn rehearsals(&self) -> &Rehearsals;

    /// Whether work can be accepted; else why not.
    fn readiness(&self) -> Result<(), String>;

    /// Why nothing is done but to read the store, if that is so.
    fn read_only(&self) -> Option<&str> {
        None
    }
}

/// A job that is to be explained, and what had to be asked for that.
#[derive(Debug, Clone)]
pub struct JobFacts {
    /// The job.
    pub job: Arc<Job>,
    /// Where it stands in its queue.
    pub standing: Option<QueueStanding>,
    /// What its failed components printed last.
    pub last_words: Vec<LastWordsReport>,
}

/// Which components an explanation tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExplainPage {
    /// Those behind so many.
    pub after: usize,
    /// At most so many.
    pub limit: usize,
    /// No more of them than have about so many verdicts together.
    pub rows: usize,
}

impl ExplainPage {
    /// Verdicts on a page: about a megabyte.
    pub const ROWS: usize = 5_000;
    /// The first page of as many components as have room on it.
    pub const FIRST: Self = Self {
        after: 0,
        limit: usize::MAX,
        rows: Self::ROWS,
    };
}

/// The kept history of a job.
#[derive(Debug, Clone, Default)]
pub struct JobHistory {
    /// What happened, oldest first.
    pub events: Vec<JobEvent>,
    /// Older events were dropped.
    pub shortened: bool,
}

/// A piece of a file that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOrder {
    /// Whose: the job as it was when the file was asked for.
    pub job: Arc<Job>,
    /// Which component.
    pub component: ComponentIndex,
    /// Which of its attempts.
    pub attempt: Attempt,
    /// Which file.
    pub file: WantedFile,
    /// From this byte on.
    pub offset: u64,
    /// At most so many bytes.
    pub limit: u32,
}

/// A directory that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListOrder {
    /// Whose.
    pub job: Arc<Job>,
    /// Which component.
    pub component: ComponentIndex,
    /// Which of its attempts.
    pub attempt: Attempt,
    /// Where it is below the work directory.
    pub path: RelPath,
}

/// A file of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedFile {
    /// What it printed.
    Stdout,
    /// What it printed as errors.
    Stderr,
    /// An output, by its path below the work directory.
    Output(RelPath),
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServedPiece {
    /// The bytes.
    pub bytes: Bytes,
    /// Size of the whole file now.
    pub size: u64,
}

/// Pieces of a stream; after an error nothing follows.
pub type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, String>> + Send>>;

/// One committed change to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobChange {
    /// Its position in the journal.
    pub seq: Seq,
    /// The job.
    pub job: JobId,
    /// Its owner.
    pub owner: KeyName,
    /// The job is new: accepted by this change.
    pub submitted: bool,
    /// What happened to it.
    pub events: Vec<JobEvent>,
}

/// What follows from a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowedChange {
    /// A change.
    Change(JobChange),
    /// Changes were lost, because the follower was too slow.
    Lost,
}

/// Committed changes, in the order of the journal.
pub type Changes = Pin<Box<dyn Stream<Item = FollowedChange> + Send>>;
