//! Applies events about the reservations of a job.

use crate::job::job_event::JobEventKind;
use crate::job::job_state::{Job, JobPhase, JobReservations, StartNoticeKind, TermsChange};
use crate::reservation::ReservationSearch;
use crate::units::Timestamp;

/// Applies an event of reserving; others change nothing.
pub(super) fn apply_reservation_event(job: &mut Job, what: &JobEventKind, at: Timestamp) {
    match what {
        JobEventKind::ReservationSought {
            wanted,
            placements,
            lead,
            split,
        } => {
            let before = job.reservation.take();
            let last = before
                .as_deref()
                .map(JobReservations::last_serial)
                .unwrap_or_default();
            let search = ReservationSearch::after_serial(wanted.clone(), last);
            let (notices, refusals) = before
                .map(|before| (before.notices, before.refusals))
                .unwrap_or_default();
            let sought = JobReservations::from_search(search, placements.clone(), *lead, at);
            let sought = JobReservations {
                notices,
                split: *split,
                refusals,
                ..sought
            };
            job.reservation = Some(Box::new(sought));
        }
        JobEventKind::ReservationAnswered { outcome, .. } => {
            job.reservation
                .iter_mut()
                .for_each(|reservation| reservation.record_answer(*outcome, at));
        }
        JobEventKind::ReservationChanged { wish, .. } => {
            job.wish = wish.map_or(TermsChange::Dropped, TermsChange::Changed);
            forget_refusals(job);
        }
        JobEventKind::ReservationMoveSought { wish, wanted, .. } => {
            if let Some(reservation) = &mut job.reservation {
                let search =
                    ReservationSearch::after_serial(wanted.clone(), reservation.last_serial());
                reservation.begin_rescheduling(search, *wish, None, at);
            }
        }
        JobEventKind::ReservationForwardSought { wanted, anew, .. } => {
            let wish = job.reservation_terms();
            if let (Some(reservation), Some(wish)) = (&mut job.reservation, wish) {
                let search =
                    ReservationSearch::after_serial(wanted.clone(), reservation.last_serial());
                reservation.begin_rescheduling(search, wish, anew.as_deref().cloned(), at);
            }
        }
        JobEventKind::ReservationMoved => {
            let wish = job
                .reservation
                .as_mut()
                .and_then(|reservation| reservation.adopt_rescheduled(at));
            job.wish = wish.map_or(job.wish, TermsChange::Changed);
            job.owe_notice(StartNoticeKind::StartMoved, at);
        }
        JobEventKind::StartAnnounced => job.owe_notice(StartNoticeKind::StartsSoon, at),
        JobEventKind::NoticeTold { notice, target, .. } => job.record_notice(*notice, target),
        JobEventKind::ReservationStayed { .. } => {
            job.reservation
                .iter_mut()
                .for_each(|reservation| reservation.other = None);
        }
        JobEventKind::ReservationWithheld { next, .. } => {
            job.reservation
                .iter_mut()
                .for_each(|reservation| reservation.record_over_quota(*next, at));
        }
        JobEventKind::ReservationForgone { .. } => {
            settle_reservation(job);
            job.reservation
                .iter_mut()
                .for_each(|reservation| reservation.refusals += 1);
        }
        JobEventKind::UnreservedChosen { claimed } => {
            job.reservation
                .iter_mut()
                .for_each(|r| r.claimed.clone_from(claimed));
        }
        _ => {}
    }
}

/// Ends a rescheduling once processors are claimed under the job's reservations: no others replace
/// them then.
pub(super) fn stop_rescheduling_on_claim(job: &mut Job, what: &JobEventKind, at: Timestamp) {
    if matches!(
        what,
        JobEventKind::ClaimBegun | JobEventKind::ComponentsClaimed { .. }
    ) {
        job.reservation
            .iter_mut()
            .for_each(|reservation| reservation.stop_rescheduling(at));
    }
}

/// Has sites asked once more whether they still have the reservations before the job is placed
/// there: those that were confirmed while it was frozen may be gone.
pub(super) fn recheck_reservations(job: &mut Job, at: Timestamp) {
    let is_placed = match job.phase {
        JobPhase::Queued { .. } => false,
        JobPhase::Placed { .. } => true,
        _ => return,
    };
    let held = job
        .reservation
        .iter_mut()
        .filter(|reservation| !reservation.spent);
    held.for_each(|reservation| reservation.recheck_confirmed(is_placed, at));
}

/// Cancels what is left of the reservations at the sites.
pub(super) fn cancel_reservations(job: &mut Job, at: Timestamp) {
    job.reservation
        .iter_mut()
        .for_each(|reservation| reservation.begin_cancelling(at));
}

/// Marks the reservation as settled, so that another one may be requested.
pub(super) fn settle_reservation(job: &mut Job) {
    job.reservation
        .iter_mut()
        .for_each(|reservation| reservation.spent = true);
}

/// Forgets refusals, so that the next pause before a request is as short as the first.
pub(super) fn forget_refusals(job: &mut Job) {
    job.reservation
        .iter_mut()
        .for_each(|reservation| reservation.refusals = 0);
}
