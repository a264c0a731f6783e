//! Reservations at a simulated site: kept by the site itself, and enforced.
//!
//! A site that grants reservations starts an attempt of ours at once, or refuses it. It starts
//! local users who break no reservation ([`super::waiting_local_users`]). The free processors are
//! computed for each question, from what runs, what is reserved, and who waits and may not be
//! delayed.

use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::ids::AttemptTag;
use cospan_domain::reservation::{
    IdleDrop, Reservation, ReservationAnswer, ReservationLedger, ReservationTag, TimeSpan,
    Timeline, list_idle_drops,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::{
    AttemptSubmitRequest, FreeSlot, ObservedReservation, ReservationsByTag, SiteError,
    TaggedReservationRequest,
};

use super::SimulatedWorld;
use super::agenda::SiteIndex;
use super::attempt::requested_run_time;
use super::world_site::{BatchJobOwner, SimulatedCluster};
use crate::fault_kinds::FaultKind;

/// Time that nodes which are down are assumed to stay so.
const DOWN: DurationMs = DurationMs(3_600_000);
/// Time from now to the assumed end of a job that runs past its estimate.
const OVERRUN: DurationMs = DurationMs(60_000);

/// The reservations of a site.
#[derive(Debug, Default)]
pub(super) struct SimulatedReservations {
    kept: BTreeMap<ReservationTag, Reservation>,
    /// Reservations that it lost without a word.
    lost: Vec<ReservationTag>,
    /// Reservations that were cancelled on request.
    released: BTreeSet<ReservationTag>,
}

/// All reservations of a site, with what is free beside them.
type SiteReservationLedger = ReservationLedger<ReservationTag>;

fn no_reservations_error() -> SiteError {
    SiteError::Unfit("it grants no reservations".into())
}

impl SimulatedCluster {
    /// Returns true if it grants reservations.
    pub fn grants_reservations(&self) -> bool {
        self.leases.is_some()
    }

    /// Lists the reservations that it has now.
    pub fn current_reservations(&self) -> impl Iterator<Item = (&ReservationTag, &Reservation)> {
        self.leases.iter().flat_map(|leases| &leases.kept)
    }

    /// Returns the idle processors that are not reserved at this moment.
    pub(super) fn unreserved_idle(&self, now: Timestamp) -> u32 {
        let begun = self
            .current_reservations()
            .filter(|(_, lease)| lease.span.from <= now && now < lease.span.to);
        let kept = begun.map(|(tag, lease)| {
            lease
                .amounts
                .whole_processors()
                .saturating_sub(self.used_in_reservation(*tag))
        });
        self.batch.idle_processors().saturating_sub(kept.sum())
    }

    /// Returns how the idle processors decrease as reservations begin.
    pub(super) fn idle_drops(&mut self, now: Timestamp) -> Vec<IdleDrop> {
        if self.current_reservations().next().is_none() {
            return Vec::new();
        }
        let idle = Resources::processors(self.unreserved_idle(now));
        self.ledger_without_ended(now)
            .map(|book| list_idle_drops(book.timeline(), &idle, now))
            .unwrap_or_default()
    }

    /// Returns true if it lost this reservation without a word.
    pub fn has_lost_reservation(&self, tag: ReservationTag) -> bool {
        self.leases
            .as_ref()
            .is_some_and(|leases| leases.lost.contains(&tag))
    }

    /// Returns true if this reservation was ever cancelled on request.
    pub fn has_cancelled_reservation(&self, tag: ReservationTag) -> bool {
        self.leases
            .as_ref()
            .is_some_and(|leases| leases.released.contains(&tag))
    }

    fn ledger_without_ended(&mut self, now: Timestamp) -> Result<SiteReservationLedger, SiteError> {
        let leases = self.leases.as_mut().ok_or_else(no_reservations_error)?;
        leases
            .kept
            .retain(|_, lease| !has_reservation_ended(lease, now));
        self.current_ledger(now)
    }

    /// Returns the reservations as they are, including those that are over.
    fn current_ledger(&self, now: Timestamp) -> Result<SiteReservationLedger, SiteError> {
        let leases = self.leases.as_ref().ok_or_else(no_reservations_error)?;
        let mut beside = self
            .free_beside_unreserved_work(now)
            .ok_or_else(no_reservations_error)?;
        for (span, need) in self.places_of_waiting(now) {
            beside.book(span, &need);
        }
        let mut book = SiteReservationLedger::new(beside);
        let live = leases
            .kept
            .iter()
            .filter(|(_, lease)| !has_reservation_ended(lease, now));
        live.for_each(|(tag, lease)| book.restore(*tag, *lease));
        Ok(book)
    }

    /// Returns what is free when, beside what runs outside of reservations.
    fn free_beside_unreserved_work(&self, now: Timestamp) -> Option<Timeline> {
        let timeline = Timeline::new(now, &Resources::processors(self.processors)).ok()?;
        Some(subtract_taken(timeline, &self.unreserved_work(now), now))
    }

    /// Returns what is free when, beside reservations and what runs outside of them.
    pub(super) fn free_beside_reservations(&self, now: Timestamp) -> Option<Timeline> {
        let mut free = self.free_beside_unreserved_work(now)?;
        let live = self
            .current_reservations()
            .filter(|(_, lease)| !has_reservation_ended(lease, now));
        live.for_each(|(_, lease)| free.book(lease.span, &lease.amounts));
        Some(free)
    }

    /// Returns the processors that are neither used nor reserved for `length` from now.
    pub(super) fn free_for(&self, length: DurationMs, now: Timestamp) -> u32 {
        let span = TimeSpan::new(now, now + length);
        self.current_ledger(now).map_or(0, |book| {
            book.timeline().least_free(span).whole_processors()
        })
    }

    /// Lists what runs outside of reservations, and what is down, each with its end.
    fn unreserved_work(&self, now: Timestamp) -> Vec<(u32, Timestamp)> {
        let mut taken = Vec::new();
        for (job, occupant) in &self.occupants {
            let since = self.batch.running_since(*job).unwrap_or(now);
            let (processors, until) = match occupant {
                BatchJobOwner::Local {
                    said, processors, ..
                } => (*processors, since + *said),
                BatchJobOwner::Ours(tag) => match self.attempts.get(tag) {
                    Some(attempt) if self.runs_in_reservation(*tag) => (0, attempt.submitted_at),
                    Some(attempt) => (attempt.processors, since + attempt.asked),
                    None => (0, now),
                },
            };
            taken.push((processors, until.max(now + OVERRUN)));
        }
        let down = self.processors - self.batch.used_processors() - self.batch.idle_processors();
        taken.push((down, now + DOWN));
        taken
    }

    fn runs_in_reservation(&self, tag: AttemptTag) -> bool {
        let lease = self.attempts.get(&tag).and_then(|attempt| attempt.lease);
        lease.is_some_and(|lease| {
            self.leases
                .as_ref()
                .is_some_and(|leases| leases.kept.contains_key(&lease))
        })
    }

    /// Returns the processors that live attempts use of a reservation.
    fn used_in_reservation(&self, lease: ReservationTag) -> u32 {
        let under = self.attempts.values();
        let under = under.filter(|attempt| attempt.lease == Some(lease) && attempt.is_live());
        under.map(|attempt| attempt.processors).sum()
    }

    /// Runs `work` on the reservations of a site, and keeps the result for one of them.
    fn change_reservation<T>(
        &mut self,
        tag: ReservationTag,
        now: Timestamp,
        work: impl FnOnce(&mut SiteReservationLedger) -> T,
    ) -> Result<T, SiteError> {
        let mut book = self.ledger_without_ended(now)?;
        let result = work(&mut book);
        let after = book.find_by_tag(&tag).copied();
        if let Some(leases) = &mut self.leases {
            match after {
                Some(lease) => drop(leases.kept.insert(tag, lease)),
                None => drop(leases.kept.remove(&tag)),
            }
        }
        Ok(result)
    }

    fn is_free_for(&mut self, processors: u32, length: DurationMs, now: Timestamp) -> bool {
        let span = TimeSpan::new(now, now + length);
        self.ledger_without_ended(now).is_ok_and(|book| {
            let need = book
                .timeline()
                .to_amounts(&Resources::processors(processors));
            need.is_ok_and(|need| book.timeline().is_free(span, &need))
        })
    }

    /// Checks that an attempt may be accepted: under its reservation, or where it breaks none.
    pub(super) fn check_reservations(
        &mut self,
        order: &AttemptSubmitRequest,
        now: Timestamp,
    ) -> Result<(), SiteError> {
        let processors = order.resources.processors;
        let length = requested_run_time(order);
        match order.reservation {
            Some(_) if !self.grants_reservations() => Err(no_reservations_error()),
            None if !self.grants_reservations() => Ok(()),
            Some(tag) => self.check_in_reservation(tag, order, now),
            None => {
                if self.batch.idle_processors() >= processors
                    && self.is_free_for(processors, length, now)
                {
                    Ok(())
                } else {
                    Err(SiteError::SiteFull(
                        "it is taken, or promised to others".into(),
                    ))
                }
            }
        }
    }

    fn check_in_reservation(
        &mut self,
        tag: ReservationTag,
        order: &AttemptSubmitRequest,
        now: Timestamp,
    ) -> Result<(), SiteError> {
        self.ledger_without_ended(now)?;
        if !tag.may_serve(order.tag.instance, order.tag.job) {
            return Err(SiteError::Refused(format!(
                "reservation {tag} is another's"
            )));
        }
        let lease = self
            .leases
            .as_ref()
            .and_then(|leases| leases.kept.get(&tag));
        let Some(lease) = lease else {
            return refuse_as_full("its reservation has ended");
        };
        let left = lease
            .amounts
            .whole_processors()
            .saturating_sub(self.used_in_reservation(tag));
        match () {
            () if now < lease.span.from => refuse_as_full("its reservation has not begun"),
            () if now + order.wall_time > lease.span.to => {
                refuse_as_full("too little is left of its reservation")
            }
            () if left < order.resources.processors => refuse_as_full("its reservation is in use"),
            () => Ok(()),
        }
    }
}

fn refuse_as_full(why: &str) -> Result<(), SiteError> {
    Err(SiteError::SiteFull(why.into()))
}

fn has_reservation_ended(lease: &Reservation, now: Timestamp) -> bool {
    lease.span.to <= now || lease.expires.is_some_and(|expires| expires <= now)
}

fn subtract_taken(mut timeline: Timeline, taken: &[(u32, Timestamp)], now: Timestamp) -> Timeline {
    for (processors, until) in taken.iter().filter(|(processors, _)| *processors > 0) {
        if let Ok(amounts) = timeline.to_amounts(&Resources::processors(*processors)) {
            timeline.book(TimeSpan::new(now, *until), &amounts);
        }
    }
    timeline
}

impl SimulatedWorld {
    /// Requests a reservation.
    ///
    /// # Errors
    /// Fails if the site grants no reservations.
    pub fn request_reservation(
        &mut self,
        site: SiteIndex,
        order: &TaggedReservationRequest,
    ) -> Result<ReservationAnswer, SiteError> {
        let now = self.now;
        let expires = self.now + order.keep_for;
        self.sites[site.0].change_reservation(order.tag, now, |book| {
            book.request_reservation(order.tag, &order.request, expires)
        })
    }

    /// Modifies a reservation; `None`: there is none.
    ///
    /// # Errors
    /// Fails if the site grants no reservations.
    pub fn modify_reservation(
        &mut self,
        site: SiteIndex,
        order: &TaggedReservationRequest,
    ) -> Result<Option<ReservationAnswer>, SiteError> {
        let now = self.now;
        self.sites[site.0].change_reservation(order.tag, now, |book: &mut SiteReservationLedger| {
            book.modify(&order.tag, order.number, &order.request)
        })
    }

    /// Keeps an offer for `keep_for` from now.
    ///
    /// # Errors
    /// Fails if the site grants no reservations.
    pub fn renew_reservation(
        &mut self,
        site: SiteIndex,
        tag: ReservationTag,
        keep_for: DurationMs,
    ) -> Result<bool, SiteError> {
        let now = self.now;
        self.sites[site.0].change_reservation(tag, now, |book| book.renew(&tag, now + keep_for))
    }

    /// Confirms an offer.
    ///
    /// # Errors
    /// Fails if the site grants no reservations.
    pub fn confirm_reservation(
        &mut self,
        site: SiteIndex,
        tag: ReservationTag,
    ) -> Result<bool, SiteError> {
        let now = self.now;
        self.sites[site.0].change_reservation(tag, now, |book| book.confirm(&tag))
    }

    /// Cancels a reservation.
    ///
    /// # Errors
    /// Fails if the site grants no reservations.
    pub fn cancel_reservation(
        &mut self,
        site: SiteIndex,
        tag: ReservationTag,
    ) -> Result<bool, SiteError> {
        let now = self.now;
        let cluster = &mut self.sites[site.0];
        cluster
            .leases
            .iter_mut()
            .for_each(|leases| leases.released.extend([tag]));
        cluster.change_reservation(tag, now, |book| book.cancel(&tag))
    }

    /// Lists all reservations of a site.
    ///
    /// # Errors
    /// Fails if the site grants no reservations.
    pub fn list_reservations(&mut self, site: SiteIndex) -> Result<ReservationsByTag, SiteError> {
        let now = self.now;
        let book = self.sites[site.0].ledger_without_ended(now)?;
        let seen = book.reservations().map(|(tag, lease)| {
            let resources = Resources::processors(lease.amounts.whole_processors());
            let confirmed = lease.expires.is_none();
            (
                *tag,
                ObservedReservation {
                    span: lease.span,
                    resources,
                    confirmed,
                },
            )
        });
        Ok(seen.collect())
    }

    /// Lists what is free when at a site.
    ///
    /// # Errors
    /// Fails if the site grants no reservations.
    pub fn free_slots(
        &mut self,
        site: SiteIndex,
        span: TimeSpan,
        most: usize,
    ) -> Result<Vec<FreeSlot>, SiteError> {
        let now = self.now;
        let book = self.sites[site.0].ledger_without_ended(now)?;
        let timeline = book.timeline();
        let span = TimeSpan::new(span.from.max(now), span.to);
        let slots = timeline.slots(span, most).into_iter().map(|slot| FreeSlot {
            span: slot.span,
            free: timeline.kinds().to_resources(&slot.free),
        });
        Ok(slots.collect())
    }

    /// Makes a site lose all reservations without a word.
    pub(super) fn lose_reservations(&mut self, site: SiteIndex) {
        let Some(leases) = &mut self.sites[site.0].leases else {
            return;
        };
        for (tag, lease) in std::mem::take(&mut leases.kept) {
            leases.lost.push(tag);
            let step = if lease.expires.is_some() {
                "granted"
            } else {
                "confirmed"
            };
            super::site_faults::count_effect(&mut self.struck, FaultKind::LosesLeases, step);
        }
    }
}
