//! The search itself: a state, the call that is due, and the outcome that is recorded.

use super::augmenting_paths::AugmentingPath;
use super::coallocation_request::Coallocation;
use super::ranked_offers::RankingCall;
use super::reservation_call::{ReservationCall, ReservationOutcome};
use crate::ids::SiteName;
use crate::reservation::agreement::StartWindow;
use crate::reservation::reservation_tag::ReservationSerial;
use crate::units::Timestamp;

/// A reservation of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartReservation {
    /// The site that keeps it.
    pub site: SiteName,
    pub serial: ReservationSerial,
    pub start: Timestamp,
}

/// The reason why a search ended without a co-allocation; nothing of it is left at any site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReservationSearchFailure {
    /// Some part can never be reserved anywhere: no site named a later start.
    Never,
    /// No common start up to the latest that is accepted.
    NoCommonStart,
    /// All windows that the request allows were tried.
    WindowsTried,
    /// A reservation was gone when all were there. A later try is worth while.
    LostAtTheEnd,
    /// The search was given up ([`ReservationSearch::give_up`]).
    GivenUp,
}

/// The standing of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservationSearchState {
    /// A site has to be called.
    Asks(ReservationCall),
    /// Each part has a confirmed reservation ([`ReservationSearch::part_reservations`]).
    Confirmed,
    /// The search has failed, and nothing is left to cancel.
    Failed(ReservationSearchFailure),
}

/// A co-allocation under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationSearch {
    /// The request.
    pub job: Coallocation,
    /// [te, tl], for an offset of zero.
    pub window: StartWindow,
    /// The number of windows tried, with the present one.
    pub windows_tried: u32,
    /// The reservations, by part.
    pub held: Vec<Option<PartReservation>>,
    /// A: parts without a reservation in the window.
    pub unplaced: Vec<usize>,
    /// The earliest T_next that was named in this window; `None`: infinite.
    pub best: Option<Timestamp>,
    /// The step with the call that is due.
    pub step: ReservationSearchStep,
    /// The last serial that was used.
    pub serials: u32,
    /// True if the search ends with the outcome of the call under way.
    pub given_up: bool,
}

/// A step of the search. The call that is due follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservationSearchStep {
    /// Ranks sites by what they grant.
    Rank {
        /// The reservations granted, of which none is chosen yet.
        granted: Vec<PartReservation>,
        /// The call that is made.
        at: RankingCall,
    },
    /// Steps 5 to 12: seeks a reservation for a part.
    Place {
        /// The index of the part.
        part: usize,
        /// The call that is made for it.
        at: PlacingStep,
        /// The earliest T_next among its sites.
        refused: Option<Timestamp>,
    },
    /// Steps 14 to 18: follows a path for a part of A.
    Augment {
        /// The place of the part in A.
        turn: usize,
        /// The call that is made for it.
        at: AugmentingCall,
    },
    /// Checks if the last of these is still there.
    Check {
        /// Those that are not checked.
        left: Vec<PartReservation>,
    },
    /// Confirms the last of these.
    Confirm {
        /// Those that are not confirmed.
        left: Vec<PartReservation>,
    },
    /// Cancels the last of these, after a failure.
    Release {
        /// Those that are not cancelled.
        left: Vec<PartReservation>,
        failure: ReservationSearchFailure,
    },
    /// Nothing is left to do: each part has its reservation.
    Confirmed,
}

/// The call that is made for a part in its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlacingStep {
    /// Moves its reservation, which is too early.
    Move(PartReservation),
    /// Cancels a reservation that did not move or has a wrong start; then the site of that rank is
    /// called.
    Cancel {
        /// The reservation to cancel.
        old: PartReservation,
        /// The rank of that site.
        rank: usize,
    },
    /// Makes a new one, at the site of this rank.
    Create(usize),
}

/// The call that is made along an augmenting path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AugmentingCall {
    /// Makes a reservation for the last part of the path, at its end.
    Create(AugmentingPath),
    /// Hands a reservation to the taker; the giver has another now.
    HandOver {
        /// {J1, ...}, who are to take over after that.
        rest: Vec<usize>,
        /// The part that gets it.
        taker: usize,
        /// The part that had it.
        giver: usize,
        /// The reservation.
        carried: PartReservation,
    },
    /// Cancels a reservation that found no taker.
    Cancel(PartReservation),
}

impl ReservationSearch {
    /// Begins a search, in the first window (Step 1). The request has passed
    /// [`Coallocation::check_request`].
    pub fn new(job: Coallocation) -> Self {
        Self::after_serial(job, ReservationSerial(0))
    }

    /// Begins a search for a job that has used the serials up to `last`.
    pub fn after_serial(job: Coallocation, last: ReservationSerial) -> Self {
        let StartWindow { earliest, latest } = job.window;
        let window = StartWindow::new(earliest, (earliest + job.tolerance).min(latest));
        let held = vec![None; job.parts.len()];
        let mut search = Self {
            job,
            window,
            windows_tried: 1,
            held,
            unplaced: Vec::new(),
            best: None,
            step: ReservationSearchStep::Confirmed,
            serials: last.0,
            given_up: false,
        };
        if search.probe_ranking().is_some() {
            // Each site is asked for the earliest of all accepted starts.
            search.window = search.job.window;
            search.probe_from_rank(0, Vec::new());
        } else {
            search.place_from(0);
        }
        search
    }

    /// The reservation of each part, in the order of the request.
    pub fn part_reservations(&self) -> &[Option<PartReservation>] {
        &self.held
    }

    /// Lists every reservation that the search answers for: those of
    /// [`ReservationSearch::part_reservations`], one that changes hands or is being cancelled, and those
    /// among which it has yet to choose.
    pub fn owned_reservations(&self) -> impl Iterator<Item = &PartReservation> {
        let between: &[PartReservation] = match &self.step {
            ReservationSearchStep::Place {
                at: PlacingStep::Move(reserved) | PlacingStep::Cancel { old: reserved, .. },
                ..
            }
            | ReservationSearchStep::Augment {
                at:
                    AugmentingCall::HandOver {
                        carried: reserved, ..
                    }
                    | AugmentingCall::Cancel(reserved),
                ..
            } => std::slice::from_ref(reserved),
            ReservationSearchStep::Release { left, .. }
            | ReservationSearchStep::Rank { granted: left, .. } => left,
            ReservationSearchStep::Place {
                at: PlacingStep::Create(_),
                ..
            }
            | ReservationSearchStep::Augment {
                at: AugmentingCall::Create(_),
                ..
            }
            | ReservationSearchStep::Check { .. }
            | ReservationSearchStep::Confirm { .. }
            | ReservationSearchStep::Confirmed => &[],
        };
        self.held.iter().flatten().chain(between)
    }

    /// Gives the search up, because nobody wants it any more, or its time is over. It ends with the
    /// outcome of the call under way, and what was confirmed is cancelled.
    pub fn give_up(&mut self) {
        self.given_up = true;
        if self.step == ReservationSearchStep::Confirmed {
            self.begin_cancelling(ReservationSearchFailure::GivenUp);
        }
    }

    /// Confirms the reservations once more, because the last time was long ago.
    pub fn confirm_again(&mut self) {
        if self.step == ReservationSearchStep::Confirmed {
            self.step = ReservationSearchStep::Confirm {
                left: self.all_reservations(),
            };
        }
    }

    /// Returns what is to be done next. It follows from the state alone.
    pub fn current_state(&self) -> ReservationSearchState {
        let (ask, ended) = match &self.step {
            ReservationSearchStep::Rank { granted, at } => (self.probing_call(granted, at), None),
            ReservationSearchStep::Place { part, at, .. } => {
                (Some(self.call_for_placing_step(*part, at)), None)
            }
            ReservationSearchStep::Augment { at, .. } => (Some(self.augmenting_call(at)), None),
            ReservationSearchStep::Check { left } => (
                call_to_last_site(left, |site, serial| ReservationCall::Check { site, serial }),
                None,
            ),
            ReservationSearchStep::Confirm { left } => (
                call_to_last_site(left, |site, serial| ReservationCall::Confirm {
                    site,
                    serial,
                }),
                None,
            ),
            ReservationSearchStep::Release { left, failure } => (
                call_to_last_site(left, |site, serial| ReservationCall::Cancel {
                    site,
                    serial,
                }),
                Some(*failure),
            ),
            ReservationSearchStep::Confirmed => (None, None),
        };
        match (ask, ended) {
            (Some(ask), _) => ReservationSearchState::Asks(ask),
            (None, Some(failure)) => ReservationSearchState::Failed(failure),
            (None, None) => ReservationSearchState::Confirmed,
        }
    }

    /// Makes calls until the search has ended.
    pub fn run_to_end(
        &mut self,
        mut ask: impl FnMut(&Coallocation, &ReservationCall) -> ReservationOutcome,
    ) -> ReservationSearchState {
        loop {
            match self.current_state() {
                ReservationSearchState::Asks(due) => {
                    let outcome = ask(&self.job, &due);
                    self.record_outcome(outcome);
                }
                ended => return ended,
            }
        }
    }

    /// Records the outcome of the call that [`ReservationSearch::current_state`] asks for. After the end
    /// it changes nothing.
    pub fn record_outcome(&mut self, outcome: ReservationOutcome) {
        match std::mem::replace(&mut self.step, ReservationSearchStep::Confirmed) {
            ReservationSearchStep::Rank { granted, at } => {
                self.apply_probing_outcome(granted, at, outcome)
            }
            ReservationSearchStep::Place { part, at, refused } => {
                self.apply_placing_outcome(part, at, refused, outcome)
            }
            ReservationSearchStep::Augment { turn, at } => {
                self.apply_augmenting_outcome(turn, at, outcome)
            }
            ReservationSearchStep::Check { left } => self.apply_checked(left, outcome),
            ReservationSearchStep::Confirm { left } => self.apply_confirmed(left, outcome),
            ReservationSearchStep::Release { mut left, failure } => {
                left.pop();
                self.step = ReservationSearchStep::Release { left, failure };
            }
            ReservationSearchStep::Confirmed => {}
        }
        if self.given_up && !matches!(self.step, ReservationSearchStep::Release { .. }) {
            self.begin_cancelling(ReservationSearchFailure::GivenUp);
        }
    }
}

/// The call to the last of the sites that are left.
fn call_to_last_site(
    left: &[PartReservation],
    ask: fn(SiteName, ReservationSerial) -> ReservationCall,
) -> Option<ReservationCall> {
    left.last()
        .map(|reserved| ask(reserved.site.clone(), reserved.serial))
}
