//! Jobs that want a reservation only if they need one: their processors are claimed first, and
//! sites are asked for a reservation once claims have failed for long enough.

use super::reserved_split::is_request_refused;
use crate::job::job_state::{Job, JobPhase};
use crate::units::Timestamp;

impl Job {
    /// Returns the time at which sites are asked for its reservation, if it waits for that: long
    /// ago if it is to be requested at once, past its latest start if sites are not asked any more.
    pub fn reservation_due_at(&self) -> Option<Timestamp> {
        let waits = matches!(self.phase, JobPhase::Queued { .. });
        let rests = self
            .reservation
            .as_deref()
            .is_none_or(|reservation| reservation.spent);
        let wish = self.reservation_terms().filter(|_| waits && rests)?;
        let refusals = self
            .reservation
            .as_deref()
            .map_or(0, |reservation| reservation.refusals);
        Some(wish.next_request_at(self.reservation_wait_start(), refusals))
    }

    /// Returns since when claims for its processors have failed: since sites have refused, or it
    /// was submitted. A reservation that it had and lost is requested anew at once.
    fn reservation_wait_start(&self) -> Timestamp {
        let refused = self
            .reservation
            .as_deref()
            .filter(|reservation| is_request_refused(reservation));
        refused.map_or(self.submitted_at, |reservation| reservation.asked_since)
    }

    /// Returns true if sites are being asked for its reservation, or have confirmed it.
    pub fn has_live_reservation_search(&self) -> bool {
        self.reservation
            .as_deref()
            .is_some_and(|reservation| !reservation.spent)
    }

    /// Returns true if processors are claimed for it as long as it has no reservation.
    pub fn claims_first(&self) -> bool {
        self.reservation_terms()
            .is_some_and(|wish| wish.reserve_after.is_some())
    }

    /// Returns the time from which on it may be claimed, if it waits for idle processors; it may
    /// wait for a reservation at the same time.
    pub fn claimable_from(&self) -> Option<Timestamp> {
        let JobPhase::Queued { not_before, .. } = self.phase else {
            return None;
        };
        match self.reservation_terms() {
            _ if self.shared_reservation().is_some() => None,
            None => Some(not_before),
            // No start is wanted before the earliest, whoever gives it.
            Some(wish) if self.claims_first() && self.reservation_due_at().is_some() => {
                Some(not_before.max(wish.window.earliest))
            }
            Some(_) => None,
        }
    }
}
