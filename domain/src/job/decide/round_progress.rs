//! Decides what follows from the state and the clock alone.

use crate::claim::ClaimSchedule;
use crate::ids::ComponentIndex;
use crate::job::decide::decision_draft::DecisionDraft;
use crate::job::decide::{
    abort, common_start, decide_claims, decide_restarts, if_needed, reservation_answers,
};
use crate::job::demands::uncollected_outputs;
use crate::job::job_command::{InputState, JobRejection, JobSurroundings, RejectedOutput};
use crate::job::job_due::has_avoided_sites;
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{
    AbortCause, AbortConsequence, AttemptEnding, AttemptState, Component, Job, JobPhase,
    JobReservations,
};
use crate::job::spec::{OutputDestination, UnreachableAction};
use crate::runner::RestartScope;
use crate::units::{DurationMs, Timestamp};

/// Applies the state of others.
pub(super) fn apply_external_state(
    draft: &mut DecisionDraft<'_>,
    external: &JobSurroundings,
) -> Result<(), JobRejection> {
    if draft.job.is_final() {
        return Err(JobRejection::Ended);
    }
    apply_round_inputs(draft, &external.inputs);
    fail_on_rejected_outputs(draft, &external.stranded);
    for &(index, since) in &external.unreachable {
        handle_silent_component(draft, index, since, SilenceCause::Unreachable);
    }
    for &(index, since) in &external.removed {
        handle_silent_component(draft, index, since, SilenceCause::Removed);
    }
    if let Some((component, to)) = external.yields {
        decide_claims::yield_processors(draft, component, to);
    }
    Ok(())
}

fn apply_round_inputs(draft: &mut DecisionDraft<'_>, inputs: &InputState) {
    if matches!(draft.job.phase, JobPhase::Running { .. }) {
        decide_restarts::apply_restart_inputs(draft, inputs);
        return;
    }
    let waits = matches!(
        draft.job.phase,
        JobPhase::Placed { .. } | JobPhase::Claiming { .. }
    );
    if !waits || draft.job.inputs_here {
        return;
    }
    match inputs {
        InputState::Unknown => {}
        InputState::Here => draft.emit(JobEventKind::InputsArrived),
        InputState::Lost {
            detail,
            components,
            at_site,
        } => {
            if *at_site {
                components
                    .iter()
                    .for_each(|index| abort::avoid_site(draft, *index));
            }
            abort::abort_round(
                draft,
                AbortCause::InputLost {
                    detail: detail.clone(),
                },
            );
        }
        InputState::Expected(arrival) => {
            let late = *arrival > draft.now + draft.parameters.hold_slack;
            if let JobPhase::Placed { start_estimate, .. } = draft.job.phase
                && draft.now >= start_estimate
                && late
            {
                postpone_claim(draft, *arrival);
            }
        }
    }
}

/// Fails a job whose outputs their sites do not take, once nothing else is on its way. The outputs
/// stay where they were made. The payloads succeeded, so they are not run again.
fn fail_on_rejected_outputs(draft: &mut DecisionDraft<'_>, stranded: &[RejectedOutput]) {
    if let Some(reason) = rejection_of_all_outputs(&draft.job, stranded) {
        draft.emit(JobEventKind::JobFailed {
            reason: reason.into(),
        });
    }
}

/// Returns the reason why outputs do not reach their sites, if that is so for all that are not
/// there yet.
fn rejection_of_all_outputs(job: &Job, stranded: &[RejectedOutput]) -> Option<String> {
    let mut open = uncollected_outputs(job).map(|(index, at, _, output)| match &output.collect {
        OutputDestination::ToSite { site, .. } => {
            let (_, _, why) = stranded.iter().find(|(c, o, _)| (*c, *o) == (index, at))?;
            Some((index, &output.path, site, why))
        }
        OutputDestination::Fetch => None,
    });
    let (index, path, site, detail) = open.next()??;
    let others = open.try_fold(0, |count, other| other.map(|_| count + 1))?;
    let more = if others > 0 {
        format!(" ({others} more outputs likewise)")
    } else {
        String::new()
    };
    Some(format!(
        "its payloads succeeded, but output {path} of component {} cannot be brought to site \
         {site}: {detail}{more}; what they left is where they ran, and `cospan output` fetches it",
        job.component_name(index).unwrap_or_default()
    ))
}

fn postpone_claim(draft: &mut DecisionDraft<'_>, start_estimate: Timestamp) {
    let schedule = draft.job.claim_schedule(&draft.parameters.claim);
    let next = schedule.and_then(|schedule| {
        let transfer_time = start_estimate.since(schedule.placed_at);
        ClaimSchedule {
            transfer_time,
            ..schedule
        }
        .next_try_time(draft.now, draft.now)
    });
    let held_until_start = start_estimate - draft.job.claim_limits(draft.parameters).max_hold;
    let next_claim = next.unwrap_or(start_estimate).max(held_until_start);
    draft.emit(JobEventKind::StartPostponed {
        start_estimate,
        next_claim,
    });
}

/// Returns how long a job waits for a silent site, once its payload may have begun there.
fn silent_site_patience(draft: &DecisionDraft<'_>, component: &Component) -> Option<DurationMs> {
    let runs = matches!(component.run, AttemptState::Running { .. });
    let unopened = !runs
        && !matches!(
            component.run,
            AttemptState::AtGate { .. } | AttemptState::Opened { .. }
        );
    // The component is placed elsewhere alone, or its round is lost with it.
    let alone = draft.job.spec.run.restart_scope == RestartScope::Component;
    let restarts = alone && component.restart.is_some();
    let not_begun = draft.job.start_at.is_none() || (restarts && unopened);
    if not_begun {
        return Some(DurationMs::ZERO);
    }
    match draft.job.spec.on_unreachable {
        UnreachableAction::RerunAfter(time) if draft.job.spec.rerunnable => Some(time),
        UnreachableAction::RerunAfter(_) | UnreachableAction::Wait => None,
    }
}

/// The reason why a component is silent.
#[derive(Clone, Copy)]
enum SilenceCause {
    /// The site does not answer.
    Unreachable,
    /// The site is no longer in the configuration, so that nobody asks it.
    Removed,
}

fn handle_silent_component(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    since: Timestamp,
    silence: SilenceCause,
) {
    let Some(component) = draft.job.components.get(index.0 as usize) else {
        return;
    };
    let lives = component.run.may_live();
    let attempt = component.attempt;
    let awaited = uncollected_outputs(&draft.job).any(|(of, ..)| of == index);
    let Some(patience) = silent_site_patience(draft, component) else {
        return;
    };
    if draft.now < since + patience {
        return;
    }
    let gives_up = match draft.job.phase {
        JobPhase::Starting { .. } => lives,
        JobPhase::Running { .. } => lives && !component.given_back,
        JobPhase::Collecting { .. } => awaited,
        JobPhase::Queued { .. }
        | JobPhase::Placed { .. }
        | JobPhase::Claiming { .. }
        | JobPhase::Aborting { .. }
        | JobPhase::Finished { .. }
        | JobPhase::Failed { .. }
        | JobPhase::Cancelled { .. } => false,
    };
    if gives_up {
        give_up_silent(draft, index, draft.now.since(since), silence);
    }
    if lives && draft.is_ending(index) {
        let how = AttemptEnding::Abandoned;
        draft.emit(JobEventKind::AttemptEnded {
            component: index,
            attempt,
            how,
        });
    }
}

fn give_up_silent(
    draft: &mut DecisionDraft<'_>,
    component: ComponentIndex,
    waited: DurationMs,
    silence: SilenceCause,
) {
    let placement = draft.job.components[component.0 as usize]
        .placement
        .as_ref();
    let why = match (silence, placement) {
        (SilenceCause::Removed, Some(placement)) => {
            let site = &placement.site;
            let detail = format!("site {site} is no longer in the configuration, for {waited}");
            AbortCause::SiteError {
                component,
                detail: detail.into(),
            }
        }
        _ => AbortCause::Unreachable { component },
    };
    let detail = match &why {
        AbortCause::SiteError { detail, .. } => detail.clone(),
        _ => format!("no answer for {waited}").into(),
    };
    abort::charge_component_site(draft, component, detail);
    abort::abort_round(draft, why);
}

/// Takes every step that state and clock allow.
pub(super) fn take_due_steps(draft: &mut DecisionDraft<'_>) {
    loop {
        let before = draft.event_count();
        if draft.job.held.is_none() {
            step_phase(draft);
        }
        if draft.event_count() == before {
            return;
        }
    }
}

fn step_phase(draft: &mut DecisionDraft<'_>) {
    reservation_answers::treat_silence_as_refusal(draft);
    if_needed::step_rescheduling(draft);
    match draft.job.phase.clone() {
        JobPhase::Queued { since, .. } => {
            if has_avoided_sites(&draft.job)
                && draft.is_deadline_over(since + draft.parameters.avoid_for)
            {
                draft.emit(JobEventKind::AvoidanceLapsed);
            }
            reservation_answers::step_reservation(draft);
        }
        JobPhase::Placed { .. } => {
            let announced_at = draft.job.announcement_time(draft.parameters);
            if announced_at.is_some_and(|at| draft.is_deadline_over(at)) {
                draft.emit(JobEventKind::StartAnnounced);
            }
        }
        JobPhase::Claiming { since } => step_claiming(draft, since),
        JobPhase::Starting { since } => step_starting(draft, since),
        JobPhase::Running { .. } => step_running(draft),
        JobPhase::Collecting { .. } => {
            let released = draft
                .job
                .reservation
                .as_deref()
                .is_none_or(JobReservations::is_released);
            if uncollected_outputs(&draft.job).next().is_none() && released {
                draft.emit(JobEventKind::JobFinished);
            }
        }
        JobPhase::Aborting { then, .. } => step_aborting(draft, then),
        JobPhase::Finished { .. } | JobPhase::Failed { .. } | JobPhase::Cancelled { .. } => {}
    }
}

fn step_claiming(draft: &mut DecisionDraft<'_>, since: Timestamp) {
    let all = draft
        .job
        .common_start_components()
        .all(|(_, c)| c.run.is_confirmed_ready() && !c.given_back);
    let early_for = draft.job.reserved_start().unwrap_or_default();
    let early_for = early_for.since(draft.now + draft.parameters.go_lead);
    if all && draft.job.inputs_here && early_for == DurationMs::ZERO {
        let start_at = draft.now + common_start_lead(draft);
        let start_by = Some(start_at + draft.parameters.go_grace);
        draft.emit(JobEventKind::GoDecided { start_at, start_by });
    } else {
        decide_claims::advance_claim(draft, since);
    }
}

/// Returns the time from the decision to the common start: by then all wrappers have seen that
/// their gates are open.
fn common_start_lead(draft: &DecisionDraft<'_>) -> DurationMs {
    let parameters = draft.parameters;
    if draft
        .job
        .components
        .iter()
        .any(|component: &Component| match component.run {
            AttemptState::AtGate { since, .. } => {
                draft.now.since(since) >= parameters.gate_patience
            }
            _ => false,
        })
    {
        parameters.go_lead.max(parameters.go_lead_held)
    } else {
        parameters.go_lead
    }
}

fn step_starting(draft: &mut DecisionDraft<'_>, since: Timestamp) {
    let missing = draft
        .job
        .common_start_components()
        .find(|(_, c)| !c.run.has_begun());
    let missing = missing.map(|(index, _)| index);
    match missing {
        None => match common_start::find_late_component(draft) {
            None => draft.emit(JobEventKind::JobStarted),
            Some(component) => abort::abort_round(draft, AbortCause::StartMissed { component }),
        },
        Some(component) => {
            let over = draft.is_deadline_over(since + draft.parameters.go_grace);
            let missed_by = common_start::common_start_overrun(draft);
            let late = draft.is_look_command() && missed_by > DurationMs::ZERO;
            if !over && !late {
                return;
            }
            // Later than that, the server was not running to open gates: not the fault of any site.
            let grace = draft.parameters.go_grace;
            let here = draft.now < since + grace + grace && missed_by < grace;
            let together = draft
                .job
                .common_start_components()
                .filter(|(_, c)| here && !c.run.has_begun());
            for index in together.map(|(index, _)| index).collect::<Vec<_>>() {
                abort::charge_component_site(
                    draft,
                    index,
                    "did not begin after its gate was to open".into(),
                );
            }
            abort::abort_round(draft, AbortCause::StartMissed { component });
        }
    }
}

fn step_running(draft: &mut DecisionDraft<'_>) {
    decide_restarts::step_restarts(draft);
    let all = draft.job.components.iter().all(has_succeeded);
    // A component that was restarted alone may still owe a charge to its site.
    if all && !draft.job.has_unrecorded_charges() {
        draft.emit(JobEventKind::PayloadsSucceeded);
    }
}

fn has_succeeded(component: &Component) -> bool {
    matches!(
        component.run,
        AttemptState::Ended {
            how: AttemptEnding::Succeeded,
            ..
        }
    )
}

fn step_aborting(draft: &mut DecisionDraft<'_>, then: AbortConsequence) {
    let owed = draft
        .job
        .components
        .iter()
        .any(|component| component.charge.is_some());
    let released = draft
        .job
        .reservation
        .as_deref()
        .is_none_or(JobReservations::is_released);
    if draft.job.may_live_anywhere() || owed || !released {
        return;
    }
    match then {
        AbortConsequence::Requeue { not_before } => {
            draft.emit(JobEventKind::JobRequeued { not_before })
        }
        AbortConsequence::Fail { reason } => draft.emit(JobEventKind::JobFailed { reason }),
        AbortConsequence::Cancel { by } => draft.emit(JobEventKind::JobCancelled { by }),
    }
}
