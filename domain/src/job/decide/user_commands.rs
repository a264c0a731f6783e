//! Commands of the co-allocator, of the data side, and of people.

use std::sync::Arc;

use crate::acquisition::ReservationTerms;
use crate::content::Content;
use crate::ids::{Attempt, ComponentIndex, KeyName, Round, TargetName};
use crate::job::decide::abort;
use crate::job::decide::decision_draft::DecisionDraft;
use crate::job::job_command::JobRejection;
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{AbortCause, Job, JobPhase, OutputCollection};
use crate::job::spec::{Priority, RequestType};
use crate::placed::{Placement, PlacementOrigin};
use crate::units::{DurationMs, Timestamp};

pub(super) fn place_job(
    draft: &mut DecisionDraft<'_>,
    placements: Vec<Placement>,
    by: Option<PlacementOrigin>,
) -> Result<(), JobRejection> {
    if !accepts_proposal(&draft.job, draft.now) || !is_complete_placement(&draft.job, &placements) {
        return Err(JobRejection::Stale);
    }
    let times = placements.iter().map(|placement| placement.transfer_time);
    let start_estimate = draft.now + times.max().unwrap_or(DurationMs::ZERO);
    let round = Round(draft.job.round.0 + 1);
    draft.emit(JobEventKind::JobPlaced {
        round,
        placements,
        start_estimate,
        by,
    });
    if draft.job.inputs_here || start_estimate <= draft.now {
        // Nothing to wait for, and what is idle was just looked at: this is its one
        // claiming try (vector J-5).
        draft.emit(JobEventKind::ClaimBegun);
    }
    Ok(())
}

/// Returns true if the job still waits for a proposal: meanwhile its user may have asked for a
/// reservation, or for a later start.
fn accepts_proposal(job: &Job, now: Timestamp) -> bool {
    let is_time = job
        .reservation_terms()
        .is_none_or(|wish| wish.window.earliest <= now);
    let waits = job.waits_in_shared_reservation() || (job.claimable_from().is_some() && is_time);
    waits && job.frozen_by.is_none() && !job.has_live_reservation_search()
}

/// Returns true if every component has a placement, or a flexible request is split up to the last
/// processor. Another split waits until the site has recorded the charges of the last one.
fn is_complete_placement(job: &Job, placements: &[Placement]) -> bool {
    match job.spec.request {
        RequestType::Fixed | RequestType::NonFixed => placements.len() == job.spec.components.len(),
        RequestType::Flexible(_) => {
            let shares = placements
                .iter()
                .map(|placement| u64::from(placement.share.unwrap_or(0)));
            let total = job
                .spec
                .components
                .iter()
                .map(|c| u64::from(c.resources.processors));
            shares.sum::<u64>() == total.sum::<u64>() && !job.has_unrecorded_charges()
        }
    }
}

/// Fails a job whose shared reservation has ended, or does not suffice.
pub(super) fn fail_without_reservation(
    draft: &mut DecisionDraft<'_>,
    reason: Arc<str>,
) -> Result<(), JobRejection> {
    let job = &draft.job;
    let is_divided = matches!(job.spec.request, RequestType::Flexible(_));
    let waits = job.waits_in_shared_reservation() || (is_divided && job.seeks_reservation());
    if !waits {
        return Err(JobRejection::Stale);
    }
    draft.emit(JobEventKind::JobFailed { reason });
    Ok(())
}

pub(super) fn acknowledge_charge(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    attempt: Attempt,
) -> Result<(), JobRejection> {
    let component = draft
        .job
        .components
        .get(index.0 as usize)
        .ok_or(JobRejection::Stale)?;
    match &component.charge {
        Some(charge) if charge.attempt == attempt => {
            draft.emit(JobEventKind::ChargeRecorded { component: index });
            Ok(())
        }
        Some(_) | None => Err(JobRejection::Stale),
    }
}

fn find_output_collection<'a>(
    draft: &'a DecisionDraft<'_>,
    index: ComponentIndex,
    output: u32,
) -> Result<&'a OutputCollection, JobRejection> {
    let here = matches!(draft.job.phase, JobPhase::Collecting { .. });
    let component = draft.job.components.get(index.0 as usize).filter(|_| here);
    component
        .and_then(|c| c.collected.get(output as usize))
        .ok_or(JobRejection::Stale)
}

pub(super) fn record_output_content(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    output: u32,
    content: Result<Content, Arc<str>>,
) -> Result<(), JobRejection> {
    if find_output_collection(draft, index, output)?
        .content
        .is_some()
    {
        return Err(JobRejection::Stale);
    }
    match content {
        Ok(content) => {
            draft.emit(JobEventKind::OutputFound {
                component: index,
                output,
                content,
            });
        }
        Err(why) => {
            let output = draft
                .job
                .component_spec(index)
                .and_then(|spec| spec.outputs.get(output as usize));
            let path = output
                .map(|output| output.path.to_string())
                .unwrap_or_default();
            let detail = format!("it succeeded, but left no output {path} that can be kept: {why}");
            let detail = detail.into();
            abort::abort_round(
                draft,
                AbortCause::Application {
                    component: index,
                    detail,
                },
            );
        }
    }
    Ok(())
}

/// Records that all outputs of a component that stay are there. The last stands for all of them: a
/// record that changed for each would be written as often as there are files.
pub(super) fn see_outputs(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
) -> Result<(), JobRejection> {
    let last = draft
        .job
        .component_spec(index)
        .and_then(|spec| spec.last_staying_output());
    let output = last.ok_or(JobRejection::Stale)?;
    if find_output_collection(draft, index, output)?.done {
        return Err(JobRejection::Stale);
    }
    draft.emit(JobEventKind::OutputsSeen { component: index });
    Ok(())
}

pub(super) fn record_output_registered(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    output: u32,
) -> Result<(), JobRejection> {
    let state = find_output_collection(draft, index, output)?;
    if state.done || state.content.is_none() {
        return Err(JobRejection::Stale);
    }
    draft.emit(JobEventKind::OutputCollected {
        component: index,
        output,
    });
    Ok(())
}

/// Promotes a job at most once per priority: tries are counted again before a promotion is durable.
pub(super) fn promote_job(draft: &mut DecisionDraft<'_>, to: Priority) -> Result<(), JobRejection> {
    let next = match draft.job.priority {
        Priority::Low => Priority::High,
        Priority::High => Priority::SuperHigh,
        Priority::SuperHigh | Priority::SuperLow => return Err(JobRejection::AlreadySo),
    };
    if to != next || !matches!(draft.job.phase, JobPhase::Queued { .. }) {
        return Err(JobRejection::Stale);
    }
    draft.emit(JobEventKind::PriorityChanged { to, by: None });
    Ok(())
}

pub(super) fn give_up_placement(
    draft: &mut DecisionDraft<'_>,
    tries: u32,
) -> Result<(), JobRejection> {
    // A job that is to have a reservation by now was not tried for a claim.
    if draft.job.claimable_from().is_none() {
        return Err(JobRejection::Stale);
    }
    if draft.job.claims_first() {
        if draft.job.has_live_reservation_search() {
            return Err(JobRejection::Stale);
        }
        let wish = draft
            .job
            .reservation_terms()
            .filter(|wish| draft.now <= wish.window.latest);
        if let Some(wish) = wish {
            // Claims failed for as long as they may: sites are asked now, for the last time.
            let wish = ReservationTerms {
                reserve_after: None,
                ..wish
            };
            let by = draft.job.owner.clone();
            draft.emit(JobEventKind::ReservationChanged {
                wish: Some(wish),
                by,
            });
            return Ok(());
        }
    }
    let reason = format!("not placed after {tries} tries (max_placement_tries)").into();
    draft.emit(JobEventKind::JobFailed { reason });
    Ok(())
}

fn check_not_final(draft: &DecisionDraft<'_>) -> Result<(), JobRejection> {
    if draft.job.is_final() {
        Err(JobRejection::Ended)
    } else {
        Ok(())
    }
}

pub(super) fn set_priority(
    draft: &mut DecisionDraft<'_>,
    to: Priority,
    by: KeyName,
) -> Result<(), JobRejection> {
    check_not_final(draft)?;
    if draft.job.priority == to {
        return Err(JobRejection::AlreadySo);
    }
    draft.emit(JobEventKind::PriorityChanged { to, by: Some(by) });
    Ok(())
}

pub(super) fn freeze_job(draft: &mut DecisionDraft<'_>, by: KeyName) -> Result<(), JobRejection> {
    check_not_final(draft)?;
    if draft.job.frozen_by.is_some() {
        return Err(JobRejection::AlreadySo);
    }
    draft.emit(JobEventKind::JobFrozen { by });
    Ok(())
}

pub(super) fn thaw_job(draft: &mut DecisionDraft<'_>, by: KeyName) -> Result<(), JobRejection> {
    check_not_final(draft)?;
    if draft.job.frozen_by.is_none() {
        return Err(JobRejection::AlreadySo);
    }
    draft.emit(JobEventKind::JobThawed { by });
    Ok(())
}

pub(super) fn hold_job(
    draft: &mut DecisionDraft<'_>,
    reason: Arc<str>,
) -> Result<(), JobRejection> {
    check_not_final(draft)?;
    draft.emit(JobEventKind::JobHeld { reason });
    Ok(())
}

pub(super) fn release_job(draft: &mut DecisionDraft<'_>, by: KeyName) -> Result<(), JobRejection> {
    check_not_final(draft)?;
    if draft.job.held.is_none() {
        return Err(JobRejection::AlreadySo);
    }
    draft.emit(JobEventKind::JobReleased { by });
    Ok(())
}

pub(super) fn record_end_delivery(
    draft: &mut DecisionDraft<'_>,
    target: TargetName,
    problem: Option<Arc<str>>,
) -> Result<(), JobRejection> {
    if !draft
        .job
        .pending_end_receivers()
        .any(|untold| *untold == target)
    {
        return Err(JobRejection::Stale);
    }
    draft.emit(JobEventKind::EndTold { target, problem });
    Ok(())
}

pub(super) fn record_notice_delivery(
    draft: &mut DecisionDraft<'_>,
    id: u32,
    target: TargetName,
    problem: Option<Arc<str>>,
) -> Result<(), JobRejection> {
    if !draft
        .job
        .unsent_notices()
        .any(|(notice, to)| notice.id == id && *to == target)
    {
        return Err(JobRejection::Stale);
    }
    draft.emit(JobEventKind::NoticeTold {
        notice: id,
        target,
        problem,
    });
    Ok(())
}
