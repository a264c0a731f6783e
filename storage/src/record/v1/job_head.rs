//! The head of a job: all of its state but specification and components.

use std::sync::Arc;

use cospan_domain::boxed_default::BoxedUnlessDefault;
use cospan_domain::ids::Round;
use cospan_domain::ids::{Digest, IdempotencyKey, KeyName, SiteName, TargetName};
use cospan_domain::job::job_state::{
    self, AbortCause as DomainAbortCause, AbortConsequence, Component, Job, JobPhase,
};
use cospan_domain::{ids::JobId, job::spec::JobSpec};

use super::component::PlacedBy;
use super::convert::{
    RecordProblem, TextValue, WireConversion, is_default, wire_enum, wire_struct,
};
use super::reservation::{Reservation, Wish};
use super::spec::Priority;

/// The head. `components` is their number; they are in blocks of their own.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct StoredJobHead {
    owner: TextValue<KeyName>,
    submitted_at: u64,
    priority: Priority,
    phase: Phase,
    pub(crate) revision: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) components: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    round: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    inputs_here: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    start_at: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    idempotency: Option<Idempotency>,
    #[serde(default, skip_serializing_if = "is_default")]
    frozen_by: Option<TextValue<KeyName>>,
    #[serde(default, skip_serializing_if = "is_default")]
    held: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "is_default")]
    setbacks: Setbacks,
    #[serde(default, skip_serializing_if = "is_default")]
    next_claim: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    preempting: Vec<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    promoted: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    instants: Instants,
    #[serde(default, skip_serializing_if = "is_default")]
    placed_by: Option<PlacedBy>,
    #[serde(default, skip_serializing_if = "is_default")]
    reservation: Option<Reservation>,
    #[serde(default, skip_serializing_if = "is_default")]
    wish: Option<Wish>,
    #[serde(default, skip_serializing_if = "is_default")]
    told: Vec<TextValue<TargetName>>,
}

impl StoredJobHead {
    /// Makes the head of a job.
    pub(crate) fn from_job(job: &Job) -> Self {
        Self {
            owner: job.owner.to_wire(),
            submitted_at: job.submitted_at.to_wire(),
            priority: job.priority.to_wire(),
            phase: job.phase.to_wire(),
            revision: job.revision,
            components: job.components.len() as u32,
            round: job.round.to_wire(),
            inputs_here: job.inputs_here,
            start_at: job.start_at.to_wire(),
            idempotency: job.idempotency.to_wire(),
            frozen_by: job.frozen_by.to_wire(),
            held: job.held.to_wire(),
            setbacks: job.setbacks.to_wire(),
            next_claim: job.next_claim.to_wire(),
            preempting: job.preempting.to_wire(),
            promoted: job.promoted,
            instants: job.instants.to_wire(),
            placed_by: job.placed_by.to_wire(),
            reservation: job.reservation.to_wire(),
            wish: Some(job.wish.to_wire()).filter(|wish| *wish != Wish::AsSubmitted),
            told: job.told.to_wire(),
        }
    }

    /// Builds the job with its other parts.
    pub(crate) fn into_job(
        self,
        id: JobId,
        spec: Arc<JobSpec>,
        components: Vec<Component>,
    ) -> Result<Job, RecordProblem> {
        Ok(Job {
            id,
            spec,
            components,
            owner: WireConversion::from_wire(self.owner)?,
            idempotency: WireConversion::from_wire(self.idempotency)?,
            submitted_at: WireConversion::from_wire(self.submitted_at)?,
            priority: WireConversion::from_wire(self.priority)?,
            frozen_by: WireConversion::from_wire(self.frozen_by)?,
            held: self.held,
            phase: WireConversion::from_wire(self.phase)?,
            round: Round(self.round),
            inputs_here: self.inputs_here,
            start_at: WireConversion::from_wire(self.start_at)?,
            setbacks: WireConversion::from_wire(self.setbacks)?,
            next_claim: WireConversion::from_wire(self.next_claim)?,
            preempting: WireConversion::from_wire(self.preempting)?,
            promoted: self.promoted,
            instants: WireConversion::from_wire(self.instants)?,
            placed_by: WireConversion::from_wire(self.placed_by)?,
            reservation: WireConversion::from_wire(self.reservation)?,
            wish: WireConversion::from_wire(self.wish.unwrap_or(Wish::AsSubmitted))?,
            told: WireConversion::from_wire(self.told)?,
            revision: self.revision,
        })
    }
}

wire_struct!(Idempotency = job_state::SubmissionIdempotency { key: TextValue<IdempotencyKey>, body: TextValue<Digest> });

wire_enum!(Phase = JobPhase {
    Queued { since: u64, not_before: u64 },
    Placed { at: u64, start_estimate: u64 },
    Claiming { since: u64 },
    Starting { since: u64 },
    Running { since: u64 },
    Collecting { since: u64 },
    Aborting { since: u64, why: AbortCause, then: AfterAbort },
    Finished { at: u64 },
    Failed { at: u64, reason: Arc<str> },
    Cancelled { at: u64, by: TextValue<KeyName> },
});

wire_enum!(AbortCause = DomainAbortCause {
    ClaimLost { component: u32, detail: Arc<str> },
    InputLost { detail: Arc<str> },
    SiteError { component: u32, detail: Arc<str> },
    StartMissed { component: u32 },
    Unreachable { component: u32 },
    Application { component: u32, detail: Arc<str> },
    Cancelled,
    Preempted { by: u64 },
    Drained { site: TextValue<SiteName> },
    Barred { component: u32, detail: Arc<str> },
    Unfit { component: u32, detail: Arc<str>, fits_elsewhere: bool },
    ReservationChanged { by: TextValue<KeyName> },
});

wire_enum!(AfterAbort = AbortConsequence {
    Requeue { not_before: u64 },
    Fail { reason: Arc<str> },
    Cancel { by: TextValue<KeyName> },
});

#[rustfmt::skip]
wire_struct!(Setbacks = job_state::SetbackCounts {
    ; claims: u32, rounds: u32, site_errors: u32, own_errors: u32, inputs: u32,
    missed_starts: u32, preemptions: u32, incidents: u32,
});

wire_struct!(Instants = job_state::JobInstants {
    ;
    first_placed: Option<u64>,
    placed: Option<u64>,
    first_start_estimate: Option<u64>,
    start_estimate: Option<u64>,
    claimed: Option<u64>,
    started: Option<u64>,
    succeeded: Option<u64>,
    placement_time: u64,
    total_placement_time: u64,
    gained_processor_ms: u64,
    wasted_processor_ms: u64,
    wasted_in_round_ms: u64,
    transfer_volume: u64,
});

impl WireConversion<Instants> for BoxedUnlessDefault<job_state::JobInstants> {
    fn to_wire(&self) -> Instants {
        (**self).to_wire()
    }

    fn from_wire(wire: Instants) -> Result<Self, RecordProblem> {
        Ok(job_state::JobInstants::from_wire(wire)?.into())
    }
}

impl Default for Setbacks {
    fn default() -> Self {
        job_state::SetbackCounts::default().to_wire()
    }
}

impl Default for Instants {
    fn default() -> Self {
        job_state::JobInstants::default().to_wire()
    }
}
