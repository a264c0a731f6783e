//! The durable state of one job.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::{
    ComponentIndex, Digest, IdempotencyKey, JobId, KeyName, Round, SiteName, TargetName,
};
use crate::job::spec::{JobSpec, Priority};
use crate::placed::PlacedBy;
use crate::sparse::Sparse;
use crate::units::Timestamp;

pub use super::accounting::Instants;
pub use super::component::{
    AttemptEnding, AttemptOrigin, AttemptState, Began, Collected, Component, Restart, RestartStep,
    SiteCharge, Waits,
};
pub use super::reservation::{
    Anew, Forward, JobReservations, JobSplit, NoticeKind, Notices, Rescheduling, StartNotice,
    TermsChange, Unreserved,
};

/// One job as it stands in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// What was asked for; never changes.
    pub spec: Arc<JobSpec>,
    /// The key that submitted it.
    pub owner: KeyName,
    /// The client's name for the submission.
    pub idempotency: Option<Idempotency>,
    /// When it was accepted.
    pub submitted_at: Timestamp,
    /// Class of its placement queue now; promotion raises it.
    pub priority: Priority,
    /// Not placed while set, by this key.
    pub frozen_by: Option<KeyName>,
    /// Nothing is done for it while set: why, and until an operator releases it.
    pub held: Option<Arc<str>>,
    /// Where it stands.
    pub phase: JobPhase,
    /// Number of its latest co-allocation.
    pub round: Round,
    /// All input of this round is at its sites, whole and checked.
    pub inputs_here: bool,
    /// The common start of this round, once it is decided: no payload begins before.
    pub start_at: Option<Timestamp>,
    /// The next claiming try (JCT), once one of this round has failed; before, it follows from
    /// placement and input: see [`Job::claim_time`].
    pub next_claim: Option<Timestamp>,
    /// Jobs that this round preempted, all at once: there is one such wave a round.
    pub preempting: Vec<JobId>,
    /// Its class was raised by promotion: it counts as such, but does not preempt.
    pub promoted: bool,
    /// Attempts, placements and exits, one entry a component; empty before the first placement.
    pub components: Vec<Component>,
    /// How often it came back to its queue, by cause.
    pub setbacks: Setbacks,
    /// The instants of KOALA's accounting.
    pub instants: Sparse<Instants>,
    /// What placed it last; `None` before that, and in records of before that was kept.
    pub placed_by: Option<PlacedBy>,
    /// The start that it is to be promised, where that was changed.
    pub wish: TermsChange,
    /// The reservations that it asks for, or has; `None` before the first was asked for.
    pub reservation: Option<Box<JobReservations>>,
    /// Who was told that it has ended, or could not be told.
    pub told: BTreeSet<TargetName>,
    /// How many units were journalled for it; the version of its head.
    pub revision: u64,
}

/// The client's name for a submission, and what it asked then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The name.
    pub key: IdempotencyKey,
    /// Digest of the request's body.
    pub body: Digest,
}

/// Where a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobPhase {
    /// Waits in its placement queue.
    Queued {
        /// When it entered the queue; its place there.
        since: Timestamp,
        /// Not tried before.
        not_before: Timestamp,
    },
    /// Placed; its input is on the way; waits in the claiming queue, and holds nothing.
    Placed {
        /// Job placement time (JPT).
        at: Timestamp,
        /// Estimated job start time (JST), when processors are claimed at the latest.
        start_estimate: Timestamp,
    },
    /// Attempts are submitted, of all components or, with T < 1, of some; waits until all are
    /// at their gates and all input is there.
    Claiming {
        /// When components were last claimed.
        since: Timestamp,
    },
    /// The start is decided; gates are being opened. Never void from here, but by abort.
    Starting {
        /// When it was decided.
        since: Timestamp,
    },
    /// All payloads have begun but those that begin later.
    Running {
        /// When the last one was seen to have begun.
        since: Timestamp,
    },
    /// All payloads succeeded; outputs are brought where they belong.
    Collecting {
        /// Since when.
        since: Timestamp,
    },
    /// Everything that may live of this round is being ended.
    Aborting {
        /// Since when.
        since: Timestamp,
        /// Why.
        why: AbortCause,
        /// What comes after.
        then: AfterAbort,
    },
    /// Done, with success. Final.
    Finished {
        /// When.
        at: Timestamp,
    },
    /// Given up. Final.
    Failed {
        /// When.
        at: Timestamp,
        /// Why, for people.
        reason: Arc<str>,
    },
    /// Cancelled. Final.
    Cancelled {
        /// When.
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

    /// Its name in answers, filters and metrics.
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

    /// Whether nothing can happen any more.
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

/// Why a round is aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AbortCause {
    /// A component could not be had at its site in time.
    ClaimLost {
        /// Which.
        component: ComponentIndex,
        /// What the site said.
        detail: Arc<str>,
    },
    /// Input did not arrive.
    InputLost {
        /// What happened to the copy.
        detail: Arc<str>,
    },
    /// Its site failed a component.
    SiteError {
        /// Which.
        component: ComponentIndex,
        /// What happened.
        detail: Arc<str>,
    },
    /// A component had not begun within the grace after the start was decided.
    StartMissed {
        /// The first such component.
        component: ComponentIndex,
    },
    /// The site of a component stopped answering for too long.
    Unreachable {
        /// Which.
        component: ComponentIndex,
    },
    /// A component failed by its own doing.
    Application {
        /// Which.
        component: ComponentIndex,
        /// How it ended.
        detail: Arc<str>,
    },
    /// A user asked for it.
    Cancelled,
    /// A job of a higher class takes its processors.
    Preempted {
        /// Which.
        by: JobId,
    },
    /// A user wants another reservation, or none.
    ReservationChanged {
        /// By which key.
        by: KeyName,
    },
    /// The site of a component takes none of its owner's jobs for a while.
    Barred {
        /// Which.
        component: ComponentIndex,
        /// Why, for people.
        detail: Arc<str>,
    },
    /// An operator empties a site.
    Drained {
        /// The site.
        site: SiteName,
    },
}

impl AbortCause {
    /// The component that it is about, if it is about one.
    pub fn component(&self) -> Option<ComponentIndex> {
        match self {
            AbortCause::ClaimLost { component, .. }
            | AbortCause::SiteError { component, .. }
            | AbortCause::Barred { component, .. }
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

/// What becomes of a job after its round was aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterAbort {
    /// Back to its queue, not tried before this time.
    Requeue {
        /// That time.
        not_before: Timestamp,
    },
    /// It has failed.
    Fail {
        /// Why.
        reason: Arc<str>,
    },
    /// It is cancelled.
    Cancel {
        /// By which key.
        by: KeyName,
    },
}

/// How often a job came back to its queue, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Setbacks {
    /// Claiming tries that failed.
    pub claims: u32,
    /// Rounds that could not be claimed by their start time; each lowers L.
    pub missed_starts: u32,
    /// Rounds that gave way to jobs of a higher class.
    pub preemptions: u32,
    /// Rounds that were aborted after at least one attempt was submitted.
    pub rounds: u32,
    /// Errors of sites.
    pub site_errors: u32,
    /// Errors of its own.
    pub own_errors: u32,
    /// Input that did not arrive.
    pub inputs: u32,
    /// Incidents at sites in a row: what is lost with others counts once, and what was lost
    /// before an attempt that ran for long not at all.
    pub incidents: u32,
}
