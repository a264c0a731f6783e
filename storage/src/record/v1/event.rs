//! Events of a job.

use std::sync::Arc;

use cospan_domain::ids::{KeyName, LrmId, SiteName, TargetName};
use cospan_domain::job::job_event::{self, JobEventKind};

use super::component::{Charge, Ending, PlacedBy, Placement};
use super::convert::{TextValue, wire_enum, wire_struct};
use super::job_head::{AbortCause, AfterAbort};
use super::reservation::{
    Anew, Coallocation, Failure, Outcome, ReservationWish, Split, Unreserved,
};
use super::spec::{Content, Priority};

wire_struct!(
    JobEvent = job_event::JobEvent {
        at: u64,
        what: Happened
    }
);

wire_enum!(Happened = JobEventKind {
    JobPlaced {
        round: u32,
        placements: Vec<Placement>,
        start_estimate: u64,
        by: Option<PlacedBy>,
    },
    ReservationSought {
        wanted: Coallocation,
        placements: Vec<Vec<Placement>>,
        lead: u64,
        split: Option<Split>,
    },
    ReservationAnswered { site: TextValue<SiteName>, outcome: Outcome },
    ReservationChanged { wish: Option<ReservationWish>, by: TextValue<KeyName> },
    ReservationMoveSought { wish: ReservationWish, wanted: Coallocation, by: TextValue<KeyName> },
    ReservationForwardSought {
        wanted: Coallocation,
        freed: Vec<TextValue<SiteName>>,
        anew: Option<Anew>,
    },
    ReservationMoved,
    ReservationStayed { failure: Failure, next: Option<u64> },
    UnreservedChosen { claimed: Vec<Unreserved> },
    ReservationWithheld { site: TextValue<SiteName>, most: u32, next: Option<u64> },
    StartAnnounced,
    NoticeTold { notice: u32, target: TextValue<TargetName>, problem: Option<Arc<str>> },
    ReservationForgone { failure: Failure, next: Option<u64> },
    StartPostponed { start_estimate: u64, next_claim: u64 },
    InputsArrived,
    ClaimBegun,
    ComponentsClaimed { components: Vec<u32>, preempting: Vec<u64> },
    ComponentMoved { component: u32, placement: Placement },
    ClaimMissed { next_claim: u64, detail: Arc<str> },
    ClaimGivenBack { component: u32 },
    StartDeferred { component: u32, not_before: u64 },
    WaitingAtSite { component: u32, expected_start: Option<u64> },
    ComponentFailed { component: u32, why: AbortCause, next_claim: u64 },
    ClaimReturned,
    AttemptRenewed { component: u32 },
    AttemptSubmitted { component: u32, lrm_id: TextValue<LrmId> },
    SubmissionUncertain { component: u32, settled_at: u64 },
    AttemptAbsent { component: u32, counts: bool, look_at: u64 },
    AttemptSeen { component: u32 },
    AvoidanceLapsed,
    ComponentAvoidanceLapsed { component: u32 },
    SiteAvoided { component: u32 },
    FoundUnfit { component: u32, detail: Arc<str> },
    ComponentReady { component: u32, host: Arc<str>, clock: Option<i64>, held_for: Option<u64> },
    ReadinessDoubted { component: u32 },
    GoDecided { start_at: u64, start_by: Option<u64> },
    GateOpened { component: u32 },
    ComponentBegan { component: u32, began_at: Option<u64> },
    JobStarted,
    AttemptEnded { component: u32, attempt: u32, how: Ending },
    SiteCharged { component: u32, charge: Charge },
    ChargeRecorded { component: u32 },
    PayloadsSucceeded,
    OutputFound { component: u32, output: u32, content: Content },
    OutputCollected { component: u32, output: u32 },
    OutputsSeen { component: u32 },
    RoundAborted { why: AbortCause, then: AfterAbort },
    AbortRedirected { then: AfterAbort },
    JobRequeued { not_before: u64 },
    PriorityChanged { to: Priority, by: Option<TextValue<KeyName>> },
    JobFrozen { by: TextValue<KeyName> },
    JobThawed { by: TextValue<KeyName> },
    JobHeld { reason: Arc<str> },
    JobReleased { by: TextValue<KeyName> },
    JobFinished,
    JobFailed { reason: Arc<str> },
    JobCancelled { by: TextValue<KeyName> },
    EndTold { target: TextValue<TargetName>, problem: Option<Arc<str>> },
});

impl JobEvent {
    /// Removes the sources of the input of a placed job.
    pub(crate) fn drop_input_sources(&mut self) {
        match &mut self.what {
            Happened::JobPlaced { placements, .. } => {
                for placement in placements.iter_mut() {
                    placement.sources.clear();
                }
            }
            Happened::ReservationSought { placements, .. } => {
                for placement in placements.iter_mut().flatten() {
                    placement.sources.clear();
                }
            }
            Happened::ReservationForwardSought {
                anew: Some(anew), ..
            } => {
                for placement in anew.placements.iter_mut().flatten() {
                    placement.sources.clear();
                }
            }
            _ => {}
        }
    }
}
