//! Components that wait in their sites' own queues: each is submitted again alone, so that one that
//! lost its place does not cost the others theirs.

use std::sync::Arc;

use crate::ids::ComponentIndex;
use crate::job::decide::decision_draft::DecisionDraft;
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{AttemptEnding, AttemptState, Component, JobPhase};
use crate::units::{DurationMs, Timestamp};

/// Start estimates of sites that differ by less are not worth a record.
const NOTABLE: DurationMs = DurationMs(60_000);

/// Records the expected start that a site reports for a component in its queue, if that is new.
pub(super) fn record_site_wait(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    expected: Option<Timestamp>,
) {
    let Some(component) = draft.component(index) else {
        return;
    };
    if !draft.is_ending(index) && is_new_wait(component, expected) {
        draft.emit(JobEventKind::WaitingAtSite {
            component: index,
            expected_start: expected,
        });
    }
}

/// Returns true if a site's report about a component in its queue differs from the record. A
/// component that claims idle processors is expected to start, so there is nothing to record while
/// it does not.
pub(super) fn is_new_wait(component: &Component, expected: Option<Timestamp>) -> bool {
    let AttemptState::Submitted {
        waits, absences, ..
    } = &component.run
    else {
        return false;
    };
    if !component.acquisition().waits_in_site_queue() {
        return *absences > 0;
    }
    match (waits, expected) {
        (None, _) => true,
        _ if *absences > 0 => true,
        (Some(waits), expected) => match (waits.expected_start, expected) {
            (Some(before), Some(now)) => before.since(now).max(now.since(before)) >= NOTABLE,
            (before, now) => before.is_some() != now.is_some(),
        },
    }
}

/// Gives back processors that a component has held for others, or for its input, as long as it may;
/// submits it again to begin when the others are expected.
pub(super) fn give_back_processors(
    draft: &mut DecisionDraft<'_>,
    component: ComponentIndex,
    max_hold: DurationMs,
) {
    let others = draft
        .job
        .components
        .iter()
        .filter_map(|other| match &other.run {
            AttemptState::Submitted { waits, .. } => waits.as_ref()?.expected_start,
            _ => None,
        });
    let expected = others.max().unwrap_or(draft.now + max_hold);
    let not_before = expected.max(draft.now);
    draft.emit(JobEventKind::ClaimGivenBack { component });
    draft.emit(JobEventKind::StartDeferred {
        component,
        not_before,
    });
}

/// Submits deferred components again to begin at once, if the others are there before the deferred
/// time and nothing else is awaited. Returns true if there was one.
pub(super) fn resubmit_deferred(draft: &mut DecisionDraft<'_>) -> bool {
    let soon = draft.now + NOTABLE;
    let all = &draft.job.components;
    let late: Vec<ComponentIndex> = draft
        .component_indexes()
        .filter(|index| is_deferred(&all[index.0 as usize], soon))
        .collect();
    let others = all.iter().filter(|component| !is_deferred(component, soon));
    if late.is_empty()
        || late.len() == all.len()
        || !others
            .into_iter()
            .all(|component: &Component| matches!(component.run, AttemptState::AtGate { .. }))
    {
        return false;
    }
    let not_before = draft.now;
    for component in late {
        draft.emit(JobEventKind::ClaimGivenBack { component });
        draft.emit(JobEventKind::StartDeferred {
            component,
            not_before,
        });
    }
    true
}

/// True if a component in its site's queue may begin only after this time.
fn is_deferred(component: &Component, soon: Timestamp) -> bool {
    matches!(component.run, AttemptState::Submitted { .. })
        && !component.given_back
        && component.not_before.is_some_and(|at| at > soon)
}

/// Submits only this component again, which lost its place or its processors. Returns false if its
/// round cannot go on: it does not wait in queues, was tried often enough, or waited as long as it
/// may.
pub(super) fn resubmit_alone(
    draft: &mut DecisionDraft<'_>,
    component: ComponentIndex,
    detail: &Arc<str>,
    over: Option<&AttemptEnding>,
) -> bool {
    let JobPhase::Claiming { since } = draft.job.phase else {
        return false;
    };
    let Some(state) = draft.component(component) else {
        return false;
    };
    let attempt = state.attempt;
    let waits = state.acquisition().waits_in_site_queue() && state.is_claimed();
    let ready_by = draft
        .job
        .ready_deadline(state, since, draft.job.claim_limits(draft.parameters));
    let tries = draft.job.setbacks.claims;
    let max = draft
        .job
        .spec
        .max_claim_tries
        .or(draft.parameters.claim.max_claim_tries);
    if !waits || draft.is_deadline_over(ready_by) || max.is_some_and(|max| tries >= max) {
        return false;
    }
    let parameters = draft.parameters;
    let pause = parameters.backoff_after(parameters.claim_backoff, tries + 1, draft.job.id.0);
    let next_claim = draft.now + pause;
    draft.emit(JobEventKind::ClaimGivenBack { component });
    if let Some(how) = over {
        draft.emit(JobEventKind::AttemptEnded {
            component,
            attempt,
            how: how.clone(),
        });
    }
    draft.emit(JobEventKind::ClaimMissed {
        next_claim,
        detail: detail.clone(),
    });
    true
}
