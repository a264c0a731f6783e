//! Decides on what a site's status shows of attempts.

use std::sync::Arc;

use crate::ids::{Attempt, ComponentIndex};
use crate::job::decide::decision_draft::DecisionDraft;
use crate::job::decide::{abort, attempt_submission, decide_claims, queued_at_site};
use crate::job::job_command::{AttemptSighting, JobRejection, SiteClockTimes};
use crate::job::job_due::overdue_at;
use crate::job::job_event::JobEventKind;
use crate::job::job_parameters::JobParameters;
use crate::job::job_state::{AbortCause, AttemptEnding, AttemptState, Component, Job, JobPhase};
use crate::units::Timestamp;

/// Returns true if a sighting could change the job: most repeat what its record says already.
pub fn is_new_sighting(
    job: &Job,
    parameters: &JobParameters,
    index: ComponentIndex,
    asked_at: Timestamp,
    times: SiteClockTimes,
    sighting: &AttemptSighting,
) -> bool {
    let Some(component) = job.components.get(index.0 as usize) else {
        return false;
    };
    if let AttemptSighting::Queued(expected) = sighting {
        return queued_at_site::is_new_wait(component, *expected);
    }
    let is_known = matches!(
        (&component.run, sighting),
        (
            AttemptState::Submitted { absences: 0, .. },
            AttemptSighting::Pending
        ) | (
            AttemptState::AtGate { clock: Some(_), .. } | AttemptState::Opened { .. },
            AttemptSighting::Ready(_)
        ) | (AttemptState::Running { .. }, AttemptSighting::Begun(_))
    );
    !is_known || is_overdue(job, component, parameters, asked_at, times)
}

/// Returns true if a payload runs that should be over, by our clock and, if its site says when it
/// began, by the clock of the site: somebody may have set ours between two starts of the server.
fn is_overdue(
    job: &Job,
    component: &Component,
    parameters: &JobParameters,
    asked_at: Timestamp,
    times: SiteClockTimes,
) -> bool {
    let longest = job.wall_time() + parameters.wall_margin;
    overdue_at(job, component, parameters).is_some_and(|time| time <= asked_at)
        && times
            .began_at
            .is_none_or(|at| at + longest <= asked_at + times.clock)
}

pub(super) fn apply_sighting(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    attempt: Attempt,
    asked_at: Timestamp,
    times: SiteClockTimes,
    sighting: AttemptSighting,
) -> Result<(), JobRejection> {
    draft.current_component(index, attempt)?;
    match sighting {
        AttemptSighting::Absent => {
            attempt_submission::count_absence(draft, index, attempt, asked_at)?
        }
        AttemptSighting::Pending => record_seen(draft, index),
        AttemptSighting::Queued(expected) => {
            record_seen(draft, index);
            queued_at_site::record_site_wait(draft, index, expected);
        }
        AttemptSighting::Ready(host) => record_ready(draft, index, host, times),
        AttemptSighting::Begun(host) => record_begun(draft, index, &host, times),
        AttemptSighting::Succeeded => {
            record_unseen_begin(draft, index, times);
            draft.emit(attempt_ended_event(
                index,
                attempt,
                AttemptEnding::Succeeded,
            ));
        }
        AttemptSighting::Failed(detail) => {
            handle_failed_payload(draft, index, attempt, times, detail)
        }
        AttemptSighting::Void => handle_void_gate(draft, index, attempt),
        AttemptSighting::TooLate => handle_late_gate(draft, index, attempt),
        AttemptSighting::Taken(detail) => handle_taken_attempt(draft, index, attempt, detail),
        AttemptSighting::NeverRuns(detail) => give_up_never_running(draft, index, detail),
        AttemptSighting::Vanished(detail) => handle_lost_attempt(draft, index, attempt, detail),
    }
    end_overdue(draft, index, asked_at, times);
    Ok(())
}

/// Ends a payload that its site should have ended long ago. A site that reports nothing may well
/// have done so: only what it shows afterwards counts.
fn end_overdue(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    asked_at: Timestamp,
    times: SiteClockTimes,
) {
    let component = &draft.job.components[index.0 as usize];
    let overdue = is_overdue(&draft.job, component, draft.parameters, asked_at, times);
    if overdue && !draft.is_ending(index) {
        let detail = "still there long after its wall time".into();
        abort::abort_round(
            draft,
            AbortCause::Application {
                component: index,
                detail,
            },
        );
    }
}

fn attempt_ended_event(
    component: ComponentIndex,
    attempt: Attempt,
    how: AttemptEnding,
) -> JobEventKind {
    JobEventKind::AttemptEnded {
        component,
        attempt,
        how,
    }
}

fn record_seen(draft: &mut DecisionDraft<'_>, index: ComponentIndex) {
    let run = &draft.job.components[index.0 as usize].run;
    if matches!(run, AttemptState::Submitted { absences: 1.., .. }) {
        draft.emit(JobEventKind::AttemptSeen { component: index });
    }
}

fn record_ready(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    host: Arc<str>,
    times: SiteClockTimes,
) {
    let run = &draft.job.components[index.0 as usize].run;
    let is_news = matches!(
        run,
        AttemptState::Submitted { .. } | AttemptState::AtGate { clock: None, .. }
    );
    if is_news && !draft.is_ending(index) {
        let clock = Some(times.clock);
        // Both times are by the site's clock, so the difference between the clocks does not matter.
        let held_for = times.held_at.map(|at| (draft.now + times.clock).since(at));
        draft.emit(JobEventKind::ComponentReady {
            component: index,
            host,
            clock,
            held_for,
        });
    }
}

fn record_begun(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    host: &Arc<str>,
    times: SiteClockTimes,
) {
    let run = &draft.job.components[index.0 as usize].run;
    let starts = matches!(
        draft.job.phase,
        JobPhase::Starting { .. } | JobPhase::Running { .. }
    );
    if starts && !run.has_begun() && !draft.is_ending(index) {
        if matches!(run, AttemptState::Submitted { .. }) {
            record_ready(draft, index, host.clone(), times);
        }
        record_unseen_begin(draft, index, times);
    }
}

/// Records the begin of a payload that runs or is over, even if nobody saw it begin.
fn record_unseen_begin(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    times: SiteClockTimes,
) {
    let run = &draft.job.components[index.0 as usize].run;
    if matches!(run, AttemptState::AtGate { .. }) {
        draft.emit(JobEventKind::GateOpened { component: index });
    }
    if matches!(
        draft.job.components[index.0 as usize].run,
        AttemptState::Opened { .. }
    ) {
        let began_at = times.began_at;
        draft.emit(JobEventKind::ComponentBegan {
            component: index,
            began_at,
        });
    }
}

fn handle_failed_payload(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    attempt: Attempt,
    times: SiteClockTimes,
    detail: Arc<str>,
) {
    if draft.is_ending(index) {
        draft.emit(attempt_ended_event(index, attempt, AttemptEnding::Killed));
        return;
    }
    record_unseen_begin(draft, index, times);
    draft.emit(attempt_ended_event(
        index,
        attempt,
        AttemptEnding::Failed(detail.clone()),
    ));
    abort::abort_round(
        draft,
        AbortCause::Application {
            component: index,
            detail,
        },
    );
}

fn handle_void_gate(draft: &mut DecisionDraft<'_>, index: ComponentIndex, attempt: Attempt) {
    let detail: Arc<str> = "its gate was closed before the start".into();
    let how = AttemptEnding::NeverRan(detail.clone());
    if draft.is_ending(index) {
        draft.emit(attempt_ended_event(index, attempt, how));
    } else {
        decide_claims::lose_claim(draft, index, detail, Some(how));
    }
}

/// Ends an attempt whose wrapper found its gate open too late to start with the others.
fn handle_late_gate(draft: &mut DecisionDraft<'_>, index: ComponentIndex, attempt: Attempt) {
    let was_ending = draft.is_ending(index);
    let detail: Arc<str> = "its gate was opened too late to start with the others".into();
    draft.emit(attempt_ended_event(
        index,
        attempt,
        AttemptEnding::NeverRan(detail),
    ));
    if !was_ending {
        abort::abort_round(draft, AbortCause::StartMissed { component: index });
    }
}

/// Handles an attempt whose site gave its processors to another job, or that somebody ended there.
fn handle_taken_attempt(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    attempt: Attempt,
    detail: Arc<str>,
) {
    if draft.is_ending(index) {
        draft.emit(attempt_ended_event(index, attempt, AttemptEnding::Killed));
        return;
    }
    let began = draft.job.components[index.0 as usize].run.has_begun();
    let over = if began {
        AttemptEnding::Lost
    } else {
        AttemptEnding::NeverRan
    };
    decide_claims::lose_claim(draft, index, detail.clone(), Some(over(detail)));
}

/// Gives up the round because the site's queue will never start this component; it goes elsewhere
/// while other sites can take it.
fn give_up_never_running(draft: &mut DecisionDraft<'_>, index: ComponentIndex, detail: Arc<str>) {
    if !draft.is_ending(index) {
        abort::avoid_site(draft, index);
        abort::abort_round(
            draft,
            AbortCause::ClaimLost {
                component: index,
                detail,
            },
        );
    }
}

/// Handles an attempt that its site lost.
fn handle_lost_attempt(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    attempt: Attempt,
    detail: Arc<str>,
) {
    let was_ending = draft.is_ending(index);
    let how = if was_ending {
        AttemptEnding::Killed
    } else {
        AttemptEnding::Lost(detail.clone())
    };
    draft.emit(attempt_ended_event(index, attempt, how));
    if !was_ending {
        abort::charge_component_site(draft, index, detail.clone());
        abort::abort_round(
            draft,
            AbortCause::SiteError {
                component: index,
                detail,
            },
        );
    }
}

pub(super) fn apply_gate_answer(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    attempt: Attempt,
    open: bool,
) -> Result<(), JobRejection> {
    let component = draft.current_component(index, attempt)?;
    if !matches!(component.run, AttemptState::AtGate { .. }) {
        return Err(JobRejection::Stale);
    }
    match (&draft.job.phase, open) {
        (JobPhase::Starting { .. } | JobPhase::Running { .. }, true) => {
            draft.emit(JobEventKind::GateOpened { component: index });
        }
        (JobPhase::Starting { .. } | JobPhase::Running { .. }, false) => {
            handle_void_gate(draft, index, attempt)
        }
        _ => return Err(JobRejection::Stale),
    }
    Ok(())
}
