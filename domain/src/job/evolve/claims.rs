//! Claiming: what is claimed, given back and tried again.

use super::{moved, renew, restarts, with};
use crate::ids::ComponentIndex;
use crate::job::event::Happened;
use crate::job::state::{Job, Phase, Run};
use crate::placed::Placement;
use crate::planted::{Bug, bug};
use crate::units::Timestamp;

/// Applies an event of claiming; others change nothing.
pub(super) fn evolve(job: &mut Job, what: &Happened, at: Timestamp) {
    if matches!(job.phase, Phase::Running { .. }) {
        restarts::evolve(job, what, at);
        return;
    }
    match what {
        Happened::StartPostponed {
            start_estimate,
            next_claim,
        } => {
            postpone(job, *start_estimate, *next_claim);
        }
        Happened::InputsArrived => inputs_arrived(job),
        Happened::ClaimBegun => {
            job.phase = Phase::Claiming { since: at };
            job.components
                .iter_mut()
                .for_each(|component| renew(component, at));
        }
        Happened::ComponentsClaimed {
            components,
            preempting,
        } => {
            job.phase = Phase::Claiming { since: at };
            job.preempting.extend(preempting);
            components
                .iter()
                .for_each(|index| with(job, *index, |c| renew(c, at)));
        }
        Happened::ComponentMoved {
            component,
            placement,
        } => {
            move_component(job, *component, placement);
        }
        Happened::ClaimMissed { next_claim, .. } => {
            job.setbacks.claims += 1;
            job.next_claim = Some(*next_claim);
        }
        Happened::ClaimGivenBack { component } => {
            with(job, *component, |c| match bug(Bug::FreeUnended) {
                true => c.run = Run::Idle,
                false => c.given_back = true,
            });
        }
        Happened::StartDeferred {
            component,
            not_before,
        } => {
            with(job, *component, |c| c.not_before = Some(*not_before));
        }
        Happened::ClaimReturned => {
            let instants = &job.instants;
            let start_estimate = instants.start_estimate.unwrap_or(at);
            job.phase = Phase::Placed {
                at: instants.placed.unwrap_or(at),
                start_estimate,
            };
        }
        _ => {}
    }
}

/// Its input is taken as on its way until it is seen to be there.
fn move_component(job: &mut Job, index: ComponentIndex, placement: &Placement) {
    let volume = moved(std::slice::from_ref(placement));
    job.instants.transfer_volume = job.instants.transfer_volume + volume;
    job.inputs_here &= placement.sources.is_empty();
    with(job, index, |component| {
        component.placement = Some(placement.clone())
    });
}

/// Once all is there the job need not wait for its estimated start.
fn inputs_arrived(job: &mut Job) {
    job.inputs_here = true;
    if matches!(job.phase, Phase::Placed { .. }) {
        job.next_claim = None;
    }
}

fn postpone(job: &mut Job, estimate: Timestamp, next_claim: Timestamp) {
    job.next_claim = Some(next_claim);
    if let Phase::Placed { start_estimate, .. } = &mut job.phase {
        *start_estimate = estimate;
        job.instants.start_estimate = Some(estimate);
    }
}
