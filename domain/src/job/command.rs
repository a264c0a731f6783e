//! What can be asked of a job, and what the shell tells it.

use std::collections::BTreeSet;
use std::sync::Arc;

use thiserror::Error;

use crate::acquire::ReservationTerms;
use crate::claim::ClaimTry;
use crate::content::Content;
use crate::ids::{Attempt, ComponentIndex, JobId, KeyName, LrmId, SiteName, TargetName};
use crate::job::spec::Priority;
use crate::placed::{PlacedBy, Placement};
use crate::reserve::flexco::{FlexPlan, PartsPlan};
use crate::reserve::{Ranking, ReservationOutcome, Serial};
use crate::units::{ClockSkew, DurationMs, Timestamp};

/// A command to one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobCommand {
    /// The job's actor was rebuilt: what was under way may or may not have happened.
    Recover {
        /// By component: how long a submission may still take effect at its site.
        settle: Vec<DurationMs>,
    },
    /// The co-allocator found a site for every component.
    Place {
        /// By component.
        placements: Vec<Placement>,
        /// What chose them; `None` where nobody keeps that.
        by: Option<PlacedBy>,
    },
    /// It wants a reservation: these sites may be asked, the best first.
    Reserve {
        /// By component: where it would go.
        candidates: Vec<Vec<Placement>>,
        /// By component: where it would go that grants no reservations; nothing if it is not to.
        unreserved: Vec<Vec<Placement>>,
        /// By component: how the sites were put in order, if the job says by what.
        rankings: Vec<Ranking>,
        /// What was to be promised to it when that was found.
        wish: Option<ReservationTerms>,
    },
    /// It is flexible and wants a reservation: sites could hold these parts of it.
    Divide {
        /// When its reservations would begin, in which shape, and how much at which site. If it
        /// begins later than is accepted, sites are asked when they would grant it.
        plan: FlexPlan,
        /// By part: where it would go.
        placements: Vec<Placement>,
        /// What was to be promised to it when that was found.
        wish: Option<ReservationTerms>,
    },
    /// A site answered a question about a reservation.
    ReservationAnswered {
        /// Which question.
        question: u32,
        /// The answer.
        outcome: ReservationOutcome,
    },
    /// The site is not asked: its user may hold only so many processors there at a time.
    WithholdReservation {
        /// Which question.
        question: u32,
        /// So many.
        most: u32,
        /// From when on it may be asked; `None`: never for what is wanted.
        next: Option<Timestamp>,
    },
    /// There is no place for it, now or later: within the reservation that it named, or for a
    /// flexible job at any site that would promise it a start.
    LoseReservation {
        /// Why, for people.
        reason: Arc<str>,
        /// What was to be promised to it when that was found.
        wish: Option<ReservationTerms>,
    },
    /// A site does not hold what it promised to one of its components any more.
    ReservationGone {
        /// The site.
        site: SiteName,
        /// Of which reservation.
        serial: Serial,
    },
    /// A user wants another start to be promised, or none any more.
    ChangeReservation {
        /// What is wanted; `None`: nothing.
        wish: Option<ReservationTerms>,
        /// Who.
        by: KeyName,
    },
    /// It could start earlier than it is promised, or on fewer sites.
    BringForward {
        /// When its reservations would begin, and by part of them at which site.
        plan: PartsPlan,
        /// The sites that have more free than before.
        freed: Vec<SiteName>,
    },
    /// It is flexible, and could be complete earlier than is promised, or as early on fewer sites.
    DivideAnew {
        /// When its reservations would begin, in which shape, and how much at which site.
        plan: FlexPlan,
        /// By part: where it would go.
        placements: Vec<Placement>,
        /// The sites that have more free than before.
        freed: Vec<SiteName>,
    },
    /// Look at the clock, and at what others know.
    Look(ExternalState),
    /// It is time to claim processors: what the claimer found, and what others know.
    Claim(ClaimTry, ExternalState),
    /// A job of a higher class takes the processors.
    Preempt {
        /// Which job.
        by: JobId,
    },
    /// A submission was answered.
    SubmitAnswered {
        /// Of which component.
        component: ComponentIndex,
        /// Of which attempt.
        attempt: Attempt,
        /// The answer.
        answer: SubmitAnswer,
    },
    /// A look-up by tag was answered.
    LookUpAnswered {
        /// Of which component.
        component: ComponentIndex,
        /// Of which attempt.
        attempt: Attempt,
        /// When it was asked.
        asked_at: Timestamp,
        /// The number under which it was found.
        found: Option<LrmId>,
    },
    /// The site's status speaks of an attempt.
    AttemptObserved {
        /// Of which component.
        component: ComponentIndex,
        /// Of which attempt.
        attempt: Attempt,
        /// When the site was asked.
        asked_at: Timestamp,
        /// What the site's clock said.
        times: SiteTimes,
        /// What it is doing.
        sighting: Sighting,
    },
    /// A gate was decided.
    GateAnswered {
        /// Of which component.
        component: ComponentIndex,
        /// Of which attempt.
        attempt: Attempt,
        /// It is open; else it had been closed for ever.
        open: bool,
    },
    /// The site's record has the charge.
    ChargeRecorded {
        /// Of which component.
        component: ComponentIndex,
        /// Of which attempt.
        attempt: Attempt,
    },
    /// An output was read.
    OutputRead {
        /// Of which component.
        component: ComponentIndex,
        /// Position among its outputs.
        output: u32,
        /// Its content, or why the site says that there is none.
        content: Result<Content, Arc<str>>,
    },
    /// An output is at its site, and the catalogue knows it.
    OutputRegistered {
        /// Of which component.
        component: ComponentIndex,
        /// Position among its outputs.
        output: u32,
    },
    /// Enough placement tries failed: one class up.
    Promote {
        /// The class above the one in which they were counted.
        to: Priority,
    },
    /// Too many placement tries failed.
    GiveUpPlacement {
        /// How many tries it had.
        tries: u32,
    },
    /// An operator empties this site: leave it, if no payload has begun.
    LeaveSite(SiteName),
    /// A user changes its class.
    SetPriority(Priority, KeyName),
    /// A user does not want it placed.
    Freeze(KeyName),
    /// A user wants it placed again.
    Thaw(KeyName),
    /// A user does not want it any more.
    Cancel(KeyName),
    /// A user does not want it any more, and gives up what may still run of it at sites
    /// from which nothing is heard. Nothing of it is ever placed again.
    Abandon {
        /// Who.
        by: KeyName,
        /// Those sites.
        silent: BTreeSet<SiteName>,
    },
    /// Somebody was told that it has ended, or nobody tries to tell them any more.
    EndTold {
        /// Who.
        target: TargetName,
        /// Why they could not be told; `None` if they were.
        problem: Option<Arc<str>>,
    },
    /// Somebody was told of its promised start, or nobody tries to tell them any more.
    NoticeTold {
        /// Which notice.
        notice: u32,
        /// Who.
        target: TargetName,
        /// Why they could not be told; `None` if they were.
        problem: Option<Arc<str>>,
    },
    /// It made an actor panic again and again.
    Hold(Arc<str>),
    /// An operator lets it go on.
    Release(KeyName),
}

/// What others know that a job depends on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExternalState {
    /// How its input is doing.
    pub inputs: Inputs,
    /// Components whose site does not answer, and since when.
    pub unreachable: Vec<(ComponentIndex, Timestamp)>,
    /// Components whose site is no longer in the configuration, and since when we run without it.
    pub removed: Vec<(ComponentIndex, Timestamp)>,
    /// A component that waits for processors of a job that waits for ours, and that job,
    /// which was submitted earlier.
    pub yields: Option<(ComponentIndex, JobId)>,
    /// Outputs that cannot be brought to their sites.
    pub stranded: Vec<Stranded>,
}

/// An output that its site does not take: of which component, its position, and why.
pub type Stranded = (ComponentIndex, u32, Arc<str>);

/// How the input of a round is doing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Inputs {
    /// Nothing is known yet.
    #[default]
    Unknown,
    /// All there.
    Here,
    /// On the way.
    Expected(Timestamp),
    /// Some cannot be brought: every replica failed, or the destination does.
    Lost {
        /// Why.
        detail: Arc<str>,
        /// Components that need what is lost.
        components: Vec<ComponentIndex>,
        /// It is their site that cannot take it.
        at_site: bool,
    },
}

/// How a site answered a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmitAnswer {
    /// Acknowledged.
    Accepted(LrmId),
    /// The site said no, without blaming the job.
    Refused(Arc<str>),
    /// The site never takes such a component.
    Unfit(Arc<str>),
    /// A limit of the site is reached, or it does not let us in now: nobody's error.
    Full(Arc<str>),
    /// It never left, as the site takes none of its owner's jobs for a while.
    Barred(Arc<str>),
    /// It never left.
    NotSent(Arc<str>),
    /// Perhaps it arrived; it cannot take effect after this long.
    Unknown(DurationMs),
}

/// Times of an attempt by the clock of its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SiteTimes {
    /// How far that clock was ahead of ours when the site answered.
    pub clock: ClockSkew,
    /// When the payload began, if it has and the site says so.
    pub began_at: Option<Timestamp>,
    /// When the batch system started it, if it has and the site says so.
    pub held_at: Option<Timestamp>,
}

/// What a site's status says of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sighting {
    /// The site answered and knows nothing of it.
    Absent,
    /// Is being started, or waits for that without being known to.
    Pending,
    /// Waits in the resource manager's queue, which expects to start it at this time, by our
    /// clock, if it says so.
    Queued(Option<Timestamp>),
    /// Waits at its gate.
    Ready(Arc<str>),
    /// Its payload runs.
    Begun(Arc<str>),
    /// Its payload exited with success.
    Succeeded,
    /// Its payload ended in another way.
    Failed(Arc<str>),
    /// Its gate is closed for ever; it never ran.
    Void,
    /// Its gate was opened when the others of its round could not be joined any more; it never
    /// ran.
    TooLate,
    /// Its site ended it, or kept it from running, for a reason that is nobody's error.
    Taken(Arc<str>),
    /// Waits for what its site never will give it: nobody's error, and no place to wait.
    NeverRuns(Arc<str>),
    /// Lost without a word.
    Vanished(Arc<str>),
}

/// Why a command changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JobRejection {
    /// It speaks of an attempt or a phase that is over.
    #[error("out of date")]
    Stale,
    /// The job has ended.
    #[error("the job has ended")]
    Ended,
    /// It cannot be done as the job stands, for this reason.
    #[error("{0}")]
    Impossible(&'static str),
    /// It is so already.
    #[error("it is so already")]
    AlreadySo,
}
