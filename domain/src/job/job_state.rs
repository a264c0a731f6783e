//! The durable state of one job.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::boxed_default::BoxedUnlessDefault;
use crate::ids::{
    ComponentIndex, Digest, IdempotencyKey, JobId, KeyName, Round, SiteName, TargetName,
};
use crate::job::spec::{JobSpec, Priority};
use crate::placed::PlacementOrigin;
use crate::units::Timestamp;

pub use super::accounting::JobInstants;
pub use super::component::{
    AttemptEnding, AttemptState, BegunAttempt, Component, ComponentRestart, ImportedAttempts,
    OutputCollection, RestartStep, SiteCharge, SiteQueueWait,
};
pub use super::reservations::{
    AlternativeDivision, JobDivision, JobReservations, ReschedulableJob, Rescheduling, StartNotice,
    StartNoticeKind, StartNotices, TermsChange, UnreservedComponent,
};

/// A job as it stands in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    /// The specification as submitted; never changes.
    pub spec: Arc<JobSpec>,
    /// The key that submitted it.
    pub owner: KeyName,
    /// The client's name for the submission, so that a repeated one is recognised.
    pub idempotency: Option<SubmissionIdempotency>,
    /// The time at which it was accepted.
    pub submitted_at: Timestamp,
    /// Priority of its placement queue now; promotion raises it.
    pub priority: Priority,
    /// The key that froze it; it is not placed while this is set.
    pub frozen_by: Option<KeyName>,
    /// The reason why it is held; nothing is done for it until an operator releases it.
    pub held: Option<Arc<str>>,
    pub phase: JobPhase,
    /// Number of its latest round.
    pub round: Round,
    /// True once all input of this round is at its sites, whole and checked.
    pub inputs_here: bool,
    /// The common start of this round, once it is decided: no payload begins before.
    pub start_at: Option<Timestamp>,
    /// The next claiming try (JCT), once one of this round has failed; before, it follows from
    /// placement and input: see [`Job::next_claim_time`].
    pub next_claim: Option<Timestamp>,
    /// Jobs that this round preempted, all at once: a round preempts only once.
    pub preempting: Vec<JobId>,
    /// True if promotion raised its priority: it is queued as such, but does not preempt.
    pub promoted: bool,
    /// Attempts, placements and exits, one entry a component; empty before the first placement.
    pub components: Vec<Component>,
    /// Counts of its returns to the queue, by cause.
    pub setbacks: SetbackCounts,
    /// The instants of KOALA's accounting.
    pub instants: BoxedUnlessDefault<JobInstants>,
    /// The policy that placed it last; `None` before that, and in older records.
    pub placed_by: Option<PlacementOrigin>,
    /// The terms of its reservations, where a user changed them.
    pub wish: TermsChange,
    /// The reservations that it requests, or has; `None` before the first request.
    pub reservation: Option<Box<JobReservations>>,
    /// Receivers to whom the end was reported, or could not be.
    pub told: BTreeSet<TargetName>,
    /// Number of units that were journalled for it; the version of its head.
    pub revision: u64,
}

/// The client's name for a submission, and the digest of what it submitted under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmissionIdempotency {
    /// The name.
    pub key: IdempotencyKey,
    /// Digest of the request's body.
    pub body: Digest,
}

/// The phase of a job: how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobPhase {
    /// The job waits in its placement queue.
    Queued {
        /// The time at which it entered the queue; decides its place there.
        since: Timestamp,
        /// No placement is tried before this time.
        not_before: Timestamp,
    },
    /// The job is placed, its input is on the way; it waits in the claiming queue, and has no
    /// processors.
    Placed {
        /// Job placement time (JPT).
        at: Timestamp,
        /// Estimated job start time (JST), when processors are claimed at the latest.
        start_estimate: Timestamp,
    },
    /// Attempts are submitted, of all components or, with T < 1, of some. The job waits until all
    /// are at their gates and all input is there.
    Claiming {
        /// The time at which components were last claimed.
        since: Timestamp,
    },
    /// The start is decided; gates are being opened. From here only an abort closes gates.
    Starting {
        /// The time of the decision.
        since: Timestamp,
    },
    /// All payloads have begun, except those that begin later.
    Running {
        /// The time at which the last one was seen to have begun.
        since: Timestamp,
    },
    /// All payloads succeeded; outputs are brought where they belong.
    Collecting {
        /// The time at which this phase began.
        since: Timestamp,
    },
    /// Everything that may live of this round is being ended.
    Aborting {
        /// The time at which this phase began.
        since: Timestamp,
        why: AbortCause,
        /// The fate of the job once nothing of the round lives.
        then: AbortConsequence,
    },
    /// The job succeeded. Final.
    Finished { at: Timestamp },
    /// The job failed. Final.
    Failed {
        at: Timestamp,
        /// The reason, for people.
        reason: Arc<str>,
    },
    /// The job was cancelled. Final.
    Cancelled {
        at: Timestamp,
        /// The key that asked for it.
        by: KeyName,
    },
}

/// The phases without their data, for tables, filters and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "documented at Phase")]
pub enum PhaseKind {
    Queued,
    Placed,
    Claiming,
    Starting,
    Running,
    Collecting,
    Aborting,
    Finished,
    Failed,
    Cancelled,
}

impl PhaseKind {
    /// All of them, in the order of a job's life.
    pub const ALL: [PhaseKind; 10] = [
        PhaseKind::Queued,
        PhaseKind::Placed,
        PhaseKind::Claiming,
        PhaseKind::Starting,
        PhaseKind::Running,
        PhaseKind::Collecting,
        PhaseKind::Aborting,
        PhaseKind::Finished,
        PhaseKind::Failed,
        PhaseKind::Cancelled,
    ];

    /// Returns its name in answers, filters and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            PhaseKind::Queued => "queued",
            PhaseKind::Placed => "placed",
            PhaseKind::Claiming => "claiming",
            PhaseKind::Starting => "starting",
            PhaseKind::Running => "running",
            PhaseKind::Collecting => "collecting",
            PhaseKind::Aborting => "aborting",
            PhaseKind::Finished => "finished",
            PhaseKind::Failed => "failed",
            PhaseKind::Cancelled => "cancelled",
        }
    }

    /// Returns true if nothing can happen any more.
    pub fn is_final(self) -> bool {
        matches!(
            self,
            PhaseKind::Finished | PhaseKind::Failed | PhaseKind::Cancelled
        )
    }
}

impl JobPhase {
    /// The phase without its data.
    pub fn kind(&self) -> PhaseKind {
        match self {
            JobPhase::Queued { .. } => PhaseKind::Queued,
            JobPhase::Placed { .. } => PhaseKind::Placed,
            JobPhase::Claiming { .. } => PhaseKind::Claiming,
            JobPhase::Starting { .. } => PhaseKind::Starting,
            JobPhase::Running { .. } => PhaseKind::Running,
            JobPhase::Collecting { .. } => PhaseKind::Collecting,
            JobPhase::Aborting { .. } => PhaseKind::Aborting,
            JobPhase::Finished { .. } => PhaseKind::Finished,
            JobPhase::Failed { .. } => PhaseKind::Failed,
            JobPhase::Cancelled { .. } => PhaseKind::Cancelled,
        }
    }
}

/// The cause for which a round is aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AbortCause {
    /// A component did not get its processors at its site in time.
    ClaimLost {
        component: ComponentIndex,
        /// The reason that the site gave.
        detail: Arc<str>,
    },
    /// Input did not arrive.
    InputLost {
        /// The fault of the copy.
        detail: Arc<str>,
    },
    /// The site of a component failed it.
    SiteError {
        component: ComponentIndex,
        /// The fault.
        detail: Arc<str>,
    },
    /// A component had not begun within the grace after the start was decided.
    StartMissed {
        /// The first such component.
        component: ComponentIndex,
    },
    /// The site of a component stopped answering for too long.
    Unreachable { component: ComponentIndex },
    /// The payload of a component failed.
    Application {
        component: ComponentIndex,
        /// Description of its end.
        detail: Arc<str>,
    },
    /// A user cancelled the job.
    Cancelled,
    /// A job of a higher priority takes its processors.
    Preempted { by: JobId },
    /// A user wants another reservation, or none.
    ReservationChanged {
        /// The key that asked for it.
        by: KeyName,
    },
    /// The site of a component takes none of its owner's jobs for a while.
    Barred {
        component: ComponentIndex,
        /// The reason, for people.
        detail: Arc<str>,
    },
    /// The batch system of a component's site refused what the component asks for.
    Unfit {
        component: ComponentIndex,
        /// The words of the batch system.
        detail: Arc<str>,
        /// True if another site could hold the component, as far as is known.
        fits_elsewhere: bool,
    },
    /// An operator drains a site.
    Drained { site: SiteName },
}

impl AbortCause {
    /// Returns the component that it is about, if it is about one.
    pub fn component(&self) -> Option<ComponentIndex> {
        match self {
            AbortCause::ClaimLost { component, .. }
            | AbortCause::SiteError { component, .. }
            | AbortCause::Barred { component, .. }
            | AbortCause::Unfit { component, .. }
            | AbortCause::StartMissed { component }
            | AbortCause::Unreachable { component }
            | AbortCause::Application { component, .. } => Some(*component),
            AbortCause::InputLost { .. }
            | AbortCause::Cancelled
            | AbortCause::Preempted { .. }
            | AbortCause::ReservationChanged { .. }
            | AbortCause::Drained { .. } => None,
        }
    }
}

/// The fate of a job after its round was aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AbortConsequence {
    /// It returns to its queue.
    Requeue {
        /// No placement is tried before this time.
        not_before: Timestamp,
    },
    /// It has failed.
    Fail {
        /// The reason, for people.
        reason: Arc<str>,
    },
    /// It is cancelled.
    Cancel {
        /// The key that asked for it.
        by: KeyName,
    },
}

/// Counts of a job's returns to its queue, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetbackCounts {
    /// Claiming tries that failed.
    pub claims: u32,
    /// Rounds that could not be claimed by their start time; each lowers L.
    pub missed_starts: u32,
    /// Rounds that gave way to jobs of a higher priority.
    pub preemptions: u32,
    /// Rounds that were aborted after at least one attempt was submitted.
    pub rounds: u32,
    /// Errors of sites.
    pub site_errors: u32,
    /// Errors of the job itself.
    pub own_errors: u32,
    /// Input that did not arrive.
    pub inputs: u32,
    /// Incidents at sites in a row: attempts lost together count once, and those lost before an
    /// attempt that ran for long do not count.
    pub incidents: u32,
}
