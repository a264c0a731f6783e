//! What a job asks sites to reserve, and what comes of it.

use crate::job::event::Happened;
use crate::job::state::{Job, Reservation};
use crate::reserve::Search;
use crate::units::Timestamp;

/// Applies an event of reserving; others change nothing.
pub(super) fn evolve(job: &mut Job, what: &Happened, at: Timestamp) {
    match what {
        Happened::ReservationSought { wanted, placements, lead } => {
            let last = job.reservation.as_deref().map(Reservation::last_serial).unwrap_or_default();
            let search = Search::after(wanted.clone(), last);
            let sought = Reservation::sought(search, placements.clone(), *lead, at);
            job.reservation = Some(Box::new(sought));
        }
        Happened::ReservationAnswered { outcome, .. } => {
            job.reservation.iter_mut().for_each(|reservation| reservation.record(*outcome, at));
        }
        _ => {}
    }
}

/// What is left of it goes back to the sites.
pub(super) fn release(job: &mut Job, at: Timestamp) {
    job.reservation.iter_mut().for_each(|reservation| reservation.give_up(at));
}

/// Another one may be asked for.
pub(super) fn spend(job: &mut Job) {
    job.reservation.iter_mut().for_each(|reservation| reservation.spent = true);
}
