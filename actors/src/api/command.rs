//! Every command as a value; HTTP, CLI, simulator and tests use the same ones.

use std::sync::Arc;

use cospan_domain::acquire::ReservationTerms;
use cospan_domain::ids::{JobId, KeyName, LogicalName, RelPath, SiteName};
use cospan_domain::job::spec::{JobSpec, Priority};
use cospan_domain::job::state::Idempotency;
use cospan_domain::queue::{AboveHighest, Asking};
use thiserror::Error;

pub use cospan_domain::site::command::Operation as SiteOrder;

/// Something asked of the control plane, with the name of the key that asked.
#[derive(Debug)]
pub struct ApiCommand {
    /// Who asks.
    pub by: KeyName,
    /// What is asked.
    pub what: ApiRequest,
}

/// What can be asked.
#[derive(Debug)]
pub enum ApiRequest {
    /// Accept these jobs, all or none.
    Submit(Vec<Submission>),
    /// Cancel these jobs; those that have ended already are left as they are.
    Cancel(Vec<JobId>),
    /// Cancel these jobs, and give up what may still run of them at sites from which nothing
    /// is heard.
    Abandon(Vec<JobId>),
    /// Do not place these jobs until thawed.
    Freeze(Vec<JobId>),
    /// Place these jobs again.
    Thaw(Vec<JobId>),
    /// Go on with jobs that were held after an internal error.
    Release(Vec<JobId>),
    /// Change the class of these jobs' placement queue.
    SetPriority {
        /// Which jobs.
        jobs: Vec<JobId>,
        /// To which class.
        to: Priority,
        /// The key that asks is bound by no rule for classes.
        uncapped: bool,
    },
    /// Promise a job another start, or none any more.
    ChangeReservation {
        /// The job.
        job: JobId,
        /// What is wanted; `None`: it is placed as others are.
        wish: Option<ReservationTerms>,
    },
    /// An operator's order about a site.
    Site(SiteName, SiteOrder),
    /// Register a file that is at a site under a logical name. Answered once its
    /// content was read there.
    AddFile {
        /// Its logical name.
        name: LogicalName,
        /// Where it is.
        site: SiteName,
        /// Below that site's file root.
        path: RelPath,
        /// The name may point to other content until now.
        replace: bool,
        /// The name may be that of another key's file.
        reaches_all: bool,
    },
    /// Forget a file, or one replica of it. Nothing at a site is deleted.
    RemoveFile {
        /// Its logical name.
        name: LogicalName,
        /// Only the replica there.
        site: Option<SiteName>,
        /// Even if unfinished jobs read it.
        force: bool,
        /// It may be another key's.
        reaches_all: bool,
    },
}

/// One job to be accepted.
#[derive(Debug, Clone)]
pub struct Submission {
    /// What is asked for; valid by [`JobSpec::validate`], names bound to content.
    pub spec: Arc<JobSpec>,
    /// The client's name for this submission.
    pub idempotency: Option<Idempotency>,
    /// Accept it although no known site can ever hold it.
    pub allow_unplaceable: bool,
    /// Refuse it if it names a site that takes no placements now; else it waits for the site.
    pub refuse_closed: bool,
    /// How the class in `spec` was come by.
    pub asking: Asking,
}

impl Submission {
    /// A job under no name of its client's, of the class that it has, with nothing made easier
    /// for it or harder.
    pub fn of(spec: Arc<JobSpec>) -> Self {
        Self {
            spec,
            idempotency: None,
            allow_unplaceable: false,
            refuse_closed: false,
            asking: Asking::default(),
        }
    }
}

/// What a command came to. Everything in it is durable and in the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiAnswer {
    /// The jobs, in the order of submission.
    Submitted(Vec<SubmittedJob>),
    /// What became of each job, in the order given.
    Jobs(Vec<(JobId, JobOutcome)>),
    /// Done.
    Done,
}

/// One accepted job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubmittedJob {
    /// Its number.
    pub id: JobId,
    /// It had been accepted before, under the same idempotency key.
    pub repeated: bool,
    /// The sweep that it is a run of.
    pub group: Option<JobId>,
}

/// What became of one job of a command on several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    /// Done.
    Done,
    /// Done here; it takes until others have done their part, or something more of the user.
    Waits(String),
    /// Nothing to do: it was so already, or has ended.
    Unchanged(String),
    /// There is no such job.
    NotFound,
    /// Not possible, and why.
    Refused(String),
}

/// Why nothing was done.
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
    AboveHighest { index: usize, above: AboveHighest },
    #[error("this idempotency key was used for job {job} with another body")]
    IdempotencyMismatch { job: JobId },
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Conflict(String),
    #[error("the control plane has as much to do as it can take; try again in {retry_after_s} s")]
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
    #[error("the site did not do it: {0}")]
    Site(String),
    #[error("{problem}; {remedy}")]
    SiteRefused {
        problem: String,
        remedy: &'static str,
    },
}
