//! Applies events of components that are restarted alone while their job runs.

use super::{change_component, count_abort_cause, moved_bytes, renew_attempt};
use crate::ids::ComponentIndex;
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{
    AbortCause, AttemptState, Component, ComponentRestart, Job, RestartStep,
};
use crate::placed::Placement;
use crate::units::Timestamp;

/// Applies an event of a running job that is about restarts; others change nothing.
pub(super) fn apply_restart_event(job: &mut Job, what: &JobEventKind, at: Timestamp) {
    match what {
        JobEventKind::ComponentFailed {
            component,
            why,
            next_claim,
        } => {
            fail_component(job, *component, why, *next_claim, at);
        }
        JobEventKind::ComponentMoved {
            component,
            placement,
        } => place_component(job, *component, placement, at),
        JobEventKind::ComponentAvoidanceLapsed { component } => {
            change_component(job, *component, |component| component.avoid.clear());
        }
        JobEventKind::InputsArrived => {
            for restart in job.components.iter_mut().filter_map(|c| c.restart.as_mut()) {
                if restart.step == RestartStep::Staging {
                    restart.step = RestartStep::Staged;
                    restart.since = at;
                }
            }
        }
        JobEventKind::ComponentsClaimed { components, .. } => {
            components
                .iter()
                .for_each(|index| change_component(job, *index, |c| claim_component(c, at)));
        }
        JobEventKind::ClaimMissed { next_claim, .. } => {
            let waiting = job
                .components
                .iter_mut()
                .filter(|c| c.is_restart_claim_due(at));
            waiting
                .filter_map(|c| c.restart.as_mut())
                .for_each(|restart| {
                    restart.tries += 1;
                    restart.not_before = *next_claim;
                });
        }
        _ => {}
    }
}

fn fail_component(
    job: &mut Job,
    index: ComponentIndex,
    why: &AbortCause,
    not_before: Timestamp,
    at: Timestamp,
) {
    count_abort_cause(job, why);
    // A component that was to begin later is still not needed before its time.
    let not_before = not_before.max(job.lone_claim_time(index));
    change_component(job, index, |component| {
        let tries = component
            .restart
            .as_ref()
            .map_or(0, |restart| restart.tries + 1);
        let step = RestartStep::ToPlace;
        component.restart = Some(ComponentRestart {
            step,
            since: at,
            tries,
            not_before,
        });
        component.given_back = component.run.may_live();
        if !component.given_back {
            component.run = AttemptState::Idle;
        }
    });
}

fn place_component(job: &mut Job, index: ComponentIndex, placement: &Placement, at: Timestamp) {
    let volume = moved_bytes(std::slice::from_ref(placement));
    job.instants.transfer_volume = job.instants.transfer_volume + volume;
    change_component(job, index, |component| {
        component.placement = Some(placement.clone());
        if let Some(restart) = &mut component.restart {
            restart.step = if placement.sources.is_empty() {
                RestartStep::Staged
            } else {
                RestartStep::Staging
            };
            restart.since = at;
        }
    });
}

fn claim_component(component: &mut Component, at: Timestamp) {
    renew_attempt(component, at);
    if let Some(restart) = &mut component.restart {
        restart.since = at;
    }
}
