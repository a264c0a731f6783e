//! Events of a job; journalled, and kept as its history.

use std::sync::Arc;

use crate::acquisition::ReservationTerms;
use crate::content::Content;
use crate::ids::{Attempt, ComponentIndex, JobId, KeyName, LrmId, Round, SiteName, TargetName};
use crate::job::job_state::{
    AbortCause, AbortConsequence, AlternativeDivision, AttemptEnding, JobDivision, SiteCharge,
    UnreservedComponent,
};
use crate::job::spec::Priority;
use crate::placed::{Placement, PlacementOrigin};
use crate::reservation::{Coallocation, ReservationOutcome, ReservationSearchFailure};
use crate::units::{ClockSkew, DurationMs, Timestamp};

/// An event of a job with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEvent {
    pub at: Timestamp,
    pub what: JobEventKind,
}

/// The kind of an event. The submission itself is the record's beginning, not an event of it.
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
        /// The policy that chose them; `None` in older records.
        by: Option<PlacementOrigin>,
    },
    /// Reservations are requested of sites.
    ReservationSought {
        /// The request.
        wanted: Coallocation,
        /// By part, and rank of its site: the placement of the component.
        placements: Vec<Vec<Placement>>,
        /// The time by which reservations begin before the reserved start.
        lead: DurationMs,
        /// The division of a flexible job.
        split: Option<JobDivision>,
    },
    /// A site answered a call about a reservation.
    ReservationAnswered {
        /// The site.
        site: SiteName,
        /// The answer, or the outcome that silence is taken for.
        outcome: ReservationOutcome,
    },
    /// A user wants another start, before any was reserved, or no reservation any more.
    ReservationChanged {
        /// The new terms; `None`: it is placed as others are.
        wish: Option<ReservationTerms>,
        /// The key that asked for it.
        by: KeyName,
    },
    /// A user wants another start than the reserved one: it is requested, and the present
    /// reservations stay until the new ones are confirmed for all of the job.
    ReservationMoveSought {
        /// The new terms.
        wish: ReservationTerms,
        /// The request.
        wanted: Coallocation,
        /// The key that asked for it.
        by: KeyName,
    },
    /// Sites have more free: an earlier start than the reserved one is requested, or the same on
    /// fewer sites, and the present reservations stay until the new ones are confirmed for all of
    /// the job.
    ReservationForwardSought {
        /// The request.
        wanted: Coallocation,
        /// Sites that have more free than before.
        freed: Vec<SiteName>,
        /// The new parts of a flexible job, if they differ from the present ones.
        anew: Option<Box<AlternativeDivision>>,
    },
    /// The new reservations are confirmed and take the place of the old ones, which are cancelled.
    ReservationMoved,
    /// The new reservations were not to be had: the old ones stay.
    ReservationStayed {
        failure: ReservationSearchFailure,
        /// The earliest time at which a site may grant it.
        next: Option<Timestamp>,
    },
    /// The reserved start comes soon: receivers who asked for it get a message.
    StartAnnounced,
    /// A message about its reserved start was delivered, or given up.
    NoticeTold {
        /// The number of the notice.
        notice: u32,
        /// The receiver of the message.
        target: TargetName,
        /// The reason why it could not be delivered; `None` if it was.
        problem: Option<Arc<str>>,
    },
    /// A site is not asked: its user may reserve no more processors there.
    ReservationWithheld {
        /// The site.
        site: SiteName,
        /// The most processors that the user may reserve there at a time.
        most: u32,
        /// The earliest time at which it may be asked; `None`: never for so many.
        next: Option<Timestamp>,
    },
    /// No site that grants reservations can take these components: they are claimed at the start,
    /// without a reservation.
    UnreservedChosen {
        /// The components, with their placements.
        claimed: Vec<UnreservedComponent>,
    },
    /// No site granted a reservation to a job that can do without: its processors are claimed as
    /// before, and sites are asked again later.
    ReservationForgone {
        failure: ReservationSearchFailure,
        /// The earliest time at which a site may grant it.
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
    /// Processors of some components are being claimed, perhaps with those of jobs that give way.
    ComponentsClaimed {
        components: Vec<ComponentIndex>,
        /// Jobs that give way.
        preempting: Vec<JobId>,
    },
    /// A component that could not start at its site goes to another.
    ComponentMoved {
        component: ComponentIndex,
        /// The new placement.
        placement: Placement,
    },
    /// A claiming try failed; there is time for another.
    ClaimMissed {
        /// The time of the next claiming try.
        next_claim: Timestamp,
        /// The reason, for people.
        detail: Arc<str>,
    },
    /// A component lost its processors or gives them back; its attempt is being ended.
    ClaimGivenBack { component: ComponentIndex },
    /// A component that gave back its processors is submitted again to begin later: when the other
    /// components that wait in queues are expected.
    StartDeferred {
        component: ComponentIndex,
        /// The earliest time at which it may begin, by our clock.
        not_before: Timestamp,
    },
    /// A component waits in its site's own queue, or its site now expects another start for it.
    WaitingAtSite {
        component: ComponentIndex,
        /// The start that the site expects, by our clock, if it says so.
        expected_start: Option<Timestamp>,
    },
    /// A component failed and is restarted alone; the others go on.
    ComponentFailed {
        component: ComponentIndex,
        why: AbortCause,
        /// The earliest time at which processors are claimed for it.
        next_claim: Timestamp,
    },
    /// All claimed processors are given back; the job waits for its next claiming try.
    ClaimReturned,
    /// A new attempt replaces one that certainly never arrived.
    AttemptRenewed { component: ComponentIndex },
    /// The site acknowledged a submission, or it was found there by its tag.
    AttemptSubmitted {
        component: ComponentIndex,
        /// The number that the batch system gave it.
        lrm_id: LrmId,
    },
    /// Nobody knows whether the submission arrived.
    SubmissionUncertain {
        component: ComponentIndex,
        /// The time after which it cannot take effect.
        settled_at: Timestamp,
    },
    /// The site answered that it knows nothing of the attempt.
    AttemptAbsent {
        component: ComponentIndex,
        /// True if the answer counts: the site was asked after the submission had settled.
        counts: bool,
        /// The earliest time of the next look-up.
        look_at: Timestamp,
    },
    /// An attempt that seemed absent is at its site after all.
    AttemptSeen { component: ComponentIndex },
    /// The site of a component could not take its input: it goes elsewhere, and nobody is
    /// charged.
    SiteAvoided { component: ComponentIndex },
    /// The batch system of a component's site refused what the component asks for: it is not placed
    /// there again.
    FoundUnfit {
        component: ComponentIndex,
        /// The words of the batch system.
        detail: Arc<str>,
    },
    /// Sites that failed the job are no longer avoided: it waited long enough for others.
    AvoidanceLapsed,
    /// A component that is restarted alone has found no other site for so long that the
    /// sites where it failed are as good as any.
    ComponentAvoidanceLapsed { component: ComponentIndex },
    /// A wrapper waits at its gate.
    ComponentReady {
        component: ComponentIndex,
        /// The host of the wrapper.
        host: Arc<str>,
        /// The lead of its site's clock over ours; `None` in older records.
        clock: Option<ClockSkew>,
        /// The time for which it had held its processors by then; `None` where its site does not
        /// say so.
        held_for: Option<DurationMs>,
    },
    /// The server was down: a wrapper that waited at its gate may no longer be there.
    ReadinessDoubted { component: ComponentIndex },
    /// All components are ready and all input is there: the start is decided.
    GoDecided {
        /// The common start time.
        start_at: Timestamp,
        /// The latest time at which a payload may begin, by our clock; `None` in older records.
        start_by: Option<Timestamp>,
    },
    /// A gate is open.
    GateOpened { component: ComponentIndex },
    /// A payload began.
    ComponentBegan {
        component: ComponentIndex,
        /// The begin by its site's clock, where the site reports it.
        began_at: Option<Timestamp>,
    },
    /// All payloads have begun, except those that begin later.
    JobStarted,
    /// An attempt is over.
    AttemptEnded {
        component: ComponentIndex,
        attempt: Attempt,
        how: AttemptEnding,
    },
    /// A site is charged with an error.
    SiteCharged {
        component: ComponentIndex,
        charge: SiteCharge,
    },
    /// The site has recorded the charge.
    ChargeRecorded { component: ComponentIndex },
    /// All payloads succeeded.
    PayloadsSucceeded,
    /// An output was read and has this content.
    OutputFound {
        component: ComponentIndex,
        /// Position among its outputs.
        output: u32,
        content: Content,
    },
    /// An output is where it belongs.
    OutputCollected {
        component: ComponentIndex,
        /// Position among its outputs.
        output: u32,
    },
    /// All outputs of a component that stay where they were made are there.
    OutputsSeen { component: ComponentIndex },
    /// The round is aborted; all attempts of it that may live are to be ended.
    RoundAborted {
        why: AbortCause,
        /// The fate of the job once nothing of the round lives.
        then: AbortConsequence,
    },
    /// The fate of the job after the abort changed: a cancellation came in between.
    AbortRedirected {
        /// The new fate of the job.
        then: AbortConsequence,
    },
    /// Nothing of the round lives any more; the job waits for placement again.
    JobRequeued {
        /// No placement is tried before this time.
        not_before: Timestamp,
    },
    /// The priority was raised after failed tries, or changed by a user.
    PriorityChanged {
        /// The new priority.
        to: Priority,
        /// The key of the user; `None` for promotion.
        by: Option<KeyName>,
    },
    /// A user froze it: it is not placed until it is thawed.
    JobFrozen {
        /// The key that asked for it.
        by: KeyName,
    },
    /// A user thawed it: it may be placed again.
    JobThawed {
        /// The key that asked for it.
        by: KeyName,
    },
    /// It is held: nothing is done for it until it is released.
    JobHeld { reason: Arc<str> },
    /// It was released: work on it goes on.
    JobReleased {
        /// The key that asked for it.
        by: KeyName,
    },
    /// The job succeeded.
    JobFinished,
    /// The job failed.
    JobFailed { reason: Arc<str> },
    /// The job was cancelled; nothing of it lives, except perhaps abandoned attempts.
    JobCancelled {
        /// The key that asked for it.
        by: KeyName,
    },
    /// A message that the job has ended was delivered, or given up.
    EndTold {
        /// The receiver of the message.
        target: TargetName,
        /// The reason why it could not be delivered; `None` if it was.
        problem: Option<Arc<str>>,
    },
}

impl JobEventKind {
    /// The name of the only event that comes after the last change of phase.
    pub const END_TOLD: &'static str = "EndTold";

    /// Returns true if it is about the reservations of a job.
    pub fn is_about_reservations(&self) -> bool {
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

    /// Returns its name in the journal, in histories and in the event stream.
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
            JobEventKind::FoundUnfit { .. } => "FoundUnfit",
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
            JobEventKind::OutputsSeen { .. } => "OutputsSeen",
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
