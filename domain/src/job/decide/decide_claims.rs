//! Claims processors, handles their loss, and tries again before the estimated start (KOALA,
//! section 4.5).

use std::sync::Arc;

use crate::claim::ClaimTry;
use crate::ids::{ComponentIndex, JobId};
use crate::job::decide::decision_draft::DecisionDraft;
use crate::job::decide::{abort, decide_restarts, queued_at_site, round_progress};
use crate::job::job_command::{InputState, JobRejection, JobSurroundings};
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{AbortCause, AttemptEnding, AttemptState, JobPhase};
use crate::units::{DurationMs, PerMillion, Timestamp};

/// Performs a claiming try, if it is still due after the state of others was applied.
pub(super) fn try_claim(
    draft: &mut DecisionDraft<'_>,
    attempt: ClaimTry,
    external: &JobSurroundings,
) -> Result<(), JobRejection> {
    let mut components = attempt
        .start
        .iter()
        .chain(attempt.moves.iter().map(|(index, _)| index));
    if attempt.round != draft.job.round
        || !components.all(|index: &ComponentIndex| {
            let component = draft.job.components.get(index.0 as usize);
            component.is_some_and(|component| matches!(component.run, AttemptState::Idle))
        })
    {
        return Err(JobRejection::Stale);
    }
    // The try was planned on an older state: the input that it saw may be that of another site than
    // the one to which a restarted component goes by now.
    match draft.job.phase {
        JobPhase::Running { .. } => {
            round_progress::apply_external_state(
                draft,
                &JobSurroundings {
                    inputs: InputState::Unknown,
                    ..external.clone()
                },
            )?;
        }
        _ => round_progress::apply_external_state(draft, external)?,
    }
    match draft.job.next_claim_time(draft.parameters) {
        Some(planned) if planned > draft.now => {}
        Some(_) if matches!(draft.job.phase, JobPhase::Running { .. }) => {
            decide_restarts::perform_restart_try(draft, attempt);
        }
        Some(planned) => perform_claim_try(draft, attempt, planned),
        None => {}
    }
    Ok(())
}

fn perform_claim_try(draft: &mut DecisionDraft<'_>, attempt: ClaimTry, planned: Timestamp) {
    let whole = attempt.start.len() == draft.job.unclaimed_components().count();
    let next = next_claim_try(draft, planned);
    // Nothing is started that would be given back at once.
    if whole || (next.is_some() && !attempt.start.is_empty()) {
        for (component, placement) in attempt.moves {
            draft.emit(JobEventKind::ComponentMoved {
                component,
                placement,
            });
        }
        let all = attempt.start.len() == draft.job.components.len();
        draft.emit(if all && attempt.preempting.is_empty() {
            JobEventKind::ClaimBegun
        } else {
            JobEventKind::ComponentsClaimed {
                components: attempt.start,
                preempting: attempt.preempting,
            }
        });
    }
    let unclaimed = draft.job.unclaimed_components().next();
    if let Some(component) = unclaimed {
        let detail = format!(
            "component {} could not start at its site",
            component_name(draft, component)
        );
        miss_claim(draft, component, next, detail.into());
    }
}

fn component_name(draft: &DecisionDraft<'_>, component: ComponentIndex) -> String {
    draft.job.component_name(component).unwrap_or_default()
}

/// Returns the time of the try after one that was planned for `planned`; `None` if the round is
/// lost.
fn next_claim_try(draft: &DecisionDraft<'_>, planned: Timestamp) -> Option<Timestamp> {
    let claims = draft.job.setbacks.claims;
    let max = draft
        .job
        .spec
        .max_claim_tries
        .or(draft.parameters.claim.max_claim_tries);
    let schedule = draft.job.claim_schedule(&draft.parameters.claim)?;
    let next = schedule.next_try_time(planned, draft.now)?;
    // A job whose input is there has no reason to wait for a start that was estimated far too late.
    let soon = draft.now + draft.parameters.backoff_max;
    let next = if draft.job.inputs_here {
        next.min(soon)
    } else {
        next
    };
    max.is_none_or(|max| claims < max).then_some(next)
}

fn miss_claim(
    draft: &mut DecisionDraft<'_>,
    component: ComponentIndex,
    next: Option<Timestamp>,
    detail: Arc<str>,
) {
    match next {
        Some(next_claim) => draft.emit(JobEventKind::ClaimMissed { next_claim, detail }),
        None => abort::abort_round(draft, AbortCause::ClaimLost { component, detail }),
    }
}

/// Handles a component that lost the processors that were claimed for it. With T = 1 all components
/// give theirs back; else the others keep theirs. `over` says how its attempt ended, if it has.
pub(super) fn lose_claim(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    detail: Arc<str>,
    over: Option<AttemptEnding>,
) {
    if matches!(draft.job.phase, JobPhase::Running { .. }) {
        decide_restarts::lose_restart_claim(draft, index, detail, over);
        return;
    }
    if queued_at_site::resubmit_alone(draft, index, &detail, over.as_ref()) {
        return;
    }
    let claiming = matches!(draft.job.phase, JobPhase::Claiming { .. });
    let lives = draft.job.components[index.0 as usize].run.may_live();
    let next = next_claim_try(draft, draft.now).filter(|_| claiming && lives);
    let atomic = draft.job.claim_threshold(&draft.parameters.claim) == PerMillion::ONE;
    if next.is_some() {
        for component in draft
            .component_indexes()
            .filter(|at| atomic || *at == index)
        {
            if draft.job.components[component.0 as usize].is_claimed() {
                draft.emit(JobEventKind::ClaimGivenBack { component });
            }
        }
    }
    if let Some(how) = over {
        let attempt = draft.job.components[index.0 as usize].attempt;
        draft.emit(JobEventKind::AttemptEnded {
            component: index,
            attempt,
            how,
        });
    }
    miss_claim(draft, index, next, detail);
}

/// Continues a claim as far as state and clock allow.
pub(super) fn advance_claim(draft: &mut DecisionDraft<'_>, since: Timestamp) {
    let parameters = draft.parameters;
    if draft
        .job
        .components
        .iter()
        .all(|component| matches!(component.run, AttemptState::Idle))
    {
        draft.emit(JobEventKind::ClaimReturned);
        return;
    }
    if queued_at_site::resubmit_deferred(draft) {
        return;
    }
    let claims = draft.job.claim_limits(parameters);
    let mut late = draft
        .job
        .indexed_components()
        .filter(|(_, component)| {
            !matches!(component.run, AttemptState::Idle) && !component.given_back
        })
        .filter(|(_, component)| {
            draft.is_deadline_over(draft.job.claim_deadline(component, since, claims))
        });
    let Some((index, component)) = late.next() else {
        return;
    };
    let acquisition = component.acquisition();
    let (holds, limit) = match component.run {
        AttemptState::AtGate { .. } => (true, acquisition.max_hold(claims)),
        _ => (false, acquisition.ready_within(claims)),
    };
    let all = draft
        .job
        .common_start_components()
        .all(|(_, c)| matches!(c.run, AttemptState::AtGate { .. }));
    drop(late);
    if holds && acquisition.waits_in_site_queue() {
        queued_at_site::give_back_processors(draft, index, limit);
    } else {
        let detail = if holds {
            describe_long_hold(limit, all)
        } else {
            format!("not running within {limit}")
        };
        lose_claim(draft, index, detail.into(), None);
    }
}

fn describe_long_hold(hold_max: DurationMs, all: bool) -> String {
    if all {
        format!("input did not arrive within {hold_max} of waiting")
    } else {
        format!("the others were not ready within {hold_max}")
    }
}

/// Gives way to a job that was submitted earlier: that job holds processors that this one waits
/// for, and waits for processors of this one, so that otherwise neither would start.
pub(super) fn yield_processors(
    draft: &mut DecisionDraft<'_>,
    component: ComponentIndex,
    to: JobId,
) {
    if matches!(draft.job.phase, JobPhase::Claiming { .. }) {
        let name = component_name(draft, component);
        let detail = format!("component {name} and job {to} waited for each other").into();
        abort::abort_round(draft, AbortCause::ClaimLost { component, detail });
    }
}

/// Gives the processors to a job of a higher priority.
pub(super) fn preempt(draft: &mut DecisionDraft<'_>, by: JobId) -> Result<(), JobRejection> {
    let holds = matches!(
        draft.job.phase,
        JobPhase::Claiming { .. } | JobPhase::Starting { .. } | JobPhase::Running { .. }
    );
    if !holds || !draft.job.may_be_preempted() {
        return Err(JobRejection::Stale);
    }
    abort::abort_round(draft, AbortCause::Preempted { by });
    Ok(())
}
