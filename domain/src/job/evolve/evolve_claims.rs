//! Applies events of claiming: processors are claimed, given back and claimed again.

use super::{change_component, evolve_restarts, moved_bytes, renew_attempt};
use crate::ids::ComponentIndex;
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{Job, JobPhase};
use crate::placed::Placement;
use crate::units::Timestamp;

/// Applies an event of claiming; others change nothing.
pub(super) fn apply_claim_event(job: &mut Job, what: &JobEventKind, at: Timestamp) {
    if matches!(job.phase, JobPhase::Running { .. }) {
        evolve_restarts::apply_restart_event(job, what, at);
        return;
    }
    match what {
        JobEventKind::StartPostponed {
            start_estimate,
            next_claim,
        } => {
            postpone_start(job, *start_estimate, *next_claim);
        }
        JobEventKind::InputsArrived => record_inputs_ready(job),
        JobEventKind::ClaimBegun => {
            job.phase = JobPhase::Claiming { since: at };
            job.components
                .iter_mut()
                .for_each(|component| renew_attempt(component, at));
        }
        JobEventKind::ComponentsClaimed {
            components,
            preempting,
        } => {
            job.phase = JobPhase::Claiming { since: at };
            job.preempting.extend(preempting);
            components
                .iter()
                .for_each(|index| change_component(job, *index, |c| renew_attempt(c, at)));
        }
        JobEventKind::ComponentMoved {
            component,
            placement,
        } => {
            move_component(job, *component, placement);
        }
        JobEventKind::ClaimMissed { next_claim, .. } => {
            job.setbacks.claims += 1;
            job.next_claim = Some(*next_claim);
        }
        JobEventKind::ClaimGivenBack { component } => {
            change_component(job, *component, |c| c.given_back = true);
        }
        JobEventKind::StartDeferred {
            component,
            not_before,
        } => {
            change_component(job, *component, |c| c.not_before = Some(*not_before));
        }
        JobEventKind::ClaimReturned => {
            let instants = &job.instants;
            let start_estimate = instants.start_estimate.unwrap_or(at);
            job.phase = JobPhase::Placed {
                at: instants.placed.unwrap_or(at),
                start_estimate,
            };
        }
        _ => {}
    }
}

/// Moves a component. Its input counts as on its way until it is seen to be there.
fn move_component(job: &mut Job, index: ComponentIndex, placement: &Placement) {
    let volume = moved_bytes(std::slice::from_ref(placement));
    job.instants.transfer_volume = job.instants.transfer_volume + volume;
    job.inputs_here &= placement.sources.is_empty();
    change_component(job, index, |component| {
        component.placement = Some(placement.clone())
    });
}

/// Records that all input is there: the job need not wait for its estimated start.
fn record_inputs_ready(job: &mut Job) {
    job.inputs_here = true;
    if matches!(job.phase, JobPhase::Placed { .. }) {
        job.next_claim = None;
    }
}

fn postpone_start(job: &mut Job, estimate: Timestamp, next_claim: Timestamp) {
    job.next_claim = Some(next_claim);
    if let JobPhase::Placed { start_estimate, .. } = &mut job.phase {
        *start_estimate = estimate;
        job.instants.start_estimate = Some(estimate);
    }
}
