//! The reservations of a job: one search for all of its components, and its outcome.
//!
//! They belong to the job and are part of its record. The next call follows from the record alone,
//! so that after a restart the same call is made again, under the same serial; the caller first
//! looks up what a lost answer may have left ([`JobReservations::due_call`]).

mod acquisition_order;
mod preferred_sites;
mod reschedulable;
pub(in crate::job) mod reserved_split;
mod start_notices;
mod unreserved_components;

pub use preferred_sites::RankingKnowledge;
pub(crate) use preferred_sites::{ReservationDemand, reservation_begin_window};
pub use reschedulable::ReschedulableJob;
pub use reserved_split::{AlternativeDivision, JobDivision};
pub use start_notices::{StartNotice, StartNoticeKind, StartNotices};
pub use unreserved_components::UnreservedComponent;

use crate::acquisition::{Acquisition, ReservationTerms, UsedReservation};
use crate::ids::{ComponentIndex, ReservationName};
use crate::job::job_parameters::JobParameters;
use crate::job::job_state::{Component, Job, JobPhase};
use crate::placed::Placement;
use crate::reservation::{
    CoallocationPart, PartReservation, ReservationCall, ReservationOutcome, ReservationSearch,
    ReservationSearchFailure, ReservationSearchState, ReservationSerial,
};
use crate::units::{DurationMs, Timestamp};

/// The terms of a job's reservations, where they differ from those it was submitted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TermsChange {
    /// The terms of the specification.
    #[default]
    AsSubmitted,
    /// Other terms: its user changed them.
    Changed(ReservationTerms),
    /// No reservation any more: it is placed as others are.
    Dropped,
}

/// A second search, beside the one whose reservations count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescheduling {
    /// The search; its parts are those of the first, unless `anew` says otherwise.
    pub search: ReservationSearch,
    /// The terms that hold if it finds everything that it looks for. `None`: its reservations are
    /// being cancelled, because those of the first search took their place.
    pub wish: Option<ReservationTerms>,
    /// The parts of a flexible job, if they differ from those of the first search.
    pub anew: Option<AlternativeDivision>,
}

/// The reservations of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobReservations {
    /// The search for them; its parts are the job's components.
    pub search: ReservationSearch,
    /// By part, and rank of its site: the placement of the component.
    pub placements: Vec<Vec<Placement>>,
    /// The time by which reservations begin before the reserved start, so that all components come
    /// to their gates.
    pub lead: DurationMs,
    /// Number of calls that were answered.
    pub answers: u32,
    /// The time since when the present call waits for its answer.
    pub asked_since: Timestamp,
    /// True once the consequences of its end were decided: another reservation may be requested.
    pub spent: bool,
    /// The search that is to replace these reservations, or that had their place before.
    pub other: Option<Rescheduling>,
    /// Components without a reservation.
    pub claimed: Vec<UnreservedComponent>,
    /// True if a site was not asked, as its user may reserve no more there.
    pub withheld: bool,
    /// Messages about the reserved start.
    pub notices: StartNotices,
    /// The division of a flexible job.
    pub split: Option<JobDivision>,
    /// Number of refusals since the job was last placed, if processors are claimed for it
    /// meanwhile.
    pub refusals: u32,
}

impl JobReservations {
    /// Begins with a search for which sites are to be asked.
    pub(super) fn from_search(
        search: ReservationSearch,
        placements: Vec<Vec<Placement>>,
        lead: DurationMs,
        now: Timestamp,
    ) -> Self {
        Self {
            search,
            placements,
            lead,
            answers: 0,
            asked_since: now,
            spent: false,
            other: None,
            claimed: Vec::new(),
            withheld: false,
            notices: StartNotices::default(),
            split: None,
            refusals: 0,
        }
    }

    /// Returns the call that is due, and its number.
    pub fn due_call(&self) -> Option<(u32, ReservationCall)> {
        self.calling_search()
            .and_then(due_call_of)
            .map(|ask| (self.answers, ask))
    }

    /// Returns the search that makes the due call.
    pub fn calling_search(&self) -> Option<&ReservationSearch> {
        let mut searches = self
            .other
            .iter()
            .map(|other| &other.search)
            .chain([&self.search]);
        searches.find(|search| due_call_of(search).is_some())
    }

    /// Applies the answer to the due call.
    pub(super) fn record_answer(&mut self, outcome: ReservationOutcome, now: Timestamp) {
        let other = self.other.as_mut().map(|other| &mut other.search);
        let search = other.filter(|search| due_call_of(search).is_some());
        search.unwrap_or(&mut self.search).record_outcome(outcome);
        self.answers += 1;
        self.asked_since = now;
    }

    /// Records that the site is not asked, as its user may reserve no more there.
    pub(super) fn record_over_quota(&mut self, next: Option<Timestamp>, now: Timestamp) {
        self.withheld = true;
        self.record_answer(ReservationOutcome::Refused { next }, now);
    }

    /// Begins to cancel it, as nobody needs it any more.
    pub(super) fn begin_cancelling(&mut self, now: Timestamp) {
        self.stop_rescheduling(now);
        if !is_search_over(&self.search) && !self.search.given_up {
            self.search.give_up();
            self.asked_since = now;
        }
    }

    /// Begins to search for reservations that are to replace it.
    pub(super) fn begin_rescheduling(
        &mut self,
        search: ReservationSearch,
        wish: ReservationTerms,
        anew: Option<AlternativeDivision>,
        now: Timestamp,
    ) {
        self.other = Some(Rescheduling {
            search,
            wish: Some(wish),
            anew,
        });
        self.asked_since = now;
    }

    /// Has sites confirm again what they confirmed some time ago: the reservations that are to
    /// replace these if the job is placed, else these. No site is asked about a reservation that
    /// has ended.
    pub(super) fn recheck_confirmed(&mut self, is_placed: bool, now: Timestamp) {
        let ended = !is_placed && self.has_ended(now);
        let other = self.other.as_mut().filter(|other| other.wish.is_some());
        let search = if is_placed {
            other.map(|other| &mut other.search)
        } else {
            Some(&mut self.search)
        };
        let confirmed = search
            .filter(|search| !ended && search.current_state() == ReservationSearchState::Confirmed);
        if let Some(search) = confirmed {
            search.confirm_again();
            self.asked_since = now;
        }
    }

    /// Returns true if a reservation of it is over: its job was frozen for so long.
    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        let placements = self.placements().unwrap_or_default();
        placements
            .iter()
            .filter_map(|p| p.acquisition.reservation_use())
            .any(|it| it.to <= now)
    }

    /// Ends the search for reservations that were to replace it.
    pub(super) fn stop_rescheduling(&mut self, now: Timestamp) {
        let other = self.other.as_mut().map(|other| &mut other.search);
        if let Some(search) = other.filter(|search| !is_search_over(search) && !search.given_up) {
            search.give_up();
            self.asked_since = now;
        }
    }

    /// Replaces it by the others and begins to cancel it; returns the terms that hold from now on.
    pub(super) fn adopt_rescheduled(&mut self, now: Timestamp) -> Option<ReservationTerms> {
        let other = self.other.as_mut()?;
        std::mem::swap(&mut self.search, &mut other.search);
        let wish = other.wish.take();
        let anew = other.anew.take();
        self.adopt_division(anew);
        self.stop_rescheduling(now);
        wish
    }

    /// Returns the search for reservations that are to replace it, and their terms.
    pub fn rescheduling_search(&self) -> Option<(&ReservationSearch, ReservationTerms)> {
        let other = self.other.as_ref()?;
        other.wish.map(|wish| (&other.search, wish))
    }

    /// Returns the time at which a site that does not answer is taken to have refused.
    pub fn silence_deadline(&self, parameters: &JobParameters) -> Option<Timestamp> {
        self.due_call()
            .map(|_| self.asked_since + parameters.reservation_patience)
    }

    /// Returns true if nothing of it is left at any site.
    pub fn is_released(&self) -> bool {
        is_search_over(&self.search)
            && self
                .other
                .as_ref()
                .is_none_or(|other| is_search_over(&other.search))
    }

    /// Returns the last serial that was used.
    pub fn last_serial(&self) -> ReservationSerial {
        let other = self.other.as_ref().map_or(0, |other| other.search.serials);
        ReservationSerial(self.search.serials.max(other))
    }

    /// Returns true if the job has use for a reservation that a site has, or may have, under this
    /// serial.
    pub fn needs_serial(&self, serial: ReservationSerial) -> bool {
        let asked = match self.due_call() {
            Some((_, ReservationCall::Create { serial: asked, .. })) => asked == serial,
            Some(_) | None => false,
        };
        let other = self
            .other
            .iter()
            .flat_map(|other| other.search.owned_reservations());
        asked
            || self
                .search
                .owned_reservations()
                .chain(other)
                .any(|owned| owned.serial == serial)
    }

    /// Iterates over the parts with their reservations.
    pub fn parts(&self) -> impl Iterator<Item = (&CoallocationPart, Option<&PartReservation>)> {
        let held = self.search.part_reservations().iter().map(Option::as_ref);
        self.search.job.parts.iter().zip(held)
    }

    /// Returns the placement of each component, once each has a confirmed reservation.
    pub fn placements(&self) -> Option<Vec<Placement>> {
        let all = self
            .search
            .job
            .parts
            .iter()
            .zip(&self.placements)
            .zip(self.search.part_reservations());
        let mut placed = all
            .map(|((part, placements), held)| {
                let PartReservation {
                    site,
                    serial,
                    start,
                } = held.as_ref()?;
                let placement = placements
                    .iter()
                    .find(|placement| placement.site == *site)?;
                let to = *start + part.length;
                let promised = UsedReservation {
                    serial: *serial,
                    from: *start,
                    to,
                    shared: false,
                };
                let acquisition = Acquisition::Reserved(promised);
                Some((
                    part.component,
                    Placement {
                        acquisition,
                        ..placement.clone()
                    },
                ))
            })
            .collect::<Option<Vec<_>>>()?;
        placed.extend(
            self.claimed
                .iter()
                .map(UnreservedComponent::claimed_placement),
        );
        placed.sort_by_key(|(component, _)| *component);
        Some(placed.into_iter().map(|(_, placement)| placement).collect())
    }
}

fn due_call_of(search: &ReservationSearch) -> Option<ReservationCall> {
    match search.current_state() {
        ReservationSearchState::Asks(ask) => Some(ask),
        ReservationSearchState::Confirmed | ReservationSearchState::Failed(_) => None,
    }
}

/// Returns true if nothing of it is left at any site.
fn is_search_over(search: &ReservationSearch) -> bool {
    matches!(search.current_state(), ReservationSearchState::Failed(_))
}

impl Job {
    /// Returns the terms of its reservations, if it is to have any.
    pub fn reservation_terms(&self) -> Option<ReservationTerms> {
        match self.wish {
            TermsChange::AsSubmitted => self.spec.run.reservation,
            TermsChange::Changed(wish) => Some(wish),
            TermsChange::Dropped => None,
        }
    }

    /// Returns the shared reservation that it names, if any.
    pub fn shared_reservation(&self) -> Option<&ReservationName> {
        self.spec.run.within.as_ref()
    }

    /// Returns true if it waits for a place within the shared reservation that it names.
    pub fn waits_in_shared_reservation(&self) -> bool {
        self.shared_reservation().is_some()
            && matches!(self.phase, JobPhase::Queued { .. })
            && self.frozen_by.is_none()
            && self.held.is_none()
    }

    /// Returns true if it waits for candidate sites for a reservation.
    pub fn seeks_reservation(&self) -> bool {
        self.reservation_due_at().is_some() && self.frozen_by.is_none() && self.held.is_none()
    }

    /// Returns the earliest later start that sites named when they refused its reservation. For
    /// several components it is a hint: no start is granted before.
    pub fn reservation_refused_until(&self) -> Option<Timestamp> {
        let reservation = self.reservation.as_deref()?;
        let refused = ReservationSearchState::Failed(ReservationSearchFailure::NoCommonStart);
        let next = reservation
            .search
            .best
            .filter(|_| reservation.search.current_state() == refused);
        next.map(|next| next + reservation.lead)
    }

    /// Returns the begin of its last reservation, if its components have any. For a component that
    /// begins later, this is the latest begin of the others' reservations that fits it.
    pub fn last_reservation_begin(&self) -> Option<Timestamp> {
        self.indexed_components()
            .filter_map(|(index, component): (ComponentIndex, &Component)| {
                Some(component.acquisition().reservation_use()?.from - self.spec.offset_of(index))
            })
            .max()
    }

    /// Returns the start of the payloads that begin together: when the last reservation has begun
    /// and all could come to their gates, but within the window that the user accepts.
    pub fn reserved_start(&self) -> Option<Timestamp> {
        Some(self.start_for_begin(self.last_reservation_begin()?))
    }

    /// Returns the same for reservations the last of which begins then.
    pub(super) fn start_for_begin(&self, begins: Timestamp) -> Timestamp {
        let lead = self
            .reservation
            .as_deref()
            .map(|reservation| reservation.lead);
        let ready = begins + lead.unwrap_or_default();
        match self.reservation_terms() {
            Some(wish) => ready
                .max(wish.window.earliest)
                .min(wish.window.latest.max(begins)),
            None => ready,
        }
    }
}
