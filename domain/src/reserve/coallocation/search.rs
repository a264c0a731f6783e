//! The search itself: one state, one question due, one outcome recorded.

use super::ask::{ReservationCall, ReservationOutcome};
use super::paths::Path;
use super::probe::Probing;
use super::request::Coallocation;
use crate::ids::SiteName;
use crate::reserve::agreement::StartWindow;
use crate::reserve::tag::Serial;
use crate::units::Timestamp;

/// A reservation that a part holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartReservation {
    /// Where.
    pub site: SiteName,
    /// Its serial.
    pub serial: Serial,
    /// When it starts.
    pub start: Timestamp,
}

/// Why a search ended without a co-allocation; nothing of it is left at any site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SearchFailure {
    /// Some part can never be reserved anywhere: no site named a later start.
    Never,
    /// No common start up to the latest that is accepted.
    NoCommonStart,
    /// So many windows were tried as the request allows.
    WindowsTried,
    /// A reservation was gone when all were there. To try again is worth while, later.
    LostAtTheEnd,
    /// It was given up ([`ReservationSearch::give_up`]).
    GivenUp,
}

/// How a search stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchState {
    /// A site has to be asked.
    Asks(ReservationCall),
    /// Each part has a confirmed reservation ([`ReservationSearch::reserved`]).
    Confirmed,
    /// There is none, and nothing is left to release.
    Failed(SearchFailure),
}

/// One co-allocation under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationSearch {
    /// What was asked for.
    pub job: Coallocation,
    /// [te, tl], for an offset of zero.
    pub window: StartWindow,
    /// How many windows were tried, with the present one.
    pub windows_tried: u32,
    /// By part.
    pub held: Vec<Option<PartReservation>>,
    /// A: parts without a reservation in the window.
    pub unplaced: Vec<usize>,
    /// The earliest T_next that was named in this window; `None`: infinite.
    pub best: Option<Timestamp>,
    /// What a site is being asked for.
    pub step: SearchStep,
    /// The last serial that was used.
    pub serials: u32,
    /// It ends once the outcome of what is being asked is recorded.
    pub given_up: bool,
}

/// What a site is being asked for; what is asked follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchStep {
    /// Sites are ranked by what they grant.
    Rank {
        /// What they granted, and is not chosen.
        granted: Vec<PartReservation>,
        /// What is asked.
        at: Probing,
    },
    /// Steps 5 to 12: a reservation for a part.
    Place {
        /// Which.
        part: usize,
        /// What is asked for it.
        at: Placing,
        /// The earliest T_next among its sites.
        refused: Option<Timestamp>,
    },
    /// Steps 14 to 18: a path for a part of A.
    Augment {
        /// The one that comes so far in A.
        turn: usize,
        /// What is asked for it.
        at: Augmenting,
    },
    /// Is the last of these still there?
    Check {
        /// Those that were not asked about.
        left: Vec<PartReservation>,
    },
    /// Is the last of these kept?
    Confirm {
        /// Those that are not confirmed.
        left: Vec<PartReservation>,
    },
    /// The last of these is cancelled, after a failure.
    Release {
        /// Those that are not cancelled.
        left: Vec<PartReservation>,
        /// Why.
        failure: SearchFailure,
    },
    /// Nothing is left to ask: each part has its reservation.
    Confirmed,
}

/// What is asked for a part in its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placing {
    /// What it has is too early and is moved.
    Move(PartReservation),
    /// What did not move or came out wrong is given up; then the site of that rank is asked.
    Cancel {
        /// What.
        old: PartReservation,
        /// The rank of that site.
        rank: usize,
    },
    /// A new one, at the site of this rank.
    Create(usize),
}

/// What is asked along an augmenting path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Augmenting {
    /// The last part of the path gets a reservation at its end.
    Create(Path),
    /// The giver has another now, and what it had goes to the taker.
    HandOver {
        /// {J1, ...}, who are to take over after that.
        rest: Vec<usize>,
        /// Who gets it.
        taker: usize,
        /// Who had it.
        giver: usize,
        /// What it is.
        carried: PartReservation,
    },
    /// A reservation that found no taker is given up.
    Cancel(PartReservation),
}

impl ReservationSearch {
    /// Starts to look, in the first window (Step 1). The request is taken as checked
    /// ([`Coallocation::check`]).
    pub fn new(job: Coallocation) -> Self {
        Self::after(job, Serial(0))
    }

    /// The same for a job that has used the serials up to `last`.
    pub fn after(job: Coallocation, last: Serial) -> Self {
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
        if search.probes().is_some() {
            // Each site is asked for the earliest start of all that are accepted.
            search.window = search.job.window;
            search.probe(0, Vec::new());
        } else {
            search.place(0);
        }
        search
    }

    /// What each part holds, in the order of the request.
    pub fn reserved(&self) -> &[Option<PartReservation>] {
        &self.held
    }

    /// Every reservation that the search is answerable for: beside [`ReservationSearch::reserved`] one that
    /// changes hands or is given up, or those among which it has yet to choose.
    pub fn owned(&self) -> impl Iterator<Item = &PartReservation> {
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

    /// Nobody wants it any more, or its time is over: it ends when the outcome of what is being
    /// asked has been recorded, and what was confirmed is released.
    pub fn give_up(&mut self) {
        self.given_up = true;
        if self.step == SearchStep::Confirmed {
            self.release(SearchFailure::GivenUp);
        }
    }

    /// What was confirmed is confirmed once more: that was long ago.
    pub fn confirm_again(&mut self) {
        if self.step == SearchStep::Confirmed {
            self.step = SearchStep::Confirm {
                left: self.all_held(),
            };
        }
    }

    /// What is to be done next. It follows from the state alone.
    pub fn standing(&self) -> SearchState {
        let last = |left: &[PartReservation], ask: fn(SiteName, Serial) -> ReservationCall| {
            left.last()
                .map(|reserved| ask(reserved.site.clone(), reserved.serial))
        };
        let (ask, ended) = match &self.step {
            SearchStep::Rank { granted, at } => (self.ask_to_rank(granted, at), None),
            SearchStep::Place { part, at, .. } => (Some(self.ask_to_place(*part, at)), None),
            SearchStep::Augment { at, .. } => (Some(self.ask_to_augment(at)), None),
            SearchStep::Check { left } => (
                last(left, |site, serial| ReservationCall::Check { site, serial }),
                None,
            ),
            SearchStep::Confirm { left } => (
                last(left, |site, serial| ReservationCall::Confirm {
                    site,
                    serial,
                }),
                None,
            ),
            SearchStep::Release { left, failure } => (
                last(left, |site, serial| ReservationCall::Cancel {
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

    /// Asks until the search has ended.
    pub fn run(
        &mut self,
        mut ask: impl FnMut(&Coallocation, &ReservationCall) -> ReservationOutcome,
    ) -> SearchState {
        loop {
            match self.standing() {
                SearchState::Asks(due) => {
                    let outcome = ask(&self.job, &due);
                    self.record(outcome);
                }
                ended => return ended,
            }
        }
    }

    /// The outcome of what [`ReservationSearch::standing`] asks. After the end it changes nothing.
    pub fn record(&mut self, outcome: ReservationOutcome) {
        match std::mem::replace(&mut self.step, SearchStep::Confirmed) {
            SearchStep::Rank { granted, at } => self.on_ranked(granted, at, outcome),
            SearchStep::Place { part, at, refused } => self.on_placed(part, at, refused, outcome),
            SearchStep::Augment { turn, at } => self.on_augmented(turn, at, outcome),
            SearchStep::Check { left } => self.on_checked(left, outcome),
            SearchStep::Confirm { left } => self.on_confirmed(left, outcome),
            SearchStep::Release { mut left, failure } => {
                left.pop();
                self.step = SearchStep::Release { left, failure };
            }
            SearchStep::Confirmed => {}
        }
        if self.given_up && !matches!(self.step, SearchStep::Release { .. }) {
            self.release(SearchFailure::GivenUp);
        }
    }
}
