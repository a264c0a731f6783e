//! Commands to a job: requests of users and other actors, and reports of what was observed.

use std::collections::BTreeSet;
use std::sync::Arc;

use thiserror::Error;

use crate::acquisition::ReservationTerms;
use crate::claim::ClaimTry;
use crate::content::Content;
use crate::ids::{Attempt, ComponentIndex, JobId, KeyName, LrmId, SiteName, TargetName};
use crate::job::spec::Priority;
use crate::placed::{Placement, PlacementOrigin};
use crate::reservation::flexco::{FlexPlan, PartsPlan};
use crate::reservation::{ReservationOutcome, ReservationSerial, SiteRanking};
use crate::units::{ClockSkew, DurationMs, Timestamp};

/// A command to one job, from a user or another actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobCommand {
    /// The job's actor was rebuilt: calls that were under way may or may not have taken effect.
    Recover {
        /// By component: how long a submission may still take effect at its site.
        settle: Vec<DurationMs>,
    },
    /// The co-allocator found a site for every component.
    Place {
        /// By component.
        placements: Vec<Placement>,
        /// The policy that chose them; `None` where nobody keeps that.
        by: Option<PlacementOrigin>,
    },
    /// The job wants a reservation: these sites may be asked, the best first.
    Reserve {
        /// By component: its possible placements.
        candidates: Vec<Vec<Placement>>,
        /// By component: placements at sites that grant no reservations; empty if it must not go
        /// there.
        unreserved: Vec<Vec<Placement>>,
        /// By component: the ranking of its sites, if the job has preferences.
        rankings: Vec<SiteRanking>,
        /// The job's terms when this was found; the command is stale if they have changed since.
        wish: Option<ReservationTerms>,
    },
    /// The job is flexible and wants a reservation: sites have room for these parts of it.
    Divide {
        /// The start, the shape, and how much goes to which site. If the start is later than is
        /// accepted, sites are asked when they would grant it.
        plan: FlexPlan,
        /// The placement of each part.
        placements: Vec<Placement>,
        /// The job's terms when this was found; the command is stale if they have changed since.
        wish: Option<ReservationTerms>,
    },
    /// A site answered a call about a reservation.
    ReservationAnswered {
        /// The number of the call.
        question: u32,
        /// The answer.
        outcome: ReservationOutcome,
    },
    /// The site is not called: its user may reserve only so many processors there at a time.
    WithholdReservation {
        /// The number of the call.
        question: u32,
        /// The most processors that the user may reserve there at a time.
        most: u32,
        /// The earliest time at which it may be asked; `None`: never for what is wanted.
        next: Option<Timestamp>,
    },
    /// There is no place for the job, now or later: within the shared reservation that it names, or
    /// for a flexible job at any site that would reserve processors for it.
    LoseReservation {
        /// The reason, for people.
        reason: Arc<str>,
        /// The job's terms when this was found; the command is stale if they have changed since.
        wish: Option<ReservationTerms>,
    },
    /// A site no longer has the reservation of one of its components.
    ReservationGone {
        /// The site.
        site: SiteName,
        /// The number of the reservation.
        serial: ReservationSerial,
    },
    /// A user wants another start for its reservations, or no reservation any more.
    ChangeReservation {
        /// The new terms; `None`: no reservation.
        wish: Option<ReservationTerms>,
        /// The key that asked for it.
        by: KeyName,
    },
    /// The job could start earlier than its reservations do, or run on fewer sites.
    BringForward {
        /// The start, and the site of each part.
        plan: PartsPlan,
        /// Sites that have more free than before.
        freed: Vec<SiteName>,
    },
    /// The job is flexible, and could be complete earlier than its reservations allow, or as early
    /// on fewer sites.
    DivideAnew {
        /// The start, the shape, and how much goes to which site.
        plan: FlexPlan,
        /// The placement of each part.
        placements: Vec<Placement>,
        /// Sites that have more free than before.
        freed: Vec<SiteName>,
    },
    /// Checks the clock and the state of others.
    Look(JobSurroundings),
    /// It is time to claim processors: the claimer's plan, and the state of others.
    Claim(ClaimTry, JobSurroundings),
    /// A job of a higher priority takes the processors.
    Preempt { by: JobId },
    /// A submission was answered.
    SubmitAnswered {
        component: ComponentIndex,
        attempt: Attempt,
        /// The answer.
        answer: SubmissionAnswer,
    },
    /// A look-up by tag was answered.
    LookUpAnswered {
        component: ComponentIndex,
        attempt: Attempt,
        /// The time of the look-up.
        asked_at: Timestamp,
        /// The number that the batch system gave it; `None` if it was not found.
        found: Option<LrmId>,
    },
    /// The status of a site shows an attempt.
    AttemptObserved {
        component: ComponentIndex,
        attempt: Attempt,
        /// The time of the status request.
        asked_at: Timestamp,
        /// Times by the site's clock.
        times: SiteClockTimes,
        /// The state that the site shows.
        sighting: AttemptSighting,
    },
    /// The gate of an attempt was decided.
    GateAnswered {
        component: ComponentIndex,
        attempt: Attempt,
        /// True if it is open; false if it had been closed for ever.
        open: bool,
    },
    /// The site has recorded the charge.
    ChargeRecorded {
        component: ComponentIndex,
        attempt: Attempt,
    },
    /// An output was read.
    OutputRead {
        component: ComponentIndex,
        /// Position among its outputs.
        output: u32,
        /// The content, or the site's reason why there is none.
        content: Result<Content, Arc<str>>,
    },
    /// All outputs of a component that stay where they were made are there.
    OutputsStay { component: ComponentIndex },
    /// An output is at its site, and the catalogue knows it.
    OutputRegistered {
        component: ComponentIndex,
        /// Position among its outputs.
        output: u32,
    },
    /// Enough placement tries failed: the job goes one priority up.
    Promote {
        /// The priority above the one in which the tries were counted.
        to: Priority,
    },
    /// Too many placement tries failed.
    GiveUpPlacement {
        /// The number of tries.
        tries: u32,
    },
    /// An operator drains this site: the job leaves it if no payload has begun.
    LeaveSite(SiteName),
    /// A user changes its priority.
    SetPriority(Priority, KeyName),
    /// A user freezes it: it is not placed.
    Freeze(KeyName),
    /// A user thaws it.
    Thaw(KeyName),
    /// A user cancels it.
    Cancel(KeyName),
    /// A user cancels it, and abandons attempts at sites that are silent, though they may still
    /// run. Nothing of the job is ever placed again.
    Abandon {
        /// The key that asked for it.
        by: KeyName,
        /// The sites that are silent.
        silent: BTreeSet<SiteName>,
    },
    /// A message that the job has ended was delivered, or given up.
    EndTold {
        /// The receiver of the message.
        target: TargetName,
        /// The reason why it could not be delivered; `None` if it was.
        problem: Option<Arc<str>>,
    },
    /// A message about its reserved start was delivered, or given up.
    NoticeTold {
        /// The number of the notice.
        notice: u32,
        /// The receiver of the message.
        target: TargetName,
        /// The reason why it could not be delivered; `None` if it was.
        problem: Option<Arc<str>>,
    },
    /// The actor of the job panicked again and again: nothing is done for it until it is released.
    Hold(Arc<str>),
    /// An operator releases it.
    Release(KeyName),
}

/// State of others that a job depends on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobSurroundings {
    /// The state of its input.
    pub inputs: InputState,
    /// Components whose site does not answer, with the time since when.
    pub unreachable: Vec<(ComponentIndex, Timestamp)>,
    /// Components whose site is no longer in the configuration, with the time since when the server
    /// runs without it.
    pub removed: Vec<(ComponentIndex, Timestamp)>,
    /// A component that waits for processors of a job that waits for ours, and that job, which was
    /// submitted earlier.
    pub yields: Option<(ComponentIndex, JobId)>,
    /// Outputs that cannot be brought to their sites.
    pub stranded: Vec<RejectedOutput>,
}

/// An output that its site does not take: the component, the output's position, and the reason.
pub type RejectedOutput = (ComponentIndex, u32, Arc<str>);

/// The state of the input of a round.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum InputState {
    /// Nothing is known yet.
    #[default]
    Unknown,
    /// All input is there.
    Here,
    /// Input is on its way and arrives at this time.
    Expected(Timestamp),
    /// Some input cannot be brought: every replica failed, or the destination does.
    Lost {
        /// The reason, for people.
        detail: Arc<str>,
        /// Components that need what is lost.
        components: Vec<ComponentIndex>,
        /// True if the site of the components cannot take it.
        at_site: bool,
    },
}

/// The answer of a site to a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmissionAnswer {
    /// The site acknowledged it.
    Accepted(LrmId),
    /// The site refused, without blaming the job.
    Refused(Arc<str>),
    /// The site never takes such a component.
    Unfit {
        /// The words of the batch system.
        detail: Arc<str>,
        /// True if another site could hold the component, as far as is known.
        fits_elsewhere: bool,
    },
    /// A limit of the site is reached, or the site does not let us in now: nobody's error.
    Full(Arc<str>),
    /// It was not sent: the site takes none of its owner's jobs for a while.
    Barred(Arc<str>),
    /// It was not sent.
    NotSent(Arc<str>),
    /// It may have arrived; it cannot take effect after this long.
    Unknown(DurationMs),
}

/// Times of an attempt by the clock of its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SiteClockTimes {
    /// The lead of that clock over ours when the site answered.
    pub clock: ClockSkew,
    /// The begin of the payload, if it has begun and the site says when.
    pub began_at: Option<Timestamp>,
    /// The time at which the batch system started it, if it has and the site says when.
    pub held_at: Option<Timestamp>,
}

/// The state of an attempt as its site shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptSighting {
    /// The site answered and knows nothing of it.
    Absent,
    /// The attempt is being started, or waits for that without being known to.
    Pending,
    /// The attempt waits in the queue of the batch system, which expects to start it at this time,
    /// by our clock, if it says so.
    Queued(Option<Timestamp>),
    /// The attempt waits at its gate, on this host.
    Ready(Arc<str>),
    /// The payload runs, on this host.
    Begun(Arc<str>),
    /// The payload exited with success.
    Succeeded,
    /// The payload ended in another way.
    Failed(Arc<str>),
    /// The gate is closed for ever; the attempt never ran.
    Void,
    /// The gate was opened when the others of the round could not be joined any more; the attempt
    /// never ran.
    TooLate,
    /// The site ended it, or kept it from running, for a reason that is nobody's error.
    Taken(Arc<str>),
    /// The attempt waits for resources that its site will never give it: nobody's error, but it
    /// must not wait there.
    NeverRuns(Arc<str>),
    /// It disappeared without a report.
    Vanished(Arc<str>),
}

/// The reason why a command changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JobRejection {
    /// It is about an attempt or a phase that is over.
    #[error("out of date")]
    Stale,
    /// The job has ended.
    #[error("the job has ended")]
    Ended,
    /// It cannot be done in the job's present state, for this reason.
    #[error("{0}")]
    Impossible(&'static str),
    /// The job is already as wanted.
    #[error("it is so already")]
    AlreadySo,
}
