//! The port between the control plane and one site.

mod call_kind;
mod copy_calls;
mod gate_calls;
mod partial_answer;
mod reservation_calls;
mod site_error;
mod upload_calls;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cospan_domain::acquisition::SitePartitions;
use cospan_domain::catalogue::file_state::FileStamp;
use cospan_domain::content::Content;
use cospan_domain::ids::{AttemptTag, Digest, Epoch, HostName, LrmId, RelPath, Round, SiteName};
use cospan_domain::job::spec::Program;
use cospan_domain::labels::SiteLabels;
use cospan_domain::reservation::{IdleDrop, ReservationTag};
use cospan_domain::resources::Resources;
pub use cospan_domain::runner::EndWarning;
pub use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::{Bytes, DurationMs, DurationUs, Timestamp};

use crate::files::tree_pieces::DirectoryListing;

pub use call_kind::SiteCallKind;
pub use copy_calls::{CopyBlame, CopyRequest, CopySource, CopyStatus};
pub use gate_calls::{GateDecision, GateState, GoDecision, RoundPeer};
pub use partial_answer::BatchSystemSilence;
pub use reservation_calls::{
    FreeSlot, ObservedReservation, ReservationsByTag, SiteReservationCalls,
    TaggedReservationRequest,
};
pub use site_error::SiteError;
pub use upload_calls::{UPLOADS, UploadStep};

/// The capabilities of a site, as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SiteCapabilities {
    /// A component that cannot start at once may wait in its own queue, for hours if need be.
    pub queues: bool,
    /// The queue is the only way to it: nothing is claimed there.
    pub queues_only: bool,
    /// It grants reservations of processors for later ([`Site::reservations`]).
    pub reservations: bool,
}

/// The description of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteDescription {
    /// All resources that it has, in use or not.
    pub total: Resources,
    /// The most that one component can get; `total` if the site does not say.
    pub largest_component: Resources,
    /// The labels of the site.
    pub labels: SiteLabels,
    /// The capabilities of the site.
    pub capabilities: SiteCapabilities,
    /// The partitions of the site; `None` if it has none.
    pub lanes: Option<SitePartitions>,
    /// Name and version of its batch system, for people.
    pub manager: String,
}

/// The answer to a query about load and attempts. The caller notes when it made the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteStatus {
    /// The site's clock in its answer, if it gives one.
    pub site_clock: Option<Timestamp>,
    /// The resources that are free now for one more submission.
    pub idle: Resources,
    /// The idle resources of each of its partitions, if it has any.
    pub idle_in: BTreeMap<Arc<str>, Resources>,
    /// The times at which less of that is left, as others have reserved it.
    pub ebbs: Vec<IdleDrop>,
    /// The observation of each attempt asked about; one entry for every tag.
    pub attempts: BTreeMap<AttemptTag, AttemptObservation>,
    /// Set if its batch system did not answer: then the rest comes from
    /// the files of attempts alone.
    pub silence: Option<BatchSystemSilence>,
}

/// The state of one attempt, as the site knows it. The wrapper's files win over the batch system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptObservation {
    /// The site answered, and knows nothing under this tag: no job, no directory.
    Absent,
    /// It waits in the queue of the batch system.
    Queued(QueuedAttempt),
    /// It runs, but the wrapper has not written `ready` yet.
    Starting,
    /// It has its processors and waits at the gate.
    Ready(AttemptAtGate),
    /// The gate was opened and the payload runs.
    Begun(RunningPayload),
    /// The wrapper wrote a complete `exit`.
    Exited(PayloadExit),
    /// The gate was decided `void` (by us, or by the wrapper past the longest hold): the payload
    /// never ran and never will.
    Void,
    /// The batch system says it is over, or the processes are gone, and there is no complete
    /// `exit`: lost without a record. `began` says whether the payload had started.
    Vanished {
        /// The payload had started.
        began: bool,
        /// The site's own words.
        detail: String,
    },
    /// The site ended it, or kept it from running, and says why.
    Ended {
        /// The payload had started.
        began: bool,
        /// The reason.
        why: SiteEndReason,
        /// The site's own words.
        detail: String,
    },
    /// The site's answer about this one could not be had or read.
    Unknown(String),
}

/// An attempt in the queue of its site.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueuedAttempt {
    /// The expected start, by the site's clock, if the site gives one.
    pub expected: Option<Timestamp>,
    /// The reason why others go first, or the limit that its account has reached, in the site's
    /// words: it waits for that, however much is idle. `None` if the site does not say.
    pub behind: Option<Arc<str>>,
}

/// The reason why an attempt ended, or will never run, without a valid record of its wrapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteEndReason {
    /// Another job got its processors.
    Preempted,
    /// Somebody cancelled it at the site.
    Cancelled,
    /// It exceeded the time that the site gave it; its own wall time was not over.
    TimeLimit,
    /// It took more memory than it asked for.
    OutOfMemory,
    /// A node failed.
    NodeFailed,
    /// The site could not start it.
    LaunchFailed,
    /// It was ended and put back into the queue, where it can only find its directory taken.
    Requeued,
    /// It is in the queue for ever: the site never grants what it asks for.
    NeverRuns,
    /// It ended by itself, and its payload spoiled the files that would say how.
    Spoiled,
    /// The wrapper was killed while the payload ran, and the node is well.
    WrapperKilled,
}

/// The party whose error something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorBlame {
    /// The job's own.
    Job,
    /// The site's, which is charged.
    Site,
    /// Nobody's.
    Nobody,
}

impl SiteEndReason {
    /// Returns whose error it is.
    pub fn whose_error(self) -> ErrorBlame {
        match self {
            SiteEndReason::Preempted
            | SiteEndReason::Cancelled
            | SiteEndReason::TimeLimit
            | SiteEndReason::Requeued
            | SiteEndReason::NeverRuns => ErrorBlame::Nobody,
            SiteEndReason::OutOfMemory | SiteEndReason::Spoiled | SiteEndReason::WrapperKilled => {
                ErrorBlame::Job
            }
            SiteEndReason::NodeFailed | SiteEndReason::LaunchFailed => ErrorBlame::Site,
        }
    }

    /// Returns its name, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            SiteEndReason::Preempted => "preempted",
            SiteEndReason::Cancelled => "cancelled by others",
            SiteEndReason::TimeLimit => "time limit",
            SiteEndReason::OutOfMemory => "out of memory",
            SiteEndReason::NodeFailed => "node failed",
            SiteEndReason::LaunchFailed => "launch failed",
            SiteEndReason::Requeued => "requeued",
            SiteEndReason::NeverRuns => "can never run",
            SiteEndReason::Spoiled => "its state files were replaced or made unreadable",
            SiteEndReason::WrapperKilled => "its wrapper was killed while its payload ran",
        }
    }
}

/// A wrapper waiting at the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptAtGate {
    /// The host it waits on, or all of its nodes as its batch system writes them (`n[1-3]`).
    pub host: Arc<str>,
    /// The time when it got there, by the site's clock.
    pub since: Timestamp,
    /// The time since when it has its processors, by the site's clock: when the batch system
    /// started it, or when it reached the gate if that is all that is known.
    pub held_at: Timestamp,
}

/// A payload that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningPayload {
    /// The host it runs on.
    pub host: Arc<str>,
    /// The time when it began, by the site's clock.
    pub at: Timestamp,
}

/// The end of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadExit {
    /// Code or signal.
    pub cause: ExitCause,
    /// The time when it began, by the site's clock.
    pub began_at: Timestamp,
    /// The time when it ended, by the site's clock.
    pub ended_at: Timestamp,
}

/// The exit code, the signal, or whatever else ended a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitCause {
    /// It exited; 0 is success.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// The wrapper ended it at the job's wall time.
    WallTime,
    /// The wrapper ended it because it was asked to.
    Terminated,
    /// The wrapper came to its open gate after the last moment for a common
    /// start, and started nothing.
    TooLate,
    /// It could not be started (executable missing or not executable): the job's own error.
    CouldNotStart(String),
}

/// Everything that an adapter needs to submit one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptSubmitRequest {
    /// The identity of the attempt at the site; it is in the job's name and comment.
    pub tag: AttemptTag,
    /// The round it belongs to.
    pub round: Round,
    /// The control plane's epoch.
    pub epoch: Epoch,
    /// Processors and other resources.
    pub resources: Resources,
    /// The program, with the site's overrides applied.
    pub program: Program,
    /// Digest of the executable if it is staged.
    pub staged_executable: Option<Digest>,
    /// Inputs: content in the site's store, and the path of each below the work directory.
    pub inputs: Vec<(Content, RelPath)>,
    /// The outputs that are collected, below the work directory: on the
    /// disk before it has succeeded.
    pub outputs: Vec<RelPath>,
    /// Options for the batch system as they are.
    pub lrm_options: Vec<Arc<str>>,
    /// The reservation that it uses.
    pub reservation: Option<ReservationTag>,
    /// It must not start earlier than this long after the submission.
    pub begin_in: DurationMs,
    /// The longest time at the gate.
    pub hold_max: DurationMs,
    /// The longest run from the opening of the gate.
    pub wall_time: DurationMs,
    /// The signal that the payload gets before its wall time is over.
    pub warning: Option<EndWarning>,
    /// The component's latest attempt here that began, if the job is restarted: the payload gets
    /// the path of its work directory, as long as that is there.
    pub earlier: Option<AttemptTag>,
    /// True if the payload finds a file that lists the hosts of all components.
    pub lists_hosts: bool,
    /// The job's name, for people who look at the site's own queue.
    pub name: Option<Arc<str>>,
}

impl AttemptSubmitRequest {
    /// Asks for one processor for this long, and nothing else; at the gate for ten minutes.
    pub fn with_one_processor(tag: AttemptTag, program: Program, wall_time: DurationMs) -> Self {
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
pub struct AcceptedAttempt {
    /// The number that the batch system gave.
    pub lrm_id: LrmId,
}

/// A submission found under a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSubmission {
    /// The number that the batch system gave.
    pub lrm_id: LrmId,
    /// The time of the submission, by the site's clock.
    pub submitted_at: Timestamp,
}

/// The answer to a look-up by tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagLookupAnswer {
    /// The submissions that were found; absence counts only under the rules of the protocol.
    pub found: Vec<FoundSubmission>,
}

/// The result of inspecting a file at a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectedFile {
    /// Digest and size of the content.
    pub content: Content,
    /// True if it is a directory.
    pub directory: bool,
}

/// The progress of an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InspectionProgress {
    /// Bytes that were read.
    pub done: Bytes,
    /// Size of the file; `None` for a directory.
    pub of: Option<Bytes>,
}

/// A piece of a file, for logs and outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileExcerpt {
    /// The bytes, at most as many as were requested.
    pub bytes: Vec<u8>,
    /// Size of the whole file now.
    pub size: Bytes,
}

/// A stream of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A file to read piece by piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadableFile {
    /// The output of a payload.
    Log(AttemptTag, PayloadStream),
    /// A file at the site.
    File(FilePlace),
}

/// The queue of a site, and the attempts that go through it.
#[async_trait]
pub trait SiteAttemptCalls: Send + Sync {
    /// Returns the load, and the state of the attempts asked about, in one query. A failure is no
    /// information about anything.
    async fn status(&self, tags: &[AttemptTag]) -> Result<SiteStatus, SiteError>;

    /// Submits one attempt. Repeating it with a tag that the site knows must
    /// not start a second payload.
    async fn submit(&self, order: &AttemptSubmitRequest) -> Result<AcceptedAttempt, SiteError>;

    /// Looks for submissions under a tag.
    async fn find_by_tag(&self, tag: AttemptTag) -> Result<TagLookupAnswer, SiteError>;

    /// Ends an attempt, at whatever stage: the job of the batch system and all processes. `Ok` says
    /// that the request was accepted, not that the attempt is over: see
    /// [`SiteAttemptCalls::status`].
    async fn cancel(&self, tag: AttemptTag, lrm_id: Option<&LrmId>) -> Result<(), SiteError>;

    /// Takes one of several submissions under a tag out of the queue of the batch system: the one
    /// with this number, if it has this tag and has not been started. One that has been started
    /// leaves by itself, unless it is the one that has the directory: a request that comes late
    /// must not end the attempt.
    async fn withdraw(&self, tag: AttemptTag, lrm_id: &LrmId) -> Result<(), SiteError>;

    /// Removes everything that an ended attempt left.
    async fn remove_attempt(&self, tag: AttemptTag) -> Result<(), SiteError>;

    /// Lists all attempts of any instance that left something at the site.
    async fn list_attempts(&self) -> Result<Vec<AttemptTag>, SiteError>;
}

/// The gates, which keep attempts that have their processors until all of their round have theirs.
#[async_trait]
pub trait Gate: Send + Sync {
    /// Decides the gate of an attempt, or finds it decided. `Refused` if the attempt has no
    /// directory yet and the decision is `Go`; `Void` of an attempt without directory takes the
    /// directory's name, so that a late wrapper finds it taken.
    async fn decide_gate(
        &self,
        tag: AttemptTag,
        decision: &GateDecision,
    ) -> Result<GateState, SiteError>;
}

/// The files of a site: its content store, what users keep there, and what payloads print.
#[async_trait]
pub trait SiteFileCalls: Send + Sync {
    /// Returns digest, size and kind of a file (a process of its own reads it as a whole). The
    /// reading ends soon after the last future that waits for it was dropped.
    async fn inspect(&self, place: &FilePlace) -> Result<InspectedFile, SiteError>;

    /// Returns how far an inspection is, from memory; `None` if there is none, or the site does
    /// not know.
    fn read_so_far(&self, _place: &FilePlace) -> Option<InspectionProgress> {
        None
    }

    /// Returns the stamp of a file, without reading it; see [`FileStamp`]. `None` if the site has
    /// none. `Refused` if the file is missing.
    async fn stamp(&self, _place: &FilePlace) -> Result<Option<FileStamp>, SiteError> {
        Ok(None)
    }

    /// Starts a copy to this site, or joins the one that runs under the same nonce.
    async fn start_copy(&self, order: &CopyRequest) -> Result<(), SiteError>;

    /// Returns the state of the copy under this nonce.
    async fn copy_status(&self, order: &CopyRequest) -> Result<CopyStatus, SiteError>;

    /// Stops a copy; its partial data stays unless `discard`.
    async fn stop_copy(&self, order: &CopyRequest, discard: bool) -> Result<(), SiteError>;

    /// Returns true if the content store has this content, complete.
    async fn has_content(&self, digest: Digest) -> Result<bool, SiteError>;

    /// Deletes from the content store; `Ok` even if it was not there.
    async fn delete_content(&self, digest: Digest) -> Result<(), SiteError>;

    /// Reads a piece of a file; `Refused` if it does not exist.
    async fn read(
        &self,
        what: &ReadableFile,
        offset: Bytes,
        limit: u32,
    ) -> Result<FileExcerpt, SiteError>;

    /// Lists what is below a directory; `None` if the place is no directory. `Refused` if
    /// there is nothing, or something below it that can be neither read nor made anew.
    /// Sites of some kinds list none.
    async fn list(&self, _place: &FilePlace) -> Result<Option<DirectoryListing>, SiteError> {
        Err(SiteError::Unfit("it lists no directories".to_owned()))
    }

    /// Takes a step in bringing a user's file below the site's file root. The steps of one file
    /// come one after the other; sites of some kinds take none.
    async fn upload(&self, _step: &UploadStep) -> Result<(), SiteError> {
        Err(SiteError::Unfit(
            "it takes no uploads; register files that are there".to_owned(),
        ))
    }
}

/// A site. Calls may run at the same time; each ends within its own deadline and
/// reports what is known. Dropping a call's future must not leave the site in a state
/// that a later call cannot find out.
#[async_trait]
pub trait Site: SiteAttemptCalls + Gate + SiteFileCalls {
    /// Returns its name.
    fn name(&self) -> &SiteName;

    /// Returns true if it answers only while no other control plane can use it: then the attempts
    /// of a control plane whose store was taken over are nobody's.
    fn is_ours_alone(&self) -> bool {
        false
    }

    /// Returns hints that something may have changed since the last status: the number grows.
    /// Nothing may depend on them; most sites have none.
    fn changes(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        None
    }

    /// Returns its interface for reservations, if it grants any.
    fn reservations(&self) -> Option<&dyn SiteReservationCalls> {
        None
    }

    /// Returns why nothing can be begun there although it answers, as the latest status found.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Describes the site: called at connect and now and then.
    async fn describe(&self) -> Result<SiteDescription, SiteError>;

    /// Measures how long a small message from here to a host takes there and back, at best. An
    /// error is no information about either end; sites of some kinds cannot measure.
    async fn round_trip(&self, _to: &HostName) -> Result<DurationUs, SiteError> {
        Err(SiteError::Refused("it measures no round trips".to_owned()))
    }
}
