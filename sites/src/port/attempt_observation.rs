//! Load and attempts of a site, as it reports them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::ids::AttemptTag;
use cospan_domain::reservation::IdleDrop;
use cospan_domain::resources::Resources;
use cospan_domain::units::Timestamp;

use super::BatchSystemSilence;

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
    /// It asked for another run (`scontrol requeue` of its own job): the job's own end, which counts
    /// as an error of its own.
    Requeued,
    /// The wrapper came to its open gate after the last moment for a common
    /// start, and started nothing.
    TooLate,
    /// It could not be started (executable missing or not executable): the job's own error.
    CouldNotStart(String),
}
