//! Which way a job gets its processors that wants a reservation only if it needs one: they are
//! claimed first, and sites are asked for a promise once that was in vain for long enough.

use super::split::is_refused;
use crate::job::state::{Job, JobPhase};
use crate::units::Timestamp;

impl Job {
    /// When sites are asked for its reservation, if it waits for that: long ago if it is to be
    /// asked for at once, past its latest start if they are not asked any more.
    pub fn reservation_asked_at(&self) -> Option<Timestamp> {
        let waits = matches!(self.phase, JobPhase::Queued { .. });
        let rests = self
            .reservation
            .as_deref()
            .is_none_or(|reservation| reservation.spent);
        let wish = self.reservation_wish().filter(|_| waits && rests)?;
        let refusals = self
            .reservation
            .as_deref()
            .map_or(0, |reservation| reservation.refusals);
        Some(wish.asked_at(self.waits_for_reservation_since(), refusals))
    }

    /// Since when its processors are claimed in vain: since sites have said no, or it was
    /// submitted. What it had and lost is asked for anew at once.
    fn waits_for_reservation_since(&self) -> Timestamp {
        let refused = self
            .reservation
            .as_deref()
            .filter(|reservation| is_refused(reservation));
        refused.map_or(self.submitted_at, |reservation| reservation.asked_since)
    }

    /// Whether sites are being asked for its reservation, or have promised it a start.
    pub fn is_being_promised(&self) -> bool {
        self.reservation
            .as_deref()
            .is_some_and(|reservation| !reservation.spent)
    }

    /// Whether processors are claimed for it as long as it is promised none.
    pub fn claims_first(&self) -> bool {
        self.reservation_wish()
            .is_some_and(|wish| wish.reserve_after.is_some())
    }

    /// Whether it waits for processors that are idle, and since when that may be; it may wait for
    /// a promise at the same time.
    pub fn waits_for_claim(&self) -> Option<Timestamp> {
        let JobPhase::Queued { not_before, .. } = self.phase else {
            return None;
        };
        match self.reservation_wish() {
            _ if self.shares().is_some() => None,
            None => Some(not_before),
            // No start is wanted before the earliest, whoever gives it.
            Some(wish) if self.claims_first() && self.reservation_asked_at().is_some() => {
                Some(not_before.max(wish.window.earliest))
            }
            Some(_) => None,
        }
    }
}
