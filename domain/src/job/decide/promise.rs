//! Changing the start that a job is promised, or is to be: another one, or none.

use crate::acquire::ReservationWish;
use crate::ids::KeyName;
use crate::job::command::Rejection;
use crate::job::decide::draft::Draft;
use crate::job::decide::reserving::{place, start_window};
use crate::job::event::Happened;
use crate::job::state::{AbortCause, AfterAbort, Phase, Reservation};
use crate::reserve::{Coallocation, Standing};
use crate::units::DurationMs;

/// A user wants another start, or none.
pub(super) fn change(
    draft: &mut Draft<'_>,
    wish: Option<ReservationWish>,
    by: KeyName,
) -> Result<(), Rejection> {
    if draft.job.is_final() {
        return Err(Rejection::Ended);
    }
    let present = draft.job.reservation_wish();
    // Whoever says another start does not take back that it may be moved.
    let stays_flexible = present.is_some_and(|present| present.flexible);
    let claims = present.is_some_and(|present| present.unreserved);
    let wish = wish.map(|wish| ReservationWish {
        flexible: wish.flexible || stays_flexible,
        unreserved: wish.unreserved || claims,
        ..wish
    });
    let (offset, most_ahead) = (
        draft.job.spec.longest_offset(),
        draft.parameters.reservation_ahead,
    );
    if offset > DurationMs::ZERO {
        check_spread(wish.as_ref())?;
    }
    match wish {
        None => drop_it(draft, by),
        Some(_) if present.is_none() => {
            Err(Rejection::Impossible("it is not to be promised a start"))
        }
        Some(wish) if wish.validate().is_err() => Err(Rejection::Impossible(
            "no start can be granted within such a window",
        )),
        Some(wish) if wish.window.latest < draft.now => Err(Rejection::Impossible(
            "the latest start that is wanted has passed",
        )),
        Some(wish) if wish.too_far(draft.now, offset, most_ahead).is_some() => {
            Err(Rejection::Impossible(
                "the latest start that is wanted is further ahead than users may reserve \
                 (`reservations.most_ahead`); give an earlier one, or ask an operator",
            ))
        }
        Some(wish) => move_it(draft, wish, by),
    }
}

/// Whether a job whose components do not all begin at its start could have this.
fn check_spread(wish: Option<&ReservationWish>) -> Result<(), Rejection> {
    match wish {
        None => Err(Rejection::Impossible(
            "components of it begin later than the others (`start_after`), which takes a promised \
             start; move that, or cancel the job",
        )),
        Some(wish) if wish.flexible || wish.unreserved || wish.reserve_after.is_some() => {
            Err(Rejection::Impossible(
                "components of it begin later than the others (`start_after`): it is promised one \
                 start as a whole, which is not moved by itself",
            ))
        }
        Some(_) => Ok(()),
    }
}

/// What was promised goes back, and it waits for placement as others do.
fn drop_it(draft: &mut Draft<'_>, by: KeyName) -> Result<(), Rejection> {
    match draft.job.phase {
        _ if draft.job.reservation_wish().is_none() => return Err(Rejection::AlreadySo),
        Phase::Queued { .. } | Phase::Placed { .. } | Phase::Claiming { .. } => {}
        Phase::Aborting { .. } => return Err(Rejection::Impossible(ENDING)),
        Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Collecting { .. }
        | Phase::Finished { .. }
        | Phase::Failed { .. }
        | Phase::Cancelled { .. } => return Err(Rejection::Impossible(BEGUN)),
    }
    draft.emit(Happened::ReservationChanged {
        wish: None,
        by: by.clone(),
    });
    begin_anew(draft, by);
    Ok(())
}

const BEGUN: &str = "it has begun; what is left of its reservation goes back when it ends";
const ENDING: &str = "its round is just being given up; try again once it waits";

fn move_it(draft: &mut Draft<'_>, wish: ReservationWish, by: KeyName) -> Result<(), Rejection> {
    match draft.job.phase {
        Phase::Queued { .. } => {
            draft.emit(Happened::ReservationChanged {
                wish: Some(wish),
                by: by.clone(),
            });
            begin_anew(draft, by);
            Ok(())
        }
        Phase::Placed { .. } => look_beside(draft, wish, by),
        Phase::Aborting { .. } => Err(Rejection::Impossible(ENDING)),
        Phase::Claiming { .. } => Err(Rejection::Impossible("its reservation has begun")),
        Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Collecting { .. }
        | Phase::Finished { .. }
        | Phase::Failed { .. }
        | Phase::Cancelled { .. } => Err(Rejection::Impossible(BEGUN)),
    }
}

/// Gives back what it has, or is being asked for.
fn begin_anew(draft: &mut Draft<'_>, by: KeyName) {
    let is_held = draft
        .job
        .reservation
        .as_ref()
        .is_some_and(|held| !held.is_released());
    if is_held || !matches!(draft.job.phase, Phase::Queued { .. }) {
        let then = AfterAbort::Requeue {
            not_before: draft.now,
        };
        draft.emit(Happened::RoundAborted {
            why: AbortCause::ReservationChanged { by },
            then,
        });
    }
}

/// Looks for another start, at the sites that could hold it, beside the one that is promised.
fn look_beside(draft: &mut Draft<'_>, wish: ReservationWish, by: KeyName) -> Result<(), Rejection> {
    let held = draft
        .job
        .reservation
        .as_deref()
        .filter(|reservation| !reservation.spent);
    let Some(reservation) = held else {
        return Err(Rejection::Impossible(
            "its processors are just being claimed",
        ));
    };
    let is_moving = reservation
        .other
        .as_ref()
        .is_some_and(|other| !matches!(other.search.standing(), Standing::Failed(_)));
    if is_moving {
        return Err(Rejection::Impossible(
            "it is being moved already; try again in a moment",
        ));
    }
    let window = start_window(draft, wish.window);
    let tolerance = wish.tolerance.min(window.latest.since(window.earliest));
    let old = &reservation.search.job;
    // What it lasts for: as before, with another tolerance.
    let parts = old.parts.iter().cloned().map(|mut part| {
        let rest = DurationMs(part.length.0.saturating_sub(old.tolerance.0));
        part.length = rest + tolerance;
        part
    });
    let windows_max = draft.parameters.reservation_windows;
    let rankings = old
        .rankings
        .iter()
        .map(|ranking| ranking.anew(draft.now))
        .collect();
    let (parts, unit) = (parts.collect(), old.unit);
    let wanted = Coallocation {
        parts,
        window,
        tolerance,
        unit,
        windows_max,
        rankings,
    };
    draft.emit(Happened::ReservationMoveSought { wish, wanted, by });
    Ok(())
}

/// What follows once the search for another start has ended.
pub(super) fn step(draft: &mut Draft<'_>) {
    let search = draft
        .job
        .reservation
        .as_deref()
        .and_then(Reservation::moving);
    let Some((search, _)) = search else { return };
    match search.standing() {
        Standing::Asks(_) => {}
        Standing::Failed(failure) => {
            let next = search
                .best
                .map(|next| next + draft.parameters.reservation_lead);
            draft.emit(Happened::ReservationStayed { failure, next });
        }
        // Frozen, it is placed anew once it is thawed.
        Standing::Confirmed
            if matches!(draft.job.phase, Phase::Placed { .. }) && draft.job.frozen_by.is_none() =>
        {
            draft.emit(Happened::ReservationMoved);
            place(draft);
        }
        Standing::Confirmed => {}
    }
}
