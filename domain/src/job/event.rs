//! What happened to a job; journalled, and kept as its history.

use std::sync::Arc;

use crate::acquire::ReservationTerms;
use crate::content::Content;
use crate::ids::{Attempt, ComponentIndex, JobId, KeyName, LrmId, Round, SiteName, TargetName};
use crate::job::spec::Priority;
use crate::job::state::{
    AbortCause, AfterAbort, Anew, AttemptEnding, JobSplit, SiteCharge, Unreserved,
};
use crate::placed::{PlacedBy, Placement};
use crate::reserve::{Coallocation, ReservationOutcome, SearchFailure};
use crate::units::{ClockSkew, DurationMs, Timestamp};

/// One event with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEvent {
    /// When it was decided.
    pub at: Timestamp,
    /// What happened.
    pub what: JobEventKind,
}

/// What happened. The submission itself is the record's beginning, not an event of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEventKind {
    /// Every component has a site; the round begins.
    JobPlaced {
        /// The round.
        round: Round,
        /// By component.
        placements: Vec<Placement>,
        /// Estimated start (JST).
        start_estimate: Timestamp,
        /// What chose them; `None` in records of before that was kept.
        by: Option<PlacedBy>,
    },
    /// Sites are asked for reservations.
    ReservationSought {
        /// What is asked for.
        wanted: Coallocation,
        /// By part, and rank of its site: where the component would go.
        placements: Vec<Vec<Placement>>,
        /// They begin so long before the start that is promised.
        lead: DurationMs,
        /// How a flexible job was divided.
        split: Option<JobSplit>,
    },
    /// A site answered a question about a reservation.
    ReservationAnswered {
        /// The site.
        site: SiteName,
        /// The answer, or what silence is taken for.
        outcome: ReservationOutcome,
    },
    /// A user wants another start, before one was promised, or none any more.
    ReservationChanged {
        /// What is wanted now; `None`: it is placed as others are.
        wish: Option<ReservationTerms>,
        /// By which key.
        by: KeyName,
    },
    /// A user wants another start than that which is promised: it is looked for, and the promise
    /// is kept until all of the job has it.
    ReservationMoveSought {
        /// What is wanted.
        wish: ReservationTerms,
        /// What is asked for.
        wanted: Coallocation,
        /// By which key.
        by: KeyName,
    },
    /// Sites have more free: an earlier start than that which is promised is looked for, or the
    /// same on fewer sites, and the promise is kept until all of the job has it.
    ReservationForwardSought {
        /// What is asked for.
        wanted: Coallocation,
        /// The sites that have more free than before.
        freed: Vec<SiteName>,
        /// The parts of a flexible job, if they are others than before.
        anew: Option<Box<Anew>>,
    },
    /// It was found: it is promised now, and what was promised before is given back.
    ReservationMoved,
    /// It was not found: the promise is what it was.
    ReservationStayed {
        /// Why.
        failure: SearchFailure,
        /// From when on a site may grant it.
        next: Option<Timestamp>,
    },
    /// Its promised start comes soon: whoever wants to know is told.
    StartAnnounced,
    /// Somebody was told of its promised start, or could not be.
    NoticeTold {
        /// Which notice.
        notice: u32,
        /// Who.
        target: TargetName,
        /// Why they could not be told; `None` if they were.
        problem: Option<Arc<str>>,
    },
    /// A site is not asked: its user holds as much there as one may.
    ReservationWithheld {
        /// The site.
        site: SiteName,
        /// Processors that the user may hold there at a time.
        most: u32,
        /// From when on it may be asked; `None`: never for so many.
        next: Option<Timestamp>,
    },
    /// No site that grants reservations could hold these: they are claimed at the start, where
    /// nothing is promised.
    UnreservedChosen {
        /// Which, and where.
        claimed: Vec<Unreserved>,
    },
    /// No reservation was granted to a job that needs none: its processors are claimed as before,
    /// and sites are asked again later.
    ReservationForgone {
        /// Why.
        failure: SearchFailure,
        /// From when on a site may grant it.
        next: Option<Timestamp>,
    },
    /// Input is late: the claim moves with it.
    StartPostponed {
        /// New estimate.
        start_estimate: Timestamp,
        /// The next claiming try.
        next_claim: Timestamp,
    },
    /// All input of the round is at its sites, whole and checked.
    InputsArrived,
    /// Processors are being claimed: an attempt of each component is to be submitted.
    ClaimBegun,
    /// Processors of some components are being claimed, or those of lower jobs with them.
    ComponentsClaimed {
        /// Which components.
        components: Vec<ComponentIndex>,
        /// Jobs that give way.
        preempting: Vec<JobId>,
    },
    /// A component that could not start at its site goes to another.
    ComponentMoved {
        /// Which.
        component: ComponentIndex,
        /// Where to.
        placement: Placement,
    },
    /// A claiming try failed; there is time for another.
    ClaimMissed {
        /// When.
        next_claim: Timestamp,
        /// What was missing.
        detail: Arc<str>,
    },
    /// A component lost its processors or gives them back; its attempt is being ended.
    ClaimGivenBack {
        /// Which.
        component: ComponentIndex,
    },
    /// A component that gave back its processors is submitted again to begin later: when those
    /// of the others that wait in queues are expected.
    StartDeferred {
        /// Which.
        component: ComponentIndex,
        /// Not before, by our clock.
        not_before: Timestamp,
    },
    /// A component waits in its site's own queue, or its site expects another start of it.
    WaitingAtSite {
        /// Which.
        component: ComponentIndex,
        /// When the site expects to start it, by our clock, if it says so.
        expected_start: Option<Timestamp>,
    },
    /// A component failed and is restarted alone; the others go on.
    ComponentFailed {
        /// Which.
        component: ComponentIndex,
        /// Why.
        why: AbortCause,
        /// No processors are looked for before.
        next_claim: Timestamp,
    },
    /// Nothing is held any more; the job waits for its next claiming try.
    ClaimReturned,
    /// A new attempt replaces one that certainly never arrived.
    AttemptRenewed {
        /// Of which component.
        component: ComponentIndex,
    },
    /// The site acknowledged a submission, or it was found there by its tag.
    AttemptSubmitted {
        /// Of which component.
        component: ComponentIndex,
        /// The number it has there.
        lrm_id: LrmId,
    },
    /// Nobody knows whether the submission arrived.
    SubmissionUncertain {
        /// Of which component.
        component: ComponentIndex,
        /// It cannot take effect after this time.
        settled_at: Timestamp,
    },
    /// The site answered that it knows nothing of the attempt.
    AttemptAbsent {
        /// Of which component.
        component: ComponentIndex,
        /// Whether the answer counts: asked after the submission had settled.
        counts: bool,
        /// Not asked again before.
        look_at: Timestamp,
    },
    /// An attempt thought absent is there after all.
    AttemptSeen {
        /// Of which component.
        component: ComponentIndex,
    },
    /// The site of a component could not take its input: it goes elsewhere, and nobody is
    /// charged.
    SiteAvoided {
        /// Of which component.
        component: ComponentIndex,
    },
    /// Sites that failed the job are avoided no longer: it waited long enough for others.
    AvoidanceLapsed,
    /// A component that is restarted alone has found no other site for so long that the
    /// sites where it failed are as good as any.
    ComponentAvoidanceLapsed {
        /// Which component.
        component: ComponentIndex,
    },
    /// A wrapper waits at its gate.
    ComponentReady {
        /// Which component.
        component: ComponentIndex,
        /// On which host.
        host: Arc<str>,
        /// How far its site's clock is ahead of ours; `None` in records of before that was kept.
        clock: Option<ClockSkew>,
        /// For how long it had held its processors by then; `None` where its site does not say so.
        held_for: Option<DurationMs>,
    },
    /// We were away: a wrapper that waited at its gate may be there no more.
    ReadinessDoubted {
        /// Of which component.
        component: ComponentIndex,
    },
    /// All are ready and all input is there: the start is decided.
    GoDecided {
        /// The common start time.
        start_at: Timestamp,
        /// No payload may begin later, by our clock; `None` in records of before that was kept.
        start_by: Option<Timestamp>,
    },
    /// A gate is open.
    GateOpened {
        /// Of which component.
        component: ComponentIndex,
    },
    /// A payload began.
    ComponentBegan {
        /// Which component.
        component: ComponentIndex,
        /// When, by its site's clock, where the site says so.
        began_at: Option<Timestamp>,
    },
    /// All payloads have begun but those that begin later.
    JobStarted,
    /// An attempt is over.
    AttemptEnded {
        /// Of which component.
        component: ComponentIndex,
        /// Which attempt.
        attempt: Attempt,
        /// How.
        how: AttemptEnding,
    },
    /// A site is charged with an error.
    SiteCharged {
        /// Of which component.
        component: ComponentIndex,
        /// What is charged.
        charge: SiteCharge,
    },
    /// The site's record has the charge.
    ChargeRecorded {
        /// Of which component.
        component: ComponentIndex,
    },
    /// All payloads succeeded.
    PayloadsSucceeded,
    /// An output was read and has this content.
    OutputFound {
        /// Of which component.
        component: ComponentIndex,
        /// Position among its outputs.
        output: u32,
        /// Its content.
        content: Content,
    },
    /// An output is where it belongs.
    OutputCollected {
        /// Of which component.
        component: ComponentIndex,
        /// Position among its outputs.
        output: u32,
    },
    /// The round is given up; all that may live of it is to be ended.
    RoundAborted {
        /// Why.
        why: AbortCause,
        /// What comes after.
        then: AfterAbort,
    },
    /// What comes after the abort changed: a cancellation came in between.
    AbortRedirected {
        /// What comes now.
        then: AfterAbort,
    },
    /// Nothing of the round lives any more; the job waits for placement again.
    JobRequeued {
        /// Not tried before.
        not_before: Timestamp,
    },
    /// Its priority was raised after failed tries, or changed by a user.
    PriorityChanged {
        /// The new class.
        to: Priority,
        /// By whom; `None` for promotion.
        by: Option<KeyName>,
    },
    /// It is not to be placed until thawed.
    JobFrozen {
        /// By which key.
        by: KeyName,
    },
    /// It may be placed again.
    JobThawed {
        /// By which key.
        by: KeyName,
    },
    /// Nothing is done for it until released.
    JobHeld {
        /// Why.
        reason: Arc<str>,
    },
    /// Work on it goes on.
    JobReleased {
        /// By which key.
        by: KeyName,
    },
    /// Done, with success.
    JobFinished,
    /// Given up.
    JobFailed {
        /// Why.
        reason: Arc<str>,
    },
    /// Cancelled; nothing of it lives, but perhaps what was abandoned.
    JobCancelled {
        /// By which key.
        by: KeyName,
    },
    /// Somebody was told that it has ended, or nobody tries to tell them any more.
    EndTold {
        /// Who.
        target: TargetName,
        /// Why they could not be told; `None` if they were.
        problem: Option<Arc<str>>,
    },
}

impl JobEventKind {
    /// The name of the only event that comes after the last change of phase.
    pub const END_TOLD: &'static str = "EndTold";

    /// Whether it is about the start that a job is promised.
    pub fn is_of_reservation(&self) -> bool {
        matches!(
            self,
            JobEventKind::ReservationSought { .. }
                | JobEventKind::ReservationAnswered { .. }
                | JobEventKind::ReservationChanged { .. }
                | JobEventKind::ReservationMoveSought { .. }
                | JobEventKind::ReservationForwardSought { .. }
                | JobEventKind::ReservationMoved
                | JobEventKind::ReservationStayed { .. }
                | JobEventKind::ReservationForgone { .. }
                | JobEventKind::UnreservedChosen { .. }
                | JobEventKind::ReservationWithheld { .. }
                | JobEventKind::StartAnnounced
                | JobEventKind::NoticeTold { .. }
        )
    }

    /// Its name in the journal, in histories and in the event stream.
    pub fn name(&self) -> &'static str {
        match self {
            JobEventKind::JobPlaced { .. } => "JobPlaced",
            JobEventKind::ReservationSought { .. } => "ReservationSought",
            JobEventKind::ReservationAnswered { .. } => "ReservationAnswered",
            JobEventKind::ReservationChanged { .. } => "ReservationChanged",
            JobEventKind::ReservationMoveSought { .. } => "ReservationMoveSought",
            JobEventKind::ReservationForwardSought { .. } => "ReservationForwardSought",
            JobEventKind::ReservationMoved => "ReservationMoved",
            JobEventKind::ReservationStayed { .. } => "ReservationStayed",
            JobEventKind::ReservationForgone { .. } => "ReservationForgone",
            JobEventKind::StartAnnounced => "StartAnnounced",
            JobEventKind::NoticeTold { .. } => "NoticeTold",
            JobEventKind::ReservationWithheld { .. } => "ReservationWithheld",
            JobEventKind::UnreservedChosen { .. } => "UnreservedChosen",
            JobEventKind::StartPostponed { .. } => "StartPostponed",
            JobEventKind::InputsArrived => "InputsArrived",
            JobEventKind::ClaimBegun => "ClaimBegun",
            JobEventKind::ComponentsClaimed { .. } => "ComponentsClaimed",
            JobEventKind::ComponentMoved { .. } => "ComponentMoved",
            JobEventKind::ClaimMissed { .. } => "ClaimMissed",
            JobEventKind::ClaimGivenBack { .. } => "ClaimGivenBack",
            JobEventKind::StartDeferred { .. } => "StartDeferred",
            JobEventKind::WaitingAtSite { .. } => "WaitingAtSite",
            JobEventKind::ComponentFailed { .. } => "ComponentFailed",
            JobEventKind::ClaimReturned => "ClaimReturned",
            JobEventKind::AttemptRenewed { .. } => "AttemptRenewed",
            JobEventKind::AttemptSubmitted { .. } => "AttemptSubmitted",
            JobEventKind::SubmissionUncertain { .. } => "SubmissionUncertain",
            JobEventKind::AttemptAbsent { .. } => "AttemptAbsent",
            JobEventKind::AttemptSeen { .. } => "AttemptSeen",
            JobEventKind::SiteAvoided { .. } => "SiteAvoided",
            JobEventKind::AvoidanceLapsed => "AvoidanceLapsed",
            JobEventKind::ComponentAvoidanceLapsed { .. } => "ComponentAvoidanceLapsed",
            JobEventKind::ComponentReady { .. } => "ComponentReady",
            JobEventKind::ReadinessDoubted { .. } => "ReadinessDoubted",
            JobEventKind::GoDecided { .. } => "GoDecided",
            JobEventKind::GateOpened { .. } => "GateOpened",
            JobEventKind::ComponentBegan { .. } => "ComponentBegan",
            JobEventKind::JobStarted => "JobStarted",
            JobEventKind::AttemptEnded { .. } => "AttemptEnded",
            JobEventKind::SiteCharged { .. } => "SiteCharged",
            JobEventKind::ChargeRecorded { .. } => "ChargeRecorded",
            JobEventKind::PayloadsSucceeded => "PayloadsSucceeded",
            JobEventKind::OutputFound { .. } => "OutputFound",
            JobEventKind::OutputCollected { .. } => "OutputCollected",
            JobEventKind::RoundAborted { .. } => "RoundAborted",
            JobEventKind::AbortRedirected { .. } => "AbortRedirected",
            JobEventKind::JobRequeued { .. } => "JobRequeued",
            JobEventKind::PriorityChanged { .. } => "PriorityChanged",
            JobEventKind::JobFrozen { .. } => "JobFrozen",
            JobEventKind::JobThawed { .. } => "JobThawed",
            JobEventKind::JobHeld { .. } => "JobHeld",
            JobEventKind::JobReleased { .. } => "JobReleased",
            JobEventKind::JobFinished => "JobFinished",
            JobEventKind::JobFailed { .. } => "JobFailed",
            JobEventKind::JobCancelled { .. } => "JobCancelled",
            JobEventKind::EndTold { .. } => JobEventKind::END_TOLD,
        }
    }
}
