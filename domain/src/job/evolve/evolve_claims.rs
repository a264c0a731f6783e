//! Applies events of claiming: processors are claimed, given back and claimed again.

use super::{evolve_restarts, moved, renew, with};
use crate::ids::ComponentIndex;
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{AttemptState, Job, JobPhase};
use crate::placed::Placement;
use crate::planted_bugs::{Bug, bug};
use crate::units::Timestamp;

/// Applies an event of claiming; others change nothing.
pub(super) fn evolve(job: &mut Job, what: &JobEventKind, at: Timestamp) {
    if matches!(job.phase, JobPhase::Running { .. }) {
        evolve_restarts::evolve(job, what, at);
        return;
    }
    match what {
        JobEventKind::StartPostponed {
            start_estimate,
            next_claim,
        } => {
            postpone(job, *start_estimate, *next_claim);
        }
        JobEventKind::InputsArrived => inputs_arrived(job),
        JobEventKind::ClaimBegun => {
            job.phase = JobPhase::Claiming { since: at };
            job.components
                .iter_mut()
                .for_each(|component| renew(component, at));
        }
        JobEventKind::ComponentsClaimed {
            components,
            preempting,
        } => {
            job.phase = JobPhase::Claiming { since: at };
            job.preempting.extend(preempting);
            components
                .iter()
                .for_each(|index| with(job, *index, |c| renew(c, at)));
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
            with(job, *component, |c| {
                if bug(Bug::FreeUnended) {
                    c.run = AttemptState::Idle
                } else {
                    c.given_back = true
                }
            });
        }
        JobEventKind::StartDeferred {
            component,
            not_before,
        } => {
            with(job, *component, |c| c.not_before = Some(*not_before));
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
    let volume = moved(std::slice::from_ref(placement));
    job.instants.transfer_volume = job.instants.transfer_volume + volume;
    job.inputs_here &= placement.sources.is_empty();
    with(job, index, |component| {
        component.placement = Some(placement.clone())
    });
}

/// Records that all input is there: the job need not wait for its estimated start.
fn inputs_arrived(job: &mut Job) {
    job.inputs_here = true;
    if matches!(job.phase, JobPhase::Placed { .. }) {
        job.next_claim = None;
    }
}

fn postpone(job: &mut Job, estimate: Timestamp, next_claim: Timestamp) {
    job.next_claim = Some(next_claim);
    if let JobPhase::Placed { start_estimate, .. } = &mut job.phase {
        *start_estimate = estimate;
        job.instants.start_estimate = Some(estimate);
    }
}
