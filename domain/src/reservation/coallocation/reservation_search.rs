//! The search itself: a state, the call that is due, and the outcome that is recorded.

use super::augmenting_paths::Path;
use super::coallocation_request::Coallocation;
use super::ranked_offers::Probing;
use super::reservation_call::{ReservationCall, ReservationOutcome};
use crate::ids::SiteName;
use crate::reservation::agreement::StartWindow;
use crate::reservation::reservation_tag::Serial;
use crate::units::Timestamp;

/// A reservation of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartReservation {
    /// The site that keeps it.
    pub site: SiteName,
    pub serial: Serial,
    pub start: Timestamp,
}

/// The reason why a search ended without a co-allocation; nothing of it is left at any site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SearchFailure {
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
pub enum SearchState {
    /// A site has to be called.
    Asks(ReservationCall),
    /// Each part has a confirmed reservation ([`ReservationSearch::reserved`]).
    Confirmed,
    /// The search has failed, and nothing is left to cancel.
    Failed(SearchFailure),
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
    pub step: SearchStep,
    /// The last serial that was used.
    pub serials: u32,
    /// True if the search ends with the outcome of the call under way.
    pub given_up: bool,
}

/// A step of the search. The call that is due follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchStep {
    /// Ranks sites by what they grant.
    Rank {
        /// The reservations granted, of which none is chosen yet.
        granted: Vec<PartReservation>,
        /// The call that is made.
        at: Probing,
    },
    /// Steps 5 to 12: seeks a reservation for a part.
    Place {
        /// The index of the part.
        part: usize,
        /// The call that is made for it.
        at: Placing,
        /// The earliest T_next among its sites.
        refused: Option<Timestamp>,
    },
    /// Steps 14 to 18: follows a path for a part of A.
    Augment {
        /// The place of the part in A.
        turn: usize,
        /// The call that is made for it.
        at: Augmenting,
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
        failure: SearchFailure,
    },
    /// Nothing is left to do: each part has its reservation.
    Confirmed,
}

/// The call that is made for a part in its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placing {
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
pub enum Augmenting {
    /// Makes a reservation for the last part of the path, at its end.
    Create(Path),
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
        Self::after_serial(job, Serial(0))
    }

    /// Begins a search for a job that has used the serials up to `last`.
    pub fn after_serial(job: Coallocation, last: Serial) -> Self {
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
            step: SearchStep::Confirmed,
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
    pub fn reserved(&self) -> &[Option<PartReservation>] {
        &self.held
    }

    /// Lists every reservation that the search answers for: those of [`ReservationSearch::reserved`], one that
    /// changes hands or is being cancelled, and those among which it has yet to choose.
    pub fn owned_reservations(&self) -> impl Iterator<Item = &PartReservation> {
        let between: &[PartReservation] = match &self.step {
            SearchStep::Place {
                at: Placing::Move(reserved) | Placing::Cancel { old: reserved, .. },
                ..
            }
            | SearchStep::Augment {
                at:
                    Augmenting::HandOver {
                        carried: reserved, ..
                    }
                    | Augmenting::Cancel(reserved),
                ..
            } => std::slice::from_ref(reserved),
            SearchStep::Release { left, .. } | SearchStep::Rank { granted: left, .. } => left,
            SearchStep::Place {
                at: Placing::Create(_),
                ..
            }
            | SearchStep::Augment {
                at: Augmenting::Create(_),
                ..
            }
            | SearchStep::Check { .. }
            | SearchStep::Confirm { .. }
            | SearchStep::Confirmed => &[],
        };
        self.held.iter().flatten().chain(between)
    }

    /// Gives the search up, because nobody wants it any more, or its time is over. It ends with the
    /// outcome of the call under way, and what was confirmed is cancelled.
    pub fn give_up(&mut self) {
        self.given_up = true;
        if self.step == SearchStep::Confirmed {
            self.begin_cancelling(SearchFailure::GivenUp);
        }
    }

    /// Confirms the reservations once more, because the last time was long ago.
    pub fn confirm_again(&mut self) {
        if self.step == SearchStep::Confirmed {
            self.step = SearchStep::Confirm {
                left: self.all_reservations(),
            };
        }
    }

    /// Returns what is to be done next. It follows from the state alone.
    pub fn standing(&self) -> SearchState {
        let (ask, ended) = match &self.step {
            SearchStep::Rank { granted, at } => (self.probing_call(granted, at), None),
            SearchStep::Place { part, at, .. } => (Some(self.placing_call(*part, at)), None),
            SearchStep::Augment { at, .. } => (Some(self.augmenting_call(at)), None),
            SearchStep::Check { left } => (
                ask_last(left, |site, serial| ReservationCall::Check { site, serial }),
                None,
            ),
            SearchStep::Confirm { left } => (
                ask_last(left, |site, serial| ReservationCall::Confirm {
                    site,
                    serial,
                }),
                None,
            ),
            SearchStep::Release { left, failure } => (
                ask_last(left, |site, serial| ReservationCall::Cancel {
                    site,
                    serial,
                }),
                Some(*failure),
            ),
            SearchStep::Confirmed => (None, None),
        };
        match (ask, ended) {
            (Some(ask), _) => SearchState::Asks(ask),
            (None, Some(failure)) => SearchState::Failed(failure),
            (None, None) => SearchState::Confirmed,
        }
    }

    /// Makes calls until the search has ended.
    pub fn run_to_end(
        &mut self,
        mut ask: impl FnMut(&Coallocation, &ReservationCall) -> ReservationOutcome,
    ) -> SearchState {
        loop {
            match self.standing() {
                SearchState::Asks(due) => {
                    let outcome = ask(&self.job, &due);
                    self.record_outcome(outcome);
                }
                ended => return ended,
            }
        }
    }

    /// Records the outcome of the call that [`ReservationSearch::standing`] asks for. After the end it changes
    /// nothing.
    pub fn record_outcome(&mut self, outcome: ReservationOutcome) {
        match std::mem::replace(&mut self.step, SearchStep::Confirmed) {
            SearchStep::Rank { granted, at } => self.apply_probing_outcome(granted, at, outcome),
            SearchStep::Place { part, at, refused } => {
                self.apply_placing_outcome(part, at, refused, outcome)
            }
            SearchStep::Augment { turn, at } => self.apply_augmenting_outcome(turn, at, outcome),
            SearchStep::Check { left } => self.apply_checked(left, outcome),
            SearchStep::Confirm { left } => self.apply_confirmed(left, outcome),
            SearchStep::Release { mut left, failure } => {
                left.pop();
                self.step = SearchStep::Release { left, failure };
            }
            SearchStep::Confirmed => {}
        }
        if self.given_up && !matches!(self.step, SearchStep::Release { .. }) {
            self.begin_cancelling(SearchFailure::GivenUp);
        }
    }
}

/// The call to the last of the sites that are left.
fn ask_last(
    left: &[PartReservation],
    ask: fn(SiteName, Serial) -> ReservationCall,
) -> Option<ReservationCall> {
    left.last()
        .map(|reserved| ask(reserved.site.clone(), reserved.serial))
}
