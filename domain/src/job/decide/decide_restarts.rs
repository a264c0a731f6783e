//! Restarts a component alone, while the others of its job go on.

use std::sync::Arc;

use crate::claim::ClaimTry;
use crate::ids::{ComponentIndex, SiteName};
use crate::job::decide::abort;
use crate::job::decide::decision_draft::DecisionDraft;
use crate::job::job_command::{InputState, JobRejection};
use crate::job::job_due::restart_deadline;
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{
    AbortCause, AbortConsequence, AttemptEnding, AttemptState, Component, JobPhase, RestartStep,
};
use crate::runner::RestartScope;
use crate::units::{DurationMs, Timestamp};

/// Longest time between two tries to find processors for a component that is restarted.
const LONGEST_PAUSE: DurationMs = DurationMs(60_000);

/// Gives up one component and leaves the others alone, if its job runs, wants that, and may
/// try again; false if the whole round is to be given up.
pub(super) fn give_up_single_component(
    draft: &mut DecisionDraft<'_>,
    component: ComponentIndex,
    why: &AbortCause,
) -> bool {
    let job = &draft.job;
    let alone = job.spec.run.restart_scope == RestartScope::Component;
    if !alone || !matches!(job.phase, JobPhase::Running { .. }) {
        return false;
    }
    if draft.is_ending(component) {
        return true;
    }
    let next_claim = match why {
        AbortCause::ClaimLost { .. } | AbortCause::Drained { .. } => {
            next_restart_try(draft, component)
        }
        _ => match abort::decide_after_abort(draft, why) {
            AbortConsequence::Requeue { not_before } => not_before,
            AbortConsequence::Fail { .. } | AbortConsequence::Cancel { .. } => return false,
        },
    };
    draft.emit(JobEventKind::ComponentFailed {
        component,
        why: why.clone(),
        next_claim,
    });
    true
}

fn next_restart_try(draft: &DecisionDraft<'_>, component: ComponentIndex) -> Timestamp {
    let restart = draft
        .component(component)
        .and_then(|component| component.restart.as_ref());
    let tries = restart.map_or(0, |restart| restart.tries);
    let job = &draft.job;
    let parameters = draft.parameters;
    let pause = parameters.backoff_after(parameters.claim_backoff, tries + 1, job.id.0);
    draft.now + pause.min(LONGEST_PAUSE)
}

/// Performs a claiming try: places components that have no site yet, and claims those that can
/// start now.
pub(super) fn perform_restart_try(draft: &mut DecisionDraft<'_>, attempt: ClaimTry) {
    for (component, placement) in attempt.moves {
        if draft
            .component(component)
            .is_some_and(Component::awaits_restart_claim)
        {
            draft.emit(JobEventKind::ComponentMoved {
                component,
                placement,
            });
        }
    }
    let now = draft.now;
    let mut components = attempt.start;
    components.retain(|index| {
        draft
            .component(*index)
            .is_some_and(|component: &Component| {
                let restart = component.restart.as_ref();
                component.is_restart_claim_due(now)
                    && restart.is_some_and(|r| r.step == RestartStep::Staged)
            })
    });
    if !components.is_empty() {
        let preempting = attempt.preempting;
        draft.emit(JobEventKind::ComponentsClaimed {
            components,
            preempting,
        });
    }
    let waiting = draft
        .job
        .indexed_components()
        .find(|(_, component)| component.is_restart_claim_due(now));
    if let Some((component, _)) = waiting {
        let name = draft.job.component_name(component).unwrap_or_default();
        let detail = format!("no site takes component {name} now").into();
        let next_claim = next_restart_try(draft, component);
        draft.emit(JobEventKind::ClaimMissed { next_claim, detail });
    }
}

/// Handles a component that did not get its processors; `over` says how its attempt ended, if it
/// has.
pub(super) fn lose_restart_claim(
    draft: &mut DecisionDraft<'_>,
    component: ComponentIndex,
    detail: Arc<str>,
    over: Option<AttemptEnding>,
) {
    if let Some((how, state)) = over.zip(draft.component(component)) {
        let attempt = state.attempt;
        draft.emit(JobEventKind::AttemptEnded {
            component,
            attempt,
            how,
        });
    }
    abort::abort_round(draft, AbortCause::ClaimLost { component, detail });
}

/// Applies the state of the input of components that are restarted.
pub(super) fn apply_restart_inputs(draft: &mut DecisionDraft<'_>, inputs: &InputState) {
    let waiting: Vec<ComponentIndex> = draft
        .job
        .indexed_components()
        .filter(|(_, c)| {
            c.restart
                .as_ref()
                .is_some_and(|r| r.step == RestartStep::Staging)
        })
        .map(|(index, _)| index)
        .collect();
    match inputs {
        InputState::Here if !waiting.is_empty() => draft.emit(JobEventKind::InputsArrived),
        InputState::Lost {
            detail,
            components,
            at_site,
        } => {
            let concerned = waiting
                .into_iter()
                .filter(|index| components.contains(index));
            let concerned: Vec<ComponentIndex> = concerned.collect();
            if *at_site {
                concerned
                    .iter()
                    .for_each(|index| abort::avoid_site(draft, *index));
            }
            let mut concerned = concerned.into_iter();
            // One fault: the others go elsewhere with the first.
            if let Some(first) = concerned.next() {
                give_up_component(
                    draft,
                    first,
                    AbortCause::InputLost {
                        detail: detail.clone(),
                    },
                );
            }
            for component in concerned {
                give_up_component(
                    draft,
                    component,
                    AbortCause::ClaimLost {
                        component,
                        detail: detail.clone(),
                    },
                );
            }
        }
        InputState::Here | InputState::Unknown | InputState::Expected(_) => {}
    }
}

/// Places a component anew for a reason that is not its own; the round is given up instead
/// if that has been tried often enough.
fn give_up_component(draft: &mut DecisionDraft<'_>, component: ComponentIndex, why: AbortCause) {
    if matches!(draft.job.phase, JobPhase::Running { .. })
        && !give_up_single_component(draft, component, &why)
    {
        abort::abort_round(draft, why);
    }
}

/// Leaves a site that is being drained with the components that are not claimed there yet.
pub(super) fn leave_site_unclaimed(
    draft: &mut DecisionDraft<'_>,
    site: &SiteName,
) -> Result<(), JobRejection> {
    // The reservation stands, and cancelling it would end the payload that runs.
    let stays = draft.job.spec.run.restart_scope == RestartScope::Job;
    let leaving: Vec<ComponentIndex> = draft
        .job
        .indexed_components()
        .filter(|(_, component)| {
            let restart = component.restart.as_ref();
            let there = component
                .placement
                .as_ref()
                .is_some_and(|placement| placement.site == *site);
            there
                && !stays
                && matches!(component.run, AttemptState::Idle)
                && restart.is_some_and(|restart| restart.step != RestartStep::ToPlace)
        })
        .map(|(index, _)| index)
        .collect();
    if leaving.is_empty() {
        return Err(JobRejection::Stale);
    }
    for component in leaving {
        give_up_component(draft, component, AbortCause::Drained { site: site.clone() });
    }
    Ok(())
}

/// Handles components that have waited long enough.
pub(super) fn step_restarts(draft: &mut DecisionDraft<'_>) {
    for index in draft.component_indexes() {
        let Some(component) = draft.component(index) else {
            return;
        };
        let Some(ends) = restart_deadline(component, draft.parameters) else {
            continue;
        };
        if !draft.is_deadline_over(ends) {
            continue;
        }
        let detail = match component.run {
            AttemptState::Idle => {
                draft.emit(JobEventKind::ComponentAvoidanceLapsed { component: index });
                continue;
            }
            AttemptState::Opened { .. } => {
                handle_missed_start(draft, index, ends);
                continue;
            }
            AttemptState::AtGate { .. } => "its gate could not be opened in time",
            _ => "its processors were not had in time",
        };
        abort::abort_round(
            draft,
            AbortCause::ClaimLost {
                component: index,
                detail: detail.into(),
            },
        );
    }
}

/// Handles a component that did not begin although its gate was opened: as at the start of a job,
/// its site's fault unless the server was not running to see it begin.
fn handle_missed_start(draft: &mut DecisionDraft<'_>, component: ComponentIndex, ends: Timestamp) {
    if draft.now < ends + draft.parameters.go_grace {
        abort::charge_component_site(
            draft,
            component,
            "did not begin after its gate was opened".into(),
        );
    }
    abort::abort_round(draft, AbortCause::StartMissed { component });
}
