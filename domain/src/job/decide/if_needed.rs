//! Changes the terms of a job's reservations: another start, or no reservation any more.

use crate::acquisition::ReservationTerms;
use crate::ids::KeyName;
use crate::job::decide::decision_draft::DecisionDraft;
use crate::job::decide::reservation_answers::{place_reserved, reservation_window};
use crate::job::job_command::JobRejection;
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{AbortCause, AbortConsequence, JobPhase, JobReservations};
use crate::reservation::{Coallocation, ReservationSearchState};
use crate::units::DurationMs;

/// Decides on a user's command for another start, or for no reservation.
pub(super) fn change_terms(
    draft: &mut DecisionDraft<'_>,
    wish: Option<ReservationTerms>,
    by: KeyName,
) -> Result<(), JobRejection> {
    if draft.job.is_final() {
        return Err(JobRejection::Ended);
    }
    let present = draft.job.reservation_terms();
    // A user who wants another start does not take back that the job may be rescheduled.
    let stays_flexible = present.is_some_and(|present| present.flexible);
    let claims = present.is_some_and(|present| present.unreserved);
    let wish = wish.map(|wish| ReservationTerms {
        flexible: wish.flexible || stays_flexible,
        unreserved: wish.unreserved || claims,
        ..wish
    });
    let offset = draft.job.spec.longest_offset();
    let most_ahead = draft.parameters.reservation_ahead;
    if offset > DurationMs::ZERO {
        check_offset_terms(wish.as_ref())?;
    }
    match wish {
        None => drop_reservation(draft, by),
        Some(_) if present.is_none() => Err(JobRejection::Impossible("it wants no reservation")),
        Some(wish) if wish.validate().is_err() => Err(JobRejection::Impossible(
            "no start can be granted within such a window",
        )),
        Some(wish) if wish.window.latest < draft.now => Err(JobRejection::Impossible(
            "the latest start that is wanted has passed",
        )),
        Some(wish) if wish.excess_lead(draft.now, offset, most_ahead).is_some() => {
            Err(JobRejection::Impossible(
                "the latest start that is wanted is further ahead than users may reserve \
                 (`reservations.most_ahead`); give an earlier one, or ask an operator",
            ))
        }
        Some(wish) => move_reservation(draft, wish, by),
    }
}

/// Checks that a job whose components do not all begin at its start can have these terms.
fn check_offset_terms(wish: Option<&ReservationTerms>) -> Result<(), JobRejection> {
    match wish {
        None => Err(JobRejection::Impossible(
            "components of it begin later than the others (`start_after`), which needs a reserved \
             start; move that, or cancel the job",
        )),
        Some(wish) if wish.flexible || wish.unreserved || wish.reserve_after.is_some() => {
            Err(JobRejection::Impossible(
                "components of it begin later than the others (`start_after`): its reserved start \
                 is for the whole job, and does not move by itself",
            ))
        }
        Some(_) => Ok(()),
    }
}

/// Cancels its reservations; it waits for placement as others do.
fn drop_reservation(draft: &mut DecisionDraft<'_>, by: KeyName) -> Result<(), JobRejection> {
    match draft.job.phase {
        _ if draft.job.reservation_terms().is_none() => return Err(JobRejection::AlreadySo),
        JobPhase::Queued { .. } | JobPhase::Placed { .. } | JobPhase::Claiming { .. } => {}
        JobPhase::Aborting { .. } => return Err(JobRejection::Impossible(ENDING)),
        JobPhase::Starting { .. }
        | JobPhase::Running { .. }
        | JobPhase::Collecting { .. }
        | JobPhase::Finished { .. }
        | JobPhase::Failed { .. }
        | JobPhase::Cancelled { .. } => return Err(JobRejection::Impossible(BEGUN)),
    }
    draft.emit(JobEventKind::ReservationChanged {
        wish: None,
        by: by.clone(),
    });
    cancel_and_requeue(draft, by);
    Ok(())
}

const BEGUN: &str = "it has begun; what is left of its reservation goes back when it ends";
const ENDING: &str = "its round is just being aborted; try again once the job waits";

fn move_reservation(
    draft: &mut DecisionDraft<'_>,
    wish: ReservationTerms,
    by: KeyName,
) -> Result<(), JobRejection> {
    match draft.job.phase {
        JobPhase::Queued { .. } => {
            draft.emit(JobEventKind::ReservationChanged {
                wish: Some(wish),
                by: by.clone(),
            });
            cancel_and_requeue(draft, by);
            Ok(())
        }
        JobPhase::Placed { .. } => request_other_start(draft, wish, by),
        JobPhase::Aborting { .. } => Err(JobRejection::Impossible(ENDING)),
        JobPhase::Claiming { .. } => Err(JobRejection::Impossible("its reservation has begun")),
        JobPhase::Starting { .. }
        | JobPhase::Running { .. }
        | JobPhase::Collecting { .. }
        | JobPhase::Finished { .. }
        | JobPhase::Failed { .. }
        | JobPhase::Cancelled { .. } => Err(JobRejection::Impossible(BEGUN)),
    }
}

/// Cancels the reservations that it has or requests.
fn cancel_and_requeue(draft: &mut DecisionDraft<'_>, by: KeyName) {
    let is_held = draft
        .job
        .reservation
        .as_ref()
        .is_some_and(|held| !held.is_released());
    if is_held || !matches!(draft.job.phase, JobPhase::Queued { .. }) {
        let then = AbortConsequence::Requeue {
            not_before: draft.now,
        };
        draft.emit(JobEventKind::RoundAborted {
            why: AbortCause::ReservationChanged { by },
            then,
        });
    }
}

/// Requests another start, at the sites that could take it, while the present reservations stay.
fn request_other_start(
    draft: &mut DecisionDraft<'_>,
    wish: ReservationTerms,
    by: KeyName,
) -> Result<(), JobRejection> {
    let held = draft
        .job
        .reservation
        .as_deref()
        .filter(|reservation| !reservation.spent);
    let Some(reservation) = held else {
        return Err(JobRejection::Impossible(
            "its processors are just being claimed",
        ));
    };
    let is_moving = reservation.other.as_ref().is_some_and(|other| {
        !matches!(
            other.search.current_state(),
            ReservationSearchState::Failed(_)
        )
    });
    if is_moving {
        return Err(JobRejection::Impossible(
            "it is being moved already; try again in a moment",
        ));
    }
    let window = reservation_window(draft, wish.window);
    let tolerance = wish.tolerance.min(window.latest.since(window.earliest));
    let old = &reservation.search.job;
    // The length stays as before, but for the tolerance.
    let parts = old.parts.iter().cloned().map(|mut part| {
        let rest = DurationMs(part.length.0.saturating_sub(old.tolerance.0));
        part.length = rest + tolerance;
        part
    });
    let windows_max = draft.parameters.reservation_windows;
    let rankings = old
        .rankings
        .iter()
        .map(|ranking| ranking.predicted_from(draft.now))
        .collect();
    let parts = parts.collect();
    let unit = old.unit;
    let wanted = Coallocation {
        parts,
        window,
        tolerance,
        unit,
        windows_max,
        rankings,
    };
    draft.emit(JobEventKind::ReservationMoveSought { wish, wanted, by });
    Ok(())
}

/// Acts on the end of the search for another start.
pub(super) fn step_rescheduling(draft: &mut DecisionDraft<'_>) {
    let search = draft
        .job
        .reservation
        .as_deref()
        .and_then(JobReservations::rescheduling_search);
    let Some((search, _)) = search else { return };
    match search.current_state() {
        ReservationSearchState::Asks(_) => {}
        ReservationSearchState::Failed(failure) => {
            let next = search
                .best
                .map(|next| next + draft.parameters.reservation_lead);
            draft.emit(JobEventKind::ReservationStayed { failure, next });
        }
        // A frozen job is placed anew once it is thawed.
        ReservationSearchState::Confirmed
            if matches!(draft.job.phase, JobPhase::Placed { .. })
                && draft.job.frozen_by.is_none() =>
        {
            draft.emit(JobEventKind::ReservationMoved);
            place_reserved(draft);
        }
        ReservationSearchState::Confirmed => {}
    }
}
