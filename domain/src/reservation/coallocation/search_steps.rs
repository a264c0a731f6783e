//! The steps of Algorithms 1 and 2: the call of each, and what follows from its outcome.

use std::collections::BTreeSet;

use super::augmenting_paths::{AugmentingPath, PartMatching};
use super::next_window::next_window;
use super::reservation_call::{ReservationCall, ReservationOutcome};
use super::reservation_search::{
    AugmentingCall, PartReservation, PlacingStep, ReservationSearch, ReservationSearchFailure,
    ReservationSearchStep,
};
use crate::ids::SiteName;
use crate::reservation::agreement::StartWindow;
use crate::reservation::reservation_tag::ReservationSerial;
use crate::units::Timestamp;

/// The meaning of an outcome for a reservation that was to start within some window.
pub(super) enum ReservedStartOutcome {
    Right(Timestamp),
    /// The site broke the protocol: it named a start that was not accepted.
    Wrong(Timestamp),
    /// There is no such reservation, or it is as it was.
    None {
        is_lost: bool,
        next: Option<Timestamp>,
    },
}

impl ReservedStartOutcome {
    pub(super) fn from_outcome(outcome: ReservationOutcome, window: StartWindow) -> Self {
        match outcome {
            ReservationOutcome::Granted { start } if window.contains(start) => {
                ReservedStartOutcome::Right(start)
            }
            ReservationOutcome::Granted { start } => ReservedStartOutcome::Wrong(start),
            ReservationOutcome::Refused { next } => ReservedStartOutcome::None {
                is_lost: false,
                next,
            },
            ReservationOutcome::Lost { next } => ReservedStartOutcome::None {
                is_lost: true,
                next,
            },
            ReservationOutcome::Done => ReservedStartOutcome::None {
                is_lost: false,
                next: None,
            },
        }
    }
}

impl ReservationSearch {
    /// Steps 5 to 8, for this part and those after it.
    pub(super) fn place_from(&mut self, part: usize) {
        let mut parts = (part..self.held.len()).zip(&self.held[part..]);
        match parts
            .find(|(part, held): &(usize, &Option<PartReservation>)| {
                held.as_ref()
                    .is_none_or(|reserved| !self.window_of_part(*part).contains(reserved.start))
            })
            .map(|(part, _)| part)
        {
            None => self.begin_augmenting(),
            Some(part) => match self.held[part].take() {
                Some(early) => self.step = placing_step(part, PlacingStep::Move(early), None),
                None => self.create_from_rank(part, 0, None),
            },
        }
    }

    /// Steps 9 to 12, from the site of this rank on.
    fn create_from_rank(&mut self, part: usize, rank: usize, refused: Option<Timestamp>) {
        if rank < self.job.parts[part].sites.len() {
            self.step = placing_step(part, PlacingStep::Create(rank), refused);
        } else {
            self.unplaced.push(part);
            self.note_next_start(refused);
            self.place_from(part + 1);
        }
    }

    /// Returns [te, tl] for a part.
    fn window_of_part(&self, part: usize) -> StartWindow {
        self.window.shifted_by(self.job.parts[part].offset)
    }

    /// Converts T_next of a part to a common start.
    fn as_common_start(&self, part: usize, next: Option<Timestamp>) -> Option<Timestamp> {
        next.map(|next| next - self.job.parts[part].offset)
    }

    /// Sets best = min(best, T_next).
    pub(super) fn note_next_start(&mut self, next: Option<Timestamp>) {
        self.best = earlier_of(self.best, next);
    }

    pub(super) fn call_for_placing_step(&self, part: usize, at: &PlacingStep) -> ReservationCall {
        match at {
            PlacingStep::Move(PartReservation { site, serial, .. }) => {
                let window = self.window_of_part(part);
                ReservationCall::Modify {
                    site: site.clone(),
                    serial: *serial,
                    part,
                    window,
                }
            }
            PlacingStep::Cancel {
                old: PartReservation { site, serial, .. },
                ..
            } => ReservationCall::Cancel {
                site: site.clone(),
                serial: *serial,
            },
            PlacingStep::Create(rank) => {
                self.creating_call(part, &self.job.parts[part].sites[*rank])
            }
        }
    }

    fn creating_call(&self, part: usize, site: &SiteName) -> ReservationCall {
        self.creating_call_at(part, site, self.window_of_part(part))
    }

    pub(super) fn creating_call_at(
        &self,
        part: usize,
        site: &SiteName,
        window: StartWindow,
    ) -> ReservationCall {
        ReservationCall::Create {
            site: site.clone(),
            serial: ReservationSerial(self.serials + 1),
            part,
            window,
        }
    }

    pub(super) fn apply_placing_outcome(
        &mut self,
        part: usize,
        at: PlacingStep,
        refused: Option<Timestamp>,
        outcome: ReservationOutcome,
    ) {
        let start = ReservedStartOutcome::from_outcome(outcome, self.window_of_part(part));
        match at {
            PlacingStep::Move(old) => self.apply_moved(part, old, start),
            PlacingStep::Cancel { rank, .. } => self.create_from_rank(part, rank, refused),
            PlacingStep::Create(rank) => self.apply_created(part, rank, refused, start),
        }
    }

    fn apply_moved(&mut self, part: usize, old: PartReservation, start: ReservedStartOutcome) {
        match start {
            ReservedStartOutcome::Right(start) => {
                self.held[part] = Some(PartReservation { start, ..old });
                self.place_from(part + 1);
            }
            ReservedStartOutcome::None { is_lost: true, .. } => {
                self.create_from_rank(part, 0, None)
            }
            ReservedStartOutcome::Wrong(_) | ReservedStartOutcome::None { is_lost: false, .. } => {
                self.step = placing_step(part, PlacingStep::Cancel { old, rank: 0 }, None);
            }
        }
    }

    fn apply_created(
        &mut self,
        part: usize,
        rank: usize,
        refused: Option<Timestamp>,
        start: ReservedStartOutcome,
    ) {
        let site = self.job.parts[part].sites[rank].clone();
        let serial = self.take_serial();
        match start {
            ReservedStartOutcome::Right(start) => {
                self.held[part] = Some(PartReservation {
                    site,
                    serial,
                    start,
                });
                self.place_from(part + 1);
            }
            ReservedStartOutcome::Wrong(start) => {
                let wrong = PartReservation {
                    site,
                    serial,
                    start,
                };
                self.step = placing_step(
                    part,
                    PlacingStep::Cancel {
                        old: wrong,
                        rank: rank + 1,
                    },
                    refused,
                );
            }
            ReservedStartOutcome::None { next, .. } => {
                let refused = earlier_of(refused, self.as_common_start(part, next));
                self.create_from_rank(part, rank + 1, refused);
            }
        }
    }

    pub(super) fn take_serial(&mut self) -> ReservationSerial {
        self.serials += 1;
        ReservationSerial(self.serials)
    }

    /// Step 13: looks for paths only if each part in A may get one.
    fn begin_augmenting(&mut self) {
        let matching = self.build_matching();
        if self
            .unplaced
            .iter()
            .all(|part| matching.may_be_augmented(*part))
        {
            self.augment_from(0);
        } else {
            self.slide_window();
        }
    }

    fn build_matching(&self) -> PartMatching<'_> {
        let held = self.held.iter().enumerate().map(|(part, reserved)| {
            let window = self.window_of_part(part);
            let inside = reserved
                .as_ref()
                .filter(|reserved| window.contains(reserved.start));
            inside.map(|reserved| &reserved.site)
        });
        let ours: BTreeSet<&SiteName> = self.held.iter().flatten().map(|r| &r.site).collect();
        PartMatching {
            parts: &self.job.parts,
            held: held.collect(),
            ours,
        }
    }

    /// Steps 14 and 15, from this turn of A on; then Step 19.
    fn augment_from(&mut self, turn: usize) {
        let matching = self.build_matching();
        let mut turns = self.unplaced.iter().enumerate().skip(turn);
        let found = turns.find_map(|(turn, part)| Some((turn, matching.shortest_path(*part)?)));
        let is_complete = matching.held.iter().all(Option::is_some);
        self.step = match found {
            Some((turn, path)) => ReservationSearchStep::Augment {
                turn,
                at: AugmentingCall::Create(path),
            },
            None if is_complete => ReservationSearchStep::Check {
                left: self.all_reservations(),
            },
            None => return self.slide_window(),
        };
    }

    pub(super) fn augmenting_call(&self, at: &AugmentingCall) -> ReservationCall {
        match at {
            AugmentingCall::Create(AugmentingPath { last, end, .. }) => {
                self.creating_call(*last, end)
            }
            AugmentingCall::HandOver {
                taker,
                giver,
                carried,
                ..
            } => {
                let window = self.window_to_take(*taker, *giver, carried);
                let site = carried.site.clone();
                let serial = carried.serial;
                ReservationCall::Modify {
                    site,
                    serial,
                    part: *taker,
                    window,
                }
            }
            AugmentingCall::Cancel(PartReservation { site, serial, .. }) => {
                ReservationCall::Cancel {
                    site: site.clone(),
                    serial: *serial,
                }
            }
        }
    }

    /// Returns the window of a hand-over. It keeps the start, unless the two parts have different
    /// offsets.
    fn window_to_take(&self, taker: usize, giver: usize, carried: &PartReservation) -> StartWindow {
        if self.job.parts[taker].offset == self.job.parts[giver].offset {
            StartWindow::single_start(carried.start)
        } else {
            self.window_of_part(taker)
        }
    }

    pub(super) fn apply_augmenting_outcome(
        &mut self,
        turn: usize,
        at: AugmentingCall,
        outcome: ReservationOutcome,
    ) {
        let next = match at {
            AugmentingCall::Create(path) => self.apply_end_created(path, outcome),
            AugmentingCall::HandOver {
                rest,
                taker,
                giver,
                carried,
            } => {
                let window = self.window_to_take(taker, giver, &carried);
                self.apply_hand_over(
                    rest,
                    taker,
                    carried,
                    ReservedStartOutcome::from_outcome(outcome, window),
                )
            }
            AugmentingCall::Cancel(_) => None,
        };
        match next {
            Some(at) => self.step = ReservationSearchStep::Augment { turn, at },
            None => self.augment_from(turn + 1),
        }
    }

    /// Steps 1 to 3 of Algorithm 2.
    fn apply_end_created(
        &mut self,
        path: AugmentingPath,
        outcome: ReservationOutcome,
    ) -> Option<AugmentingCall> {
        let AugmentingPath {
            takers,
            last,
            end: site,
        } = path;
        let serial = self.take_serial();
        match ReservedStartOutcome::from_outcome(outcome, self.window_of_part(last)) {
            ReservedStartOutcome::Right(start) => {
                let old = self.held[last].replace(PartReservation {
                    site,
                    serial,
                    start,
                })?;
                hand_over_step(takers, last, old)
            }
            ReservedStartOutcome::Wrong(start) => Some(AugmentingCall::Cancel(PartReservation {
                site,
                serial,
                start,
            })),
            ReservedStartOutcome::None { next, .. } => {
                self.note_next_start(self.as_common_start(last, next));
                None
            }
        }
    }

    /// Steps 4 to 7 of Algorithm 2. A reservation that could not be handed over is cancelled: its
    /// giver has another already, and no part may have two.
    fn apply_hand_over(
        &mut self,
        rest: Vec<usize>,
        taker: usize,
        carried: PartReservation,
        start: ReservedStartOutcome,
    ) -> Option<AugmentingCall> {
        match start {
            ReservedStartOutcome::Right(start) => {
                let old = self.held[taker].replace(PartReservation { start, ..carried })?;
                hand_over_step(rest, taker, old)
            }
            ReservedStartOutcome::Wrong(_) => Some(AugmentingCall::Cancel(carried)),
            ReservedStartOutcome::None { is_lost, next } => {
                self.note_next_start(self.as_common_start(taker, next));
                (!is_lost).then_some(AugmentingCall::Cancel(carried))
            }
        }
    }

    /// Steps 19 to 22, and the next round.
    fn slide_window(&mut self) {
        match next_window(&self.job, self.window, self.best) {
            Err(failure) => self.begin_cancelling(failure),
            Ok(_) if self.windows_tried >= self.job.windows_max => {
                self.begin_cancelling(ReservationSearchFailure::WindowsTried);
            }
            Ok(window) => {
                self.window = window;
                self.windows_tried += 1;
                self.unplaced.clear();
                self.best = None;
                self.place_from(0);
            }
        }
    }

    pub(super) fn apply_checked(
        &mut self,
        mut left: Vec<PartReservation>,
        outcome: ReservationOutcome,
    ) {
        if self.check_kept(left.pop(), outcome) {
            self.step = if left.is_empty() {
                ReservationSearchStep::Confirm {
                    left: self.all_reservations(),
                }
            } else {
                ReservationSearchStep::Check { left }
            };
        }
    }

    pub(super) fn apply_confirmed(
        &mut self,
        mut left: Vec<PartReservation>,
        outcome: ReservationOutcome,
    ) {
        if self.check_kept(left.pop(), outcome) {
            self.step = if left.is_empty() {
                ReservationSearchStep::Confirmed
            } else {
                ReservationSearchStep::Confirm { left }
            };
        }
    }

    /// Returns true if a reservation is there; else releases all: all or nothing.
    fn check_kept(&mut self, asked: Option<PartReservation>, outcome: ReservationOutcome) -> bool {
        let is_kept = matches!(
            outcome,
            ReservationOutcome::Done | ReservationOutcome::Granted { .. }
        );
        if matches!(outcome, ReservationOutcome::Lost { .. }) {
            self.held
                .iter_mut()
                .filter(|held| **held == asked)
                .for_each(|held| *held = None);
        }
        if !is_kept {
            self.begin_cancelling(ReservationSearchFailure::LostAtTheEnd);
        }
        is_kept
    }

    /// Lists all reservations, the first part's last: they are called from the end.
    pub(super) fn all_reservations(&self) -> Vec<PartReservation> {
        self.held.iter().flatten().rev().cloned().collect()
    }

    /// Cancels all reservations, in the order of the parts.
    pub(super) fn begin_cancelling(&mut self, failure: ReservationSearchFailure) {
        let mut left: Vec<PartReservation> = self.owned_reservations().cloned().collect();
        left.reverse();
        self.held.fill(None);
        self.step = ReservationSearchStep::Release { left, failure };
    }
}

fn placing_step(part: usize, at: PlacingStep, refused: Option<Timestamp>) -> ReservationSearchStep {
    ReservationSearchStep::Place { part, at, refused }
}

/// Hands what a giver had to the last of the takers; `None`: there is none.
fn hand_over_step(
    mut takers: Vec<usize>,
    giver: usize,
    carried: PartReservation,
) -> Option<AugmentingCall> {
    let taker = takers.pop()?;
    Some(AugmentingCall::HandOver {
        rest: takers,
        taker,
        giver,
        carried,
    })
}

fn earlier_of(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}
