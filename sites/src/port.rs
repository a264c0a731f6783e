//! The port between the control plane and one site.

mod call_kind;
mod copies;
mod error;
mod gate;
mod reservations;
mod silence;
mod uploads;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cospan_domain::acquire::SitePartitions;
use cospan_domain::catalogue::state::FileStamp;
use cospan_domain::content::Content;
use cospan_domain::ids::{AttemptTag, Digest, Epoch, HostName, LrmId, RelPath, Round, SiteName};
use cospan_domain::job::spec::Program;
use cospan_domain::labels::Labels;
use cospan_domain::reserve::{IdleDrop, ReservationTag};
use cospan_domain::resources::Resources;
pub use cospan_domain::runner::Warning;
pub use cospan_domain::transfer::place::FilePlace;
use cospan_domain::units::{Bytes, DurationMs, DurationUs, Timestamp};

use crate::files::listing::Listing;

pub use call_kind::CallKind;
pub use copies::{CopyBlame, CopyRequest, CopySource, CopyStatus};
pub use error::SiteError;
pub use gate::{GateDecision, GateState, Go, Peer};
pub use reservations::{
    FreeSlot, ReservationSeen, Reservations, ReservationsByTag, TaggedReservationRequest,
};
pub use silence::PartialAnswer;
pub use uploads::{UPLOADS, UploadStep};

/// What a site can do, as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// What cannot start at once may wait in its own queue, for hours if need be.
    pub queues: bool,
    /// That is the only way to it: nothing is claimed there.
    pub queues_only: bool,
    /// It promises processors for later ([`Site::reservations`]).
    pub reservations: bool,
}

/// What a site is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteDescription {
    /// All that it has, in use or not.
    pub total: Resources,
    /// The most that one component can get; `total` where the site does not say.
    pub largest_component: Resources,
    /// Its labels.
    pub labels: Labels,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Its partitions; `None`: it knows no such difference.
    pub lanes: Option<SitePartitions>,
    /// Name and version of its resource manager, for people.
    pub manager: String,
}

/// One answer about load and attempts. When it was asked for is noted by whoever asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteStatus {
    /// The site's clock in its answer, where it gives one.
    pub site_clock: Option<Timestamp>,
    /// What is free now for one more submission.
    pub idle: Resources,
    /// The same of each of its partitions, where it knows such a difference.
    pub idle_in: BTreeMap<Arc<str>, Resources>,
    /// When less of that is left, as it was promised to others.
    pub ebbs: Vec<IdleDrop>,
    /// What each attempt asked about is doing; one entry for every tag asked.
    pub attempts: BTreeMap<AttemptTag, Observation>,
    /// Its resource manager did not answer: this is what files of attempts say, and no more.
    pub silence: Option<PartialAnswer>,
}

/// What the site knows of one attempt. The wrapper's files win over the resource manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// The site answered, and knows nothing under this tag: no job, no directory.
    Absent,
    /// Waits in the resource manager's queue.
    Queued(InQueue),
    /// Running, but the wrapper has not written `ready` yet.
    Starting,
    /// Waiting at the gate with its processors held.
    Ready(AtGate),
    /// The gate was opened and the payload runs.
    Begun(PayloadBegin),
    /// The wrapper wrote a complete `exit`.
    Exited(PayloadExit),
    /// The gate was decided `void` (by us, or by the wrapper past the longest hold):
    /// the payload never ran and never will.
    Void,
    /// The resource manager says it is over, or the processes are gone, and there
    /// is no complete `exit`: lost without a word. `began` tells whether the payload had started.
    Vanished {
        /// The payload had started.
        began: bool,
        /// What the site said.
        detail: String,
    },
    /// Its site ended it, or kept it from running, and says why.
    Ended {
        /// The payload had started.
        began: bool,
        /// Why.
        why: EndedBySite,
        /// What the site said.
        detail: String,
    },
    /// The site's answer about this one could not be had or read.
    Unknown(String),
}

/// An attempt in the queue of its site.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InQueue {
    /// When it is expected to start, by the site's clock, if the site says so.
    pub expected: Option<Timestamp>,
    /// What lets others go first, or what its account has had enough of, in the site's words:
    /// it waits for that, however much is idle. `None` where that is not said.
    pub behind: Option<Arc<str>>,
}

/// Why an attempt ended, or will never run, that has no word of its wrapper that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBySite {
    /// Its processors went to another job.
    Preempted,
    /// Somebody cancelled it at the site.
    Cancelled,
    /// It ran out of the time that the site gave it; its own wall time was not over.
    TimeLimit,
    /// It took more memory than it asked for.
    OutOfMemory,
    /// A node failed.
    NodeFailed,
    /// The site could not start it.
    LaunchFailed,
    /// It was ended and put back into the queue, where it can only find its directory taken.
    Requeued,
    /// It is in the queue, and no waiting would let it run: the site never grants what it asks for.
    NeverRuns,
    /// It ended by itself, and its payload spoiled the files that would tell how.
    Spoiled,
    /// Its node is well, and its wrapper was killed while its payload ran.
    WrapperKilled,
}

/// Whose error something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorBlame {
    /// The job's own.
    Job,
    /// The site's, which is charged.
    Site,
    /// Nobody's.
    Nobody,
}

impl EndedBySite {
    /// Whose error it is.
    pub fn blame(self) -> ErrorBlame {
        match self {
            EndedBySite::Preempted
            | EndedBySite::Cancelled
            | EndedBySite::TimeLimit
            | EndedBySite::Requeued
            | EndedBySite::NeverRuns => ErrorBlame::Nobody,
            EndedBySite::OutOfMemory | EndedBySite::Spoiled | EndedBySite::WrapperKilled => {
                ErrorBlame::Job
            }
            EndedBySite::NodeFailed | EndedBySite::LaunchFailed => ErrorBlame::Site,
        }
    }

    /// Its name, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            EndedBySite::Preempted => "preempted",
            EndedBySite::Cancelled => "cancelled by others",
            EndedBySite::TimeLimit => "time limit",
            EndedBySite::OutOfMemory => "out of memory",
            EndedBySite::NodeFailed => "node failed",
            EndedBySite::LaunchFailed => "launch failed",
            EndedBySite::Requeued => "requeued",
            EndedBySite::NeverRuns => "can never run",
            EndedBySite::Spoiled => "its state files were replaced or made unreadable",
            EndedBySite::WrapperKilled => "its wrapper was killed while its payload ran",
        }
    }
}

/// A wrapper waiting at the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtGate {
    /// The host it waits on, or all of its nodes as its batch system writes them (`n[1-3]`).
    pub host: Arc<str>,
    /// When it got there, by the site's clock.
    pub since: Timestamp,
    /// From when on it held its processors, by the site's clock: when the batch system started
    /// it, or when it got here if that is all that is known.
    pub held_at: Timestamp,
}

/// A payload that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadBegin {
    /// The host it runs on.
    pub host: Arc<str>,
    /// When it began, by the site's clock.
    pub at: Timestamp,
}

/// How a payload ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadExit {
    /// Code or signal.
    pub cause: ExitCause,
    /// When it began, by the site's clock.
    pub began_at: Timestamp,
    /// When it ended, by the site's clock.
    pub ended_at: Timestamp,
}

/// Code or signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitCause {
    /// It exited; 0 is success.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// The wrapper ended it at the job's wall time.
    WallTime,
    /// The wrapper ended it because it was told to.
    Terminated,
    /// The wrapper came to its open gate after the last moment for a common start, and started
    /// nothing.
    TooLate,
    /// It could not be started (executable missing or not executable): the job's own error.
    CouldNotStart(String),
}

/// Everything that an adapter needs to submit one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmitRequest {
    /// Its identity at the site; travels in the job's name and comment.
    pub tag: AttemptTag,
    /// The round it belongs to.
    pub round: Round,
    /// The control plane's epoch.
    pub epoch: Epoch,
    /// Processors and the rest.
    pub resources: Resources,
    /// What to run, with the site's overrides applied.
    pub program: Program,
    /// Digest of the executable if it is staged.
    pub staged_executable: Option<Digest>,
    /// Inputs: content in the site's store, and where it appears below the work directory.
    pub inputs: Vec<(Content, RelPath)>,
    /// What is collected of it, below the work directory: on the disk before it has succeeded.
    pub outputs: Vec<RelPath>,
    /// Options for the resource manager as they are.
    pub lrm_options: Vec<Arc<str>>,
    /// The reservation that it uses.
    pub reservation: Option<ReservationTag>,
    /// It is to start no earlier than after this long, counted from the submission.
    pub begin_in: DurationMs,
    /// Longest time at the gate.
    pub hold_max: DurationMs,
    /// Longest run from the opening of the gate.
    pub wall_time: DurationMs,
    /// Signal that the payload gets before that ends.
    pub warning: Option<Warning>,
    /// The component's latest attempt here that began, if the job is restarted: the payload
    /// is told where its work directory is, as long as that is there.
    pub earlier: Option<AttemptTag>,
    /// The payload finds a file that lists the hosts of all components.
    pub lists_hosts: bool,
    /// The job's name, for people who look at the site's own queue.
    pub name: Option<Arc<str>>,
}

impl SubmitRequest {
    /// One processor for this long, and nothing besides; at the gate for ten minutes.
    pub fn plain(tag: AttemptTag, program: Program, wall_time: DurationMs) -> Self {
        Self {
            tag,
            round: Round(1),
            epoch: Epoch(1),
            resources: Resources::processors(1),
            program,
            staged_executable: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            lrm_options: Vec::new(),
            reservation: None,
            begin_in: DurationMs::ZERO,
            hold_max: DurationMs::from_secs(600),
            wall_time,
            warning: None,
            earlier: None,
            lists_hosts: false,
            name: None,
        }
    }
}

/// A submission that the site acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// The number the resource manager gave.
    pub lrm_id: LrmId,
}

/// A submission found under a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundAttempt {
    /// The number the resource manager gave.
    pub lrm_id: LrmId,
    /// When it was submitted, by the site's clock.
    pub submitted_at: Timestamp,
}

/// Answer to a look-up by tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagLookup {
    /// What was found; absence counts only under the rules of the protocol.
    pub found: Vec<FoundAttempt>,
}

/// What a file at a site was found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// Its content.
    pub content: Content,
    /// It is a directory.
    pub directory: bool,
}

/// A piece of a file, for logs and outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The bytes, at most what was asked for.
    pub bytes: Vec<u8>,
    /// Size of the whole file now.
    pub size: Bytes,
}

/// Which stream of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A file to read piece by piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readable {
    /// What a payload printed.
    Log(AttemptTag, PayloadStream),
    /// A file at the site.
    File(FilePlace),
}

/// The queue of a site, and the attempts that go through it.
#[async_trait]
pub trait Attempts: Send + Sync {
    /// Load, and what the attempts asked about are doing, in one query.
    /// A failure is no information about anything.
    async fn status(&self, tags: &[AttemptTag]) -> Result<SiteStatus, SiteError>;

    /// Submits one attempt. Repeating it with a tag that the site knows must not
    /// start a second payload.
    async fn submit(&self, order: &SubmitRequest) -> Result<Submitted, SiteError>;

    /// Looks for submissions under a tag.
    async fn find_by_tag(&self, tag: AttemptTag) -> Result<TagLookup, SiteError>;

    /// Ends an attempt, wherever it stands: resource manager's job and processes.
    /// `Ok` says that the order was taken, not that it is over: see [`Attempts::status`].
    async fn cancel(&self, tag: AttemptTag, lrm_id: Option<&LrmId>) -> Result<(), SiteError>;

    /// Takes one of several submissions under a tag out of the resource manager's queue: that
    /// with this number, if it has this tag and has not been started. One that has been leaves
    /// by itself, unless it is the one that has the directory: an order that comes late must
    /// not end the attempt.
    async fn withdraw(&self, tag: AttemptTag, lrm_id: &LrmId) -> Result<(), SiteError>;

    /// Removes everything that an ended attempt left.
    async fn remove_attempt(&self, tag: AttemptTag) -> Result<(), SiteError>;

    /// All attempts of any instance that left something at the site.
    async fn list_attempts(&self) -> Result<Vec<AttemptTag>, SiteError>;
}

/// What holds an attempt that has its processors until all of its round have theirs.
#[async_trait]
pub trait Gate: Send + Sync {
    /// Decides the gate of an attempt, or finds it decided. `Refused` if the
    /// attempt has no directory yet and the decision is `Go`; `Void` of an attempt
    /// without directory takes the directory's name, so that a late wrapper finds it taken.
    async fn decide_gate(
        &self,
        tag: AttemptTag,
        decision: &GateDecision,
    ) -> Result<GateState, SiteError>;
}

/// The files of a site: its content store, what users keep there, and what payloads print.
#[async_trait]
pub trait Files: Send + Sync {
    /// Digest, size and kind of a file (read as a whole by a process of its own).
    async fn inspect(&self, place: &FilePlace) -> Result<Inspected, SiteError>;

    /// What a file looks like without being read; see [`FileStamp`]. `None`: it cannot be told.
    /// `Refused` if the file is missing.
    async fn stamp(&self, _place: &FilePlace) -> Result<Option<FileStamp>, SiteError> {
        Ok(None)
    }

    /// Starts a copy to this site, or joins the one that runs under the same nonce.
    async fn start_copy(&self, order: &CopyRequest) -> Result<(), SiteError>;

    /// How the copy under this nonce is doing.
    async fn copy_status(&self, order: &CopyRequest) -> Result<CopyStatus, SiteError>;

    /// Stops a copy; its partial data stays unless `discard`.
    async fn stop_copy(&self, order: &CopyRequest, discard: bool) -> Result<(), SiteError>;

    /// Whether the content store has this content, whole.
    async fn has_content(&self, digest: Digest) -> Result<bool, SiteError>;

    /// Deletes from the content store; `Ok` also if it was not there.
    async fn delete_content(&self, digest: Digest) -> Result<(), SiteError>;

    /// Reads a piece of a file; `Refused` if it does not exist.
    async fn read(&self, what: &Readable, offset: Bytes, limit: u32) -> Result<Excerpt, SiteError>;

    /// What is below a directory; `None` if the place is no directory. `Refused` if there is
    /// nothing, or something below it that can be neither read nor made anew. Sites of some kinds
    /// list none.
    async fn list(&self, _place: &FilePlace) -> Result<Option<Listing>, SiteError> {
        Err(SiteError::Unfit("it lists no directories".to_owned()))
    }

    /// Takes a step in bringing what a user sent below the site's file root. Those of one file
    /// come one after the other; sites of some kinds take none.
    async fn upload(&self, _step: &UploadStep) -> Result<(), SiteError> {
        Err(SiteError::Unfit(
            "it takes no uploads; register files that are there".to_owned(),
        ))
    }
}

/// One site. Calls may run at the same time; each ends within its own deadline
/// and says what is known. Dropping a call's future must not leave the site in
/// a state that a later call cannot find out.
#[async_trait]
pub trait Site: Attempts + Gate + Files {
    /// Its name.
    fn name(&self) -> &SiteName;

    /// Whether it answers only while no other control plane can use it: what those left whose store
    /// was taken over is nobody's then.
    fn is_ours_alone(&self) -> bool {
        false
    }

    /// Hints that something may have changed since the last status: the number
    /// grows. Nothing may depend on them; most sites have none.
    fn changes(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        None
    }

    /// How it is asked for reservations, if it grants any.
    fn reservations(&self) -> Option<&dyn Reservations> {
        None
    }

    /// Why nothing can be begun there although it answers, as the latest status found.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// What it is: asked at connect and now and then.
    async fn describe(&self) -> Result<SiteDescription, SiteError>;

    /// How long a small message from here to a host takes there and back, at best. An error
    /// is no information about either end; sites of some kinds cannot tell.
    async fn round_trip(&self, _to: &HostName) -> Result<DurationUs, SiteError> {
        Err(SiteError::Refused("it measures no round trips".to_owned()))
    }
}
