//! The reservations of a job: one search for all of its components, and what came of it.
//!
//! They belong to the job and are part of its record. What is to be asked of which site follows
//! from the record alone, so that the same is asked again after a restart, under the same serial;
//! whoever asks looks up first what a lost answer may have left ([`JobReservations::question`]).

mod forward;
mod needed;
mod notices;
mod preferred;
pub(in crate::job) mod split;
mod unreserved;

pub use forward::Forward;
pub use notices::{NoticeKind, Notices, StartNotice};
pub use preferred::Outlook;
pub(crate) use preferred::{SiteDemand, begin_window};
pub use split::{Anew, JobSplit};
pub use unreserved::Unreserved;

use crate::acquire::{Acquisition, ReservationTerms, ReservationUse};
use crate::ids::{ComponentIndex, ReservationName};
use crate::job::parameters::JobParameters;
use crate::job::state::{Component, Job, JobPhase};
use crate::placed::Placement;
use crate::reserve::{
    CoallocationPart, PartReservation, ReservationCall, ReservationOutcome, ReservationSearch,
    SearchFailure, SearchState, Serial,
};
use crate::units::{DurationMs, Timestamp};

/// The start that a job is to be promised, beside what it said when it was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TermsChange {
    /// As it said.
    #[default]
    AsSubmitted,
    /// Another one: its user moved it.
    Changed(ReservationTerms),
    /// None any more: it is placed as others are.
    Dropped,
}

/// A search beside the one whose reservations count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescheduling {
    /// The search; its parts are those of the first, unless `anew` says otherwise.
    pub search: ReservationSearch,
    /// What is to hold instead, if it finds all that it looks for. `None`: what it found is given
    /// back, as that of the first search took its place.
    pub wish: Option<ReservationTerms>,
    /// The parts of a flexible job, if they are others than those of the first.
    pub anew: Option<Anew>,
}

/// The reservations of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobReservations {
    /// The search for them; its parts are the job's components.
    pub search: ReservationSearch,
    /// By part, and rank of its site: where the component would go.
    pub placements: Vec<Vec<Placement>>,
    /// They begin so long before the start that is promised, so that all come to their gates.
    pub lead: DurationMs,
    /// How many questions were answered.
    pub answers: u32,
    /// Since when the present question waits for its answer.
    pub asked_since: Timestamp,
    /// What follows from its end was decided: another may be asked for.
    pub spent: bool,
    /// What is to take the place of these, or had it before.
    pub other: Option<Rescheduling>,
    /// Components that are not reserved.
    pub claimed: Vec<Unreserved>,
    /// A site was not asked, as its user holds as much there as one may.
    pub withheld: bool,
    /// What is to be told of it.
    pub notices: Notices,
    /// How a flexible job was divided.
    pub split: Option<JobSplit>,
    /// How often its sites have refused it since it was last placed, if processors are claimed for
    /// it meanwhile.
    pub refusals: u32,
}

impl JobReservations {
    /// Sites are to be asked.
    pub(super) fn sought(
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
            notices: Notices::default(),
            split: None,
            refusals: 0,
        }
    }

    /// What a site is to be asked, and the number of that question.
    pub fn question(&self) -> Option<(u32, ReservationCall)> {
        self.asking().and_then(asked).map(|ask| (self.answers, ask))
    }

    /// The search that asks it.
    pub fn asking(&self) -> Option<&ReservationSearch> {
        let mut searches = self
            .other
            .iter()
            .map(|other| &other.search)
            .chain([&self.search]);
        searches.find(|search| asked(search).is_some())
    }

    /// Takes in the answer to it.
    pub(super) fn record(&mut self, outcome: ReservationOutcome, now: Timestamp) {
        let other = self.other.as_mut().map(|other| &mut other.search);
        let search = other.filter(|search| asked(search).is_some());
        search.unwrap_or(&mut self.search).record(outcome);
        self.answers += 1;
        self.asked_since = now;
    }

    /// The site is not asked: its user may hold no more there.
    pub(super) fn withhold(&mut self, next: Option<Timestamp>, now: Timestamp) {
        self.withheld = true;
        self.record(ReservationOutcome::Refused { next }, now);
    }

    /// Nobody needs it any more.
    pub(super) fn give_up(&mut self, now: Timestamp) {
        self.stay(now);
        if !is_over(&self.search) && !self.search.given_up {
            self.search.give_up();
            self.asked_since = now;
        }
    }

    /// Others are to take its place.
    pub(super) fn look_beside(
        &mut self,
        search: ReservationSearch,
        wish: ReservationTerms,
        anew: Option<Anew>,
        now: Timestamp,
    ) {
        self.other = Some(Rescheduling {
            search,
            wish: Some(wish),
            anew,
        });
        self.asked_since = now;
    }

    /// Sites have confirmed it some time ago, or what is to take its place, if the job is placed:
    /// they are asked again. Nobody is asked about what has ended.
    pub(super) fn doubt(&mut self, is_placed: bool, now: Timestamp) {
        let ended = !is_placed && self.has_ended(now);
        let other = self.other.as_mut().filter(|other| other.wish.is_some());
        let search = if is_placed {
            other.map(|other| &mut other.search)
        } else {
            Some(&mut self.search)
        };
        let confirmed =
            search.filter(|search| !ended && search.standing() == SearchState::Confirmed);
        if let Some(search) = confirmed {
            search.confirm_again();
            self.asked_since = now;
        }
    }

    /// Whether something of what was promised is over: its job was frozen for so long.
    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        let placements = self.placements().unwrap_or_default();
        placements
            .iter()
            .filter_map(|p| p.acquisition.promised())
            .any(|it| it.to <= now)
    }

    /// None takes its place any more.
    pub(super) fn stay(&mut self, now: Timestamp) {
        let other = self.other.as_mut().map(|other| &mut other.search);
        if let Some(search) = other.filter(|search| !is_over(search) && !search.given_up) {
            search.give_up();
            self.asked_since = now;
        }
    }

    /// The others take its place, and it is given back; returns what holds from now on.
    pub(super) fn make_way(&mut self, now: Timestamp) -> Option<ReservationTerms> {
        let other = self.other.as_mut()?;
        std::mem::swap(&mut self.search, &mut other.search);
        let wish = other.wish.take();
        let anew = other.anew.take();
        self.divide(anew);
        self.stay(now);
        wish
    }

    /// The search for what is to take its place, and what is wanted of it.
    pub fn moving(&self) -> Option<(&ReservationSearch, ReservationTerms)> {
        let other = self.other.as_ref()?;
        other.wish.map(|wish| (&other.search, wish))
    }

    /// When a site that does not answer is taken to have said no.
    pub fn silent_at(&self, parameters: &JobParameters) -> Option<Timestamp> {
        self.question()
            .map(|_| self.asked_since + parameters.reservation_patience)
    }

    /// Whether nothing of it is left at any site.
    pub fn is_released(&self) -> bool {
        is_over(&self.search)
            && self
                .other
                .as_ref()
                .is_none_or(|other| is_over(&other.search))
    }

    /// The last serial that was used.
    pub fn last_serial(&self) -> Serial {
        let other = self.other.as_ref().map_or(0, |other| other.search.serials);
        Serial(self.search.serials.max(other))
    }

    /// Whether the job has use for what a site holds under this serial, or may have.
    pub fn needs(&self, serial: Serial) -> bool {
        let asked = match self.question() {
            Some((_, ReservationCall::Create { serial: asked, .. })) => asked == serial,
            Some(_) | None => false,
        };
        let other = self.other.iter().flat_map(|other| other.search.owned());
        asked
            || self
                .search
                .owned()
                .chain(other)
                .any(|owned| owned.serial == serial)
    }

    /// Each part with what it has.
    pub fn parts(&self) -> impl Iterator<Item = (&CoallocationPart, Option<&PartReservation>)> {
        let held = self.search.reserved().iter().map(Option::as_ref);
        self.search.job.parts.iter().zip(held)
    }

    /// By component: where it goes, once each has a confirmed reservation.
    pub fn placements(&self) -> Option<Vec<Placement>> {
        let all = self
            .search
            .job
            .parts
            .iter()
            .zip(&self.placements)
            .zip(self.search.reserved());
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
                let promised = ReservationUse {
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
        placed.extend(self.claimed.iter().map(Unreserved::placed));
        placed.sort_by_key(|(component, _)| *component);
        Some(placed.into_iter().map(|(_, placement)| placement).collect())
    }
}

fn asked(search: &ReservationSearch) -> Option<ReservationCall> {
    match search.standing() {
        SearchState::Asks(ask) => Some(ask),
        SearchState::Confirmed | SearchState::Failed(_) => None,
    }
}

/// Whether nothing of it is left at any site.
fn is_over(search: &ReservationSearch) -> bool {
    matches!(search.standing(), SearchState::Failed(_))
}

impl Job {
    /// The start that it is to be promised, if it is.
    pub fn reservation_wish(&self) -> Option<ReservationTerms> {
        match self.wish {
            TermsChange::AsSubmitted => self.spec.run.reservation,
            TermsChange::Changed(wish) => Some(wish),
            TermsChange::Dropped => None,
        }
    }

    /// The reservation that it shares with other jobs, if it names one.
    pub fn shares(&self) -> Option<&ReservationName> {
        self.spec.run.within.as_ref()
    }

    /// Whether it waits for a place within the reservation that it named.
    pub fn waits_within(&self) -> bool {
        self.shares().is_some()
            && matches!(self.phase, JobPhase::Queued { .. })
            && self.frozen_by.is_none()
            && self.held.is_none()
    }

    /// Whether it waits for somebody to say which sites may be asked for a reservation.
    pub fn seeks_reservation(&self) -> bool {
        self.reservation_asked_at().is_some() && self.frozen_by.is_none() && self.held.is_none()
    }

    /// The earliest start that sites said they would grant later, if its reservation was refused
    /// and they said so. For several components it is a hint: none is granted before.
    pub fn reservation_refused_until(&self) -> Option<Timestamp> {
        let reservation = self.reservation.as_deref()?;
        let refused = SearchState::Failed(SearchFailure::NoCommonStart);
        let next = reservation
            .search
            .best
            .filter(|_| reservation.search.standing() == refused);
        next.map(|next| next + reservation.lead)
    }

    /// When the last of its reservations begins, if its components have any: of one that begins
    /// later, when those of the others may begin at the latest that fit it.
    pub fn reservations_begin(&self) -> Option<Timestamp> {
        self.indexed()
            .filter_map(|(index, component): (ComponentIndex, &Component)| {
                Some(component.acquisition().promised()?.from - self.spec.offset_of(index))
            })
            .max()
    }

    /// When its payloads are to begin that begin together: when the last reservation has begun and
    /// all could come to their gates, but within what the user accepts.
    pub fn promised_start(&self) -> Option<Timestamp> {
        Some(self.start_after(self.reservations_begin()?))
    }

    /// The same for reservations the last of which begins then.
    pub(super) fn start_after(&self, begins: Timestamp) -> Timestamp {
        let lead = self
            .reservation
            .as_deref()
            .map(|reservation| reservation.lead);
        let ready = begins + lead.unwrap_or_default();
        match self.reservation_wish() {
            Some(wish) => ready
                .max(wish.window.earliest)
                .min(wish.window.latest.max(begins)),
            None => ready,
        }
    }
}
