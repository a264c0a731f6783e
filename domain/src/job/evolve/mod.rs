//! Applies events to the state of a job.

mod evolve_attempts;
mod evolve_claims;
mod evolve_cost;
mod evolve_reservations;
mod evolve_restarts;

use std::collections::BTreeMap;
use std::sync::Arc;

use evolve_cost::{count_gain_of_job, count_waste_of_job};

use crate::ids::{Attempt, ComponentIndex, Round, SiteName};
use crate::job::job_event::{JobEvent, JobEventKind};
use crate::job::job_state::{
    AbortCause, AbortConsequence, AttemptState, Component, Job, JobPhase, OutputCollection,
    SiteCharge,
};
use crate::job::spec::RequestType;
use crate::placed::Placement;
use crate::units::{Bytes, Timestamp};

/// Applies an event. Total: an event that was journalled is never refused.
pub fn evolve(job: &mut Job, event: &JobEvent) {
    let at = event.at;
    evolve_reservations::stop_rescheduling_on_claim(job, &event.what, at);
    match &event.what {
        JobEventKind::JobPlaced {
            round,
            placements,
            start_estimate,
            by,
        } => {
            job.placed_by = by.clone();
            evolve_reservations::forget_refusals(job);
            place_job(job, *round, placements, *start_estimate, at);
        }
        JobEventKind::ReservationSought { .. }
        | JobEventKind::ReservationAnswered { .. }
        | JobEventKind::ReservationChanged { .. }
        | JobEventKind::ReservationMoveSought { .. }
        | JobEventKind::ReservationForwardSought { .. }
        | JobEventKind::ReservationMoved
        | JobEventKind::ReservationForgone { .. }
        | JobEventKind::UnreservedChosen { .. }
        | JobEventKind::ReservationWithheld { .. }
        | JobEventKind::StartAnnounced
        | JobEventKind::NoticeTold { .. }
        | JobEventKind::ReservationStayed { .. } => {
            evolve_reservations::apply_reservation_event(job, &event.what, at)
        }
        JobEventKind::StartPostponed { .. }
        | JobEventKind::ComponentFailed { .. }
        | JobEventKind::InputsArrived
        | JobEventKind::ClaimBegun
        | JobEventKind::ComponentsClaimed { .. }
        | JobEventKind::ComponentMoved { .. }
        | JobEventKind::ComponentAvoidanceLapsed { .. }
        | JobEventKind::ClaimMissed { .. }
        | JobEventKind::ClaimGivenBack { .. }
        | JobEventKind::StartDeferred { .. }
        | JobEventKind::ClaimReturned => evolve_claims::apply_claim_event(job, &event.what, at),
        JobEventKind::AttemptRenewed { .. }
        | JobEventKind::AttemptSubmitted { .. }
        | JobEventKind::SubmissionUncertain { .. }
        | JobEventKind::AttemptAbsent { .. }
        | JobEventKind::AttemptSeen { .. }
        | JobEventKind::WaitingAtSite { .. }
        | JobEventKind::ComponentReady { .. }
        | JobEventKind::ReadinessDoubted { .. }
        | JobEventKind::GateOpened { .. }
        | JobEventKind::ComponentBegan { .. }
        | JobEventKind::AttemptEnded { .. } => {
            evolve_attempts::apply_attempt_event(job, &event.what, at)
        }
        JobEventKind::SiteAvoided { component } => change_component(job, *component, avoid_site),
        JobEventKind::FoundUnfit { component, detail } => {
            change_component(job, *component, |component| exclude_site(component, detail));
        }
        JobEventKind::AvoidanceLapsed => job.components.iter_mut().for_each(|c| c.avoid.clear()),
        JobEventKind::GoDecided { start_at, start_by } => decide_go(job, *start_at, *start_by, at),
        JobEventKind::JobStarted => set_running(job, at),
        JobEventKind::SiteCharged { component, charge } => charge_site(job, *component, charge),
        JobEventKind::ChargeRecorded { component } => {
            change_component(job, *component, |c| c.charge = None)
        }
        JobEventKind::PayloadsSucceeded => begin_collecting(job, at),
        JobEventKind::OutputFound { .. }
        | JobEventKind::OutputCollected { .. }
        | JobEventKind::OutputsSeen { .. } => {
            record_output(job, &event.what);
        }
        JobEventKind::RoundAborted { why, then } => begin_abort(job, why, then, at),
        JobEventKind::AbortRedirected { then } => apply_abort_consequence(job, then),
        JobEventKind::JobRequeued { not_before } => requeue_job(job, *not_before, at),
        JobEventKind::PriorityChanged { to, by } => {
            job.priority = *to;
            job.promoted = by.is_none();
        }
        JobEventKind::JobFrozen { by } => job.frozen_by = Some(by.clone()),
        JobEventKind::JobThawed { .. } => apply_thaw(job, at),
        JobEventKind::JobHeld { reason } => job.held = Some(reason.clone()),
        JobEventKind::JobReleased { .. } => job.held = None,
        JobEventKind::JobFinished => job.phase = JobPhase::Finished { at },
        JobEventKind::JobFailed { reason } => set_failed(job, reason, at),
        JobEventKind::JobCancelled { by } => job.phase = JobPhase::Cancelled { at, by: by.clone() },
        JobEventKind::EndTold { target, .. } => drop(job.told.insert(target.clone())),
    }
}

fn apply_thaw(job: &mut Job, at: Timestamp) {
    job.frozen_by = None;
    evolve_reservations::recheck_reservations(job, at);
}

fn apply_abort_consequence(job: &mut Job, next: &AbortConsequence) {
    if let JobPhase::Aborting { then, .. } = &mut job.phase {
        *then = next.clone();
    }
}

fn set_failed(job: &mut Job, reason: &Arc<str>, at: Timestamp) {
    job.phase = JobPhase::Failed {
        at,
        reason: reason.clone(),
    };
}

fn set_running(job: &mut Job, at: Timestamp) {
    job.phase = JobPhase::Running { since: at };
    job.instants.started = Some(at);
    job.begin_late_components(at);
}

fn charge_site(job: &mut Job, index: ComponentIndex, charge: &SiteCharge) {
    job.setbacks.site_errors += 1;
    // Components lost together are charged in their order, each while the first is still being
    // dealt with.
    let before = job.components.iter().take(index.0 as usize);
    let is_first = before
        .into_iter()
        .all(|other| other.charge.is_none() && other.restart.is_none());
    job.setbacks.incidents += u32::from(is_first);
    change_component(job, index, |component| {
        component.avoid.insert(charge.site.clone());
        component.charge = Some(charge.clone());
    });
}

fn avoid_site(component: &mut Component) {
    let site = component
        .placement
        .as_ref()
        .map(|placement| placement.site.clone());
    component.avoid.extend(site);
}

fn exclude_site(component: &mut Component, detail: &Arc<str>) {
    if let Some(placement) = &component.placement {
        component
            .unfit_for
            .insert(placement.site.clone(), detail.clone());
    }
}

fn begin_abort(job: &mut Job, why: &AbortCause, then: &AbortConsequence, at: Timestamp) {
    count_setback(job, why);
    count_waste_of_job(job, at);
    for component in &mut job.components {
        component.given_back = false;
        component.restart = None;
    }
    job.phase = JobPhase::Aborting {
        since: at,
        why: why.clone(),
        then: then.clone(),
    };
    evolve_reservations::cancel_reservations(job, at);
}

fn begin_collecting(job: &mut Job, at: Timestamp) {
    job.phase = JobPhase::Collecting { since: at };
    job.instants.succeeded = Some(at);
    evolve_reservations::cancel_reservations(job, at);
}

fn requeue_job(job: &mut Job, not_before: Timestamp, at: Timestamp) {
    job.phase = JobPhase::Queued {
        since: at,
        not_before,
    };
    evolve_reservations::settle_reservation(job);
}

fn change_component(job: &mut Job, index: ComponentIndex, change: impl FnOnce(&mut Component)) {
    if let Some(component) = job.components.get_mut(index.0 as usize) {
        change(component);
    }
}

fn change_output(
    job: &mut Job,
    index: ComponentIndex,
    output: u32,
    change: impl FnOnce(&mut OutputCollection),
) {
    change_component(job, index, |component| {
        if let Some(collected) = component.collected.get_mut(output as usize) {
            change(collected);
        }
    });
}

fn place_job(
    job: &mut Job,
    round: Round,
    placements: &[Placement],
    start: Timestamp,
    at: Timestamp,
) {
    if let JobPhase::Queued { since, .. } = job.phase {
        job.instants.placement_time = at.since(since);
        job.instants.total_placement_time = job.instants.total_placement_time + at.since(since);
    }
    if matches!(job.spec.request, RequestType::Flexible(_)) {
        replace_components(&mut job.components, placements.len());
    }
    job.components
        .resize_with(placements.len(), Component::default);
    for (index, placement) in placements.iter().enumerate() {
        let outputs = job
            .component_spec(ComponentIndex(index as u32))
            .map_or(0, |spec| spec.outputs.len());
        let component = &mut job.components[index];
        component.placement = Some(placement.clone());
        // The job has a placement: a site that failed long ago must not keep it waiting for ever.
        component.avoid.clear();
        component.run = AttemptState::Idle;
        component.held_since = None;
        component.given_back = false;
        component.restart = None;
        component.start_by = None;
        // It was set for the sake of other components in an earlier round.
        component.not_before = None;
        component.collected = vec![OutputCollection::default(); outputs];
    }
    job.phase = JobPhase::Placed {
        at,
        start_estimate: start,
    };
    job.round = round;
    job.inputs_here = placements
        .iter()
        .all(|placement| placement.sources.is_empty());
    job.start_at = None;
    job.next_claim = None;
    job.preempting.clear();
    let instants = &mut job.instants;
    instants.wasted_in_round_ms = 0;
    instants.first_placed.get_or_insert(at);
    instants.placed = Some(at);
    instants.first_start_estimate.get_or_insert(start);
    instants.start_estimate = Some(start);
    instants.transfer_volume = instants.transfer_volume + moved_bytes(placements);
}

/// Replaces the components by those of another split. They are other components: no attempt number
/// may come twice under one index, even if an index went and came back. What a batch system refused
/// one of them it refuses the others.
fn replace_components(components: &mut Vec<Component>, count: usize) {
    let last = components
        .iter()
        .map(|component| component.attempt)
        .max()
        .unwrap_or_default();
    let unfit_for: BTreeMap<SiteName, Arc<str>> = components
        .iter()
        .flat_map(|component| component.unfit_for.clone())
        .collect();
    components.resize_with(count, Component::default);
    for component in components {
        component.attempt = last;
        component.unfit_for = unfit_for.clone();
    }
}

fn moved_bytes(placements: &[Placement]) -> Bytes {
    placements
        .iter()
        .flat_map(|placement| {
            placement
                .sources
                .iter()
                .map(move |source| (placement, source))
        })
        .filter(|(placement, source)| source.from != placement.site)
        .fold(Bytes(0), |sum, (_, source)| sum + source.content.size)
}

fn renew_attempt(component: &mut Component, at: Timestamp) {
    component.attempt = Attempt(component.attempt.0 + 1);
    component.run = AttemptState::Intended { at };
    component.held_since = None;
    component.start_by = None;
}

fn decide_go(job: &mut Job, start_at: Timestamp, start_by: Option<Timestamp>, at: Timestamp) {
    job.phase = JobPhase::Starting { since: at };
    job.start_at = Some(start_at);
    for component in &mut job.components {
        component.start_by = match component.run {
            AttemptState::AtGate {
                clock: Some(clock), ..
            } => start_by.map(|time| time + clock),
            _ => None,
        };
    }
    let claims = job
        .components
        .iter()
        .filter_map(|component| component.held_since);
    job.instants.claimed = Some(claims.max().unwrap_or(at));
    count_gain_of_job(job);
    count_waste_of_job(job, at);
}

/// Records that an output was found, or is where it was wanted.
fn record_output(job: &mut Job, what: &JobEventKind) {
    match what {
        JobEventKind::OutputFound {
            component,
            output,
            content,
        } => {
            change_output(job, *component, *output, |o| o.content = Some(*content));
        }
        JobEventKind::OutputCollected { component, output } => {
            change_output(job, *component, *output, |o| o.done = true);
        }
        JobEventKind::OutputsSeen { component } => {
            let spec = job.component_spec(*component);
            if let Some(last) = spec.and_then(|spec| spec.last_staying_output()) {
                change_output(job, *component, last, |o| o.done = true);
            }
        }
        _ => {}
    }
}

fn count_setback(job: &mut Job, why: &AbortCause) {
    // A job that its user cancels has not been set back.
    let wanted = matches!(why, AbortCause::Cancelled);
    if !wanted
        && job
            .components
            .iter()
            .any(|component| component.run != AttemptState::Idle)
    {
        job.setbacks.rounds += 1;
    }
    if matches!(why, AbortCause::ClaimLost { .. }) {
        job.setbacks.claims += 1;
        job.setbacks.missed_starts += 1;
    }
    count_abort_cause(job, why);
}

fn count_abort_cause(job: &mut Job, why: &AbortCause) {
    match why {
        AbortCause::Preempted { .. } => job.setbacks.preemptions += 1,
        AbortCause::InputLost { .. } => job.setbacks.inputs += 1,
        AbortCause::Application { .. } => job.setbacks.own_errors += 1,
        AbortCause::ClaimLost { .. }
        | AbortCause::SiteError { .. }
        | AbortCause::StartMissed { .. }
        | AbortCause::Unreachable { .. }
        | AbortCause::Cancelled
        | AbortCause::ReservationChanged { .. }
        | AbortCause::Barred { .. }
        | AbortCause::Unfit { .. }
        | AbortCause::Drained { .. } => {}
    }
}
