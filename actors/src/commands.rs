//! Every command as a value; HTTP, CLI, simulator and tests use the same ones.

use std::sync::Arc;

use cospan_domain::acquisition::ReservationTerms;
use cospan_domain::ids::{JobId, KeyName, LogicalName, RelPath, SiteName};
use cospan_domain::job::job_state::SubmissionIdempotency;
use cospan_domain::job::spec::{JobSpec, Priority};
use cospan_domain::queue::{ClassLimitError, ClassRequest};
use thiserror::Error;

pub use cospan_domain::site::site_command::OperatorCommand;

/// A command, with the name of the key that gives it.
#[derive(Debug)]
pub struct ApiCommand {
    /// The key that gives the command.
    pub by: KeyName,
    /// The request itself.
    pub what: ApiRequest,
}

/// All requests that the control plane takes.
#[derive(Debug)]
pub enum ApiRequest {
    /// Accept these jobs, all or none.
    Submit(Vec<JobSubmission>),
    /// Cancel these jobs; those that have ended already are left as they are.
    Cancel(Vec<JobId>),
    /// Cancel these jobs, and give up what may still run of them at sites that do not answer.
    Abandon(Vec<JobId>),
    /// Do not place these jobs until thawed.
    Freeze(Vec<JobId>),
    /// Place these jobs again.
    Thaw(Vec<JobId>),
    /// Go on with jobs that were held after an internal error.
    Release(Vec<JobId>),
    /// Change the priority of these jobs.
    SetPriority {
        jobs: Vec<JobId>,
        /// The new priority.
        to: Priority,
        /// The key is exempt from the rules for priorities.
        uncapped: bool,
    },
    /// Reserve another start for a job, or none any more.
    ChangeReservation {
        job: JobId,
        /// The new terms; `None`: the job is placed as others are.
        wish: Option<ReservationTerms>,
    },
    /// An operator's command for a site.
    Site(SiteName, OperatorCommand),
    /// Register a file that is at a site under a logical name. Answered once its content was read
    /// there.
    AddFile {
        /// The file's logical name.
        name: LogicalName,
        /// The site that has the file.
        site: SiteName,
        /// The path below that site's file root.
        path: RelPath,
        /// The name may point to other content until now.
        replace: bool,
        /// The name may be that of another key's file.
        reaches_all: bool,
    },
    /// Forget a file, or one replica of it. Nothing at a site is deleted.
    RemoveFile {
        /// The file's logical name.
        name: LogicalName,
        /// Forget only the replica at this site.
        site: Option<SiteName>,
        /// Forget the file even if unfinished jobs read it.
        force: bool,
        /// The file may be another key's.
        reaches_all: bool,
    },
}

/// A job to be accepted.
#[derive(Debug, Clone)]
pub struct JobSubmission {
    /// The job's specification; valid by [`JobSpec::validate`], names bound to content.
    pub spec: Arc<JobSpec>,
    /// The client's name for this submission.
    pub idempotency: Option<SubmissionIdempotency>,
    /// Accept the job although no known site can ever hold it.
    pub allow_unplaceable: bool,
    /// Refuse the job if it names a site that takes no placements now; else it waits for the site.
    pub refuse_closed: bool,
    /// The origin of the priority in `spec`.
    pub asking: ClassRequest,
}

impl JobSubmission {
    /// A job without an idempotency key, of the priority that it has, with no rule relaxed or
    /// tightened for it.
    pub fn from_spec(spec: Arc<JobSpec>) -> Self {
        Self {
            spec,
            idempotency: None,
            allow_unplaceable: false,
            refuse_closed: false,
            asking: ClassRequest::default(),
        }
    }
}

/// The answer to a command. Everything in it is durable and in the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiAnswer {
    /// The accepted jobs, in the order of submission.
    Submitted(Vec<SubmittedJob>),
    /// The outcome for each job, in the order given.
    Jobs(Vec<(JobId, JobCommandOutcome)>),
    /// The command was carried out.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubmittedJob {
    /// The job's number.
    pub id: JobId,
    /// The job had been accepted before, under the same idempotency key.
    pub repeated: bool,
    /// The sweep that the job is a run of.
    pub group: Option<JobId>,
}

/// The outcome for one job of a command on several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobCommandOutcome {
    /// The command was carried out.
    Done,
    /// Done here; others, or the user, still have to do their part.
    Waits(String),
    /// Nothing to do: the job was so already, or has ended.
    Unchanged(String),
    /// There is no such job.
    NotFound,
    /// Not possible, with the reason.
    Refused(String),
}

/// The reason why nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum ApiRefusal {
    #[error("job {index} of the request: {problem}")]
    Invalid { index: usize, problem: String },
    #[error(
        "job {index} of the request can never be placed: {problem}; submit with --allow-unplaceable to wait for a site that can"
    )]
    Unplaceable { index: usize, problem: String },
    #[error(
        "job {index} of the request: component {component} is for site {site}, which takes no jobs now ({why}); submit without --refuse-closed to wait for it"
    )]
    ClosedSite {
        index: usize,
        component: String,
        site: SiteName,
        why: String,
    },
    #[error(
        "job {index} of the request: no file is registered as {name}; register it with `cospan file add {name} --site SITE --path PATH`"
    )]
    UnknownFile { index: usize, name: LogicalName },
    #[error(
        "job {index} of the request: file {name} is not what was registered: it changed at {site}; `cospan file add {name} --site {site} --path {path} --replace` registers what is there now"
    )]
    FileChanged {
        index: usize,
        name: LogicalName,
        site: SiteName,
        path: RelPath,
    },
    #[error("job {index} of the request: {above}; {}", above.remedy())]
    AboveHighest {
        index: usize,
        above: ClassLimitError,
    },
    #[error("this idempotency key was used for job {job} with another body")]
    IdempotencyMismatch { job: JobId },
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Conflict(String),
    #[error("the control plane is too busy; try again in {retry_after_s} s")]
    Busy { retry_after_s: u64 },
    #[error("{problem}; {remedy}")]
    NoRoom {
        problem: String,
        remedy: String,
        retry_after_s: u64,
    },
    #[error("{problem}; {remedy}")]
    NeverRoom { problem: String, remedy: String },
    #[error("{0}")]
    ReadOnly(String),
    #[error("the control plane is stopping")]
    Stopping,
    #[error("the site did not carry it out: {0}")]
    Site(String),
    #[error("{problem}; {remedy}")]
    SiteRefused {
        problem: String,
        remedy: &'static str,
    },
}
