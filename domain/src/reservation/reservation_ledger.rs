//! The reservations of a site that keeps them itself, and its answers.
//!
//! An offer ends by itself unless it is confirmed in time. The ledger never takes back what it
//! gave: what is not free is refused, whoever asks.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::agreement::{ReservationAnswer, ReservationRequest, StartWindow, answer_request};
use super::timeline::{ResourceAmounts, TimeSpan, Timeline};
use crate::units::Timestamp;

/// A reservation at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    pub span: TimeSpan,
    pub amounts: ResourceAmounts,
    /// The starts that its owner accepted.
    pub window: StartWindow,
    /// True if the site may move it within the window.
    pub flexible: bool,
    /// The time at which it ends by itself; `None` once it is confirmed.
    pub expires: Option<Timestamp>,
    /// The number of the last request to modify it; 0: none yet.
    pub number: u32,
}

/// All reservations of a site, by their owners' tags, and what is free beside them.
#[derive(Debug, Clone)]
pub struct ReservationLedger<Tag> {
    timeline: Timeline,
    leases: BTreeMap<Tag, Reservation>,
}

impl<Tag: Ord + Clone> ReservationLedger<Tag> {
    /// Creates an empty ledger; `timeline`: what is free without reservations.
    pub fn new(timeline: Timeline) -> Self {
        Self {
            timeline,
            leases: BTreeMap::new(),
        }
    }

    /// The free time beside the reservations.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Lists every reservation, by tag, also those that nobody needs any more.
    pub fn reservations(&self) -> impl Iterator<Item = (&Tag, &Reservation)> {
        self.leases.iter()
    }

    /// Finds the reservation with a tag, after an answer was lost.
    pub fn find_by_tag(&self, tag: &Tag) -> Option<&Reservation> {
        self.leases.get(tag)
    }

    /// Reserves until `expires`, and longer if confirmed in time. A tag that has a reservation
    /// already gets that as the answer: a request that is sent twice reserves once.
    pub fn request_reservation(
        &mut self,
        tag: Tag,
        request: &ReservationRequest,
        expires: Timestamp,
    ) -> ReservationAnswer {
        let entry = match self.leases.entry(tag) {
            Entry::Occupied(known) => {
                return ReservationAnswer::Granted {
                    start: known.get().span.from,
                };
            }
            Entry::Vacant(entry) => entry,
        };
        let answer = answer_request(&self.timeline, request);
        if let ReservationAnswer::Granted { start } = answer
            && let Ok(amounts) = self.timeline.to_amounts(&request.resources)
        {
            let span = TimeSpan::new(start, start + request.length);
            self.timeline.book(span, &amounts);
            let window = request.window;
            let flexible = request.flexible;
            let expires = Some(expires);
            entry.insert(Reservation {
                span,
                amounts,
                window,
                flexible,
                expires,
                number: 0,
            });
        }
        answer
    }

    /// Restores a reservation that was made before.
    pub fn restore(&mut self, tag: Tag, lease: Reservation) {
        self.timeline.book(lease.span, &lease.amounts);
        self.leases.insert(tag, lease);
    }

    /// Changes a reservation into what this request asks, counting its own processors as free, or
    /// leaves it as it is. `None`: there is none with that tag. `number`: the number of this
    /// request among those that modify that tag, from 1. A request that comes after a later one,
    /// late or twice, changes nothing: its owner relies on what the later one made of the
    /// reservation.
    pub fn modify(
        &mut self,
        tag: &Tag,
        number: u32,
        request: &ReservationRequest,
    ) -> Option<ReservationAnswer> {
        let lease = self.leases.get_mut(tag)?;
        if number < lease.number {
            return Some(ReservationAnswer::Granted {
                start: lease.span.from,
            });
        }
        lease.number = number;
        let mut supposed = self.timeline.clone();
        supposed.release(lease.span, &lease.amounts);
        let answer = if can_keep_start(&supposed, lease, request) {
            // Also true of a reservation that has begun, and starts in the past.
            ReservationAnswer::Granted {
                start: lease.span.from,
            }
        } else {
            answer_request(&supposed, request)
        };
        if let ReservationAnswer::Granted { start } = answer
            && let Ok(amounts) = supposed.to_amounts(&request.resources)
        {
            let span = TimeSpan::new(start, start + request.length);
            supposed.book(span, &amounts);
            self.timeline = supposed;
            let window = request.window;
            let flexible = request.flexible;
            let expires = lease.expires;
            *lease = Reservation {
                span,
                amounts,
                window,
                flexible,
                expires,
                number,
            };
        }
        Some(answer)
    }

    /// Keeps a reservation that would have ended by itself; `false`: it has ended.
    pub fn confirm(&mut self, tag: &Tag) -> bool {
        self.leases
            .get_mut(tag)
            .map(|lease| lease.expires = None)
            .is_some()
    }

    /// Keeps an unconfirmed reservation longer, up to `expires`; `false`: it has ended.
    pub fn renew(&mut self, tag: &Tag, expires: Timestamp) -> bool {
        let lease = self.leases.get_mut(tag);
        lease
            .map(|lease| lease.expires = lease.expires.map(|old| old.max(expires)))
            .is_some()
    }

    /// Cancels a reservation; `false`: there is none with that tag.
    pub fn cancel(&mut self, tag: &Tag) -> bool {
        let lease = self.leases.remove(tag);
        lease
            .map(|lease| self.timeline.release(lease.span, &lease.amounts))
            .is_some()
    }

    /// Brings the ledger up to `now`: ends unconfirmed reservations whose time is over, and those
    /// that are past. Returns their tags.
    pub fn advance_to(&mut self, now: Timestamp) -> Vec<Tag> {
        let over = self.leases.iter().filter(|(_, lease)| {
            lease.span.to <= now || lease.expires.is_some_and(|expires| expires <= now)
        });
        let over: Vec<Tag> = over.map(|(tag, _)| tag.clone()).collect();
        for tag in &over {
            self.cancel(tag);
        }
        self.timeline.forget_before(now);
        over
    }
}

/// Returns true if a reservation can become what is asked for and keep its start.
fn can_keep_start(free: &Timeline, lease: &Reservation, request: &ReservationRequest) -> bool {
    let from = lease.span.from;
    request.window == StartWindow::single_start(from)
        && free
            .to_amounts(&request.resources)
            .is_ok_and(|need| free.is_free(TimeSpan::new(from, from + request.length), &need))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Resources;
    use crate::units::DurationMs;

    fn ledger() -> ReservationLedger<u32> {
        ReservationLedger::new(Timeline::new(Timestamp(0), &Resources::processors(4)).unwrap())
    }

    fn request(processors: u32, length: u64, window: (u64, u64)) -> ReservationRequest {
        ReservationRequest {
            resources: Resources::processors(processors),
            length: DurationMs(length),
            window: StartWindow::new(Timestamp(window.0), Timestamp(window.1)),
            flexible: false,
        }
    }

    fn granted_answer(start: u64) -> ReservationAnswer {
        ReservationAnswer::Granted {
            start: Timestamp(start),
        }
    }

    const LATER: Timestamp = Timestamp(1_000);

    #[test]
    fn what_was_granted_to_one_is_refused_to_another() {
        let mut ledger = ledger();
        assert_eq!(
            ledger.request_reservation(1, &request(3, 100, (50, 60)), LATER),
            granted_answer(50)
        );
        let next = ReservationAnswer::NotBefore {
            next: Timestamp(150),
        };
        assert_eq!(
            ledger.request_reservation(2, &request(2, 60, (0, 70)), LATER),
            next
        );
        assert_eq!(ledger.find_by_tag(&2), None);
        assert_eq!(
            ledger.request_reservation(2, &request(1, 60, (0, 70)), LATER),
            granted_answer(0)
        );
    }

    #[test]
    fn a_request_that_is_sent_twice_reserves_once() {
        let mut ledger = ledger();
        assert_eq!(
            ledger.request_reservation(1, &request(4, 10, (0, 0)), LATER),
            granted_answer(0)
        );
        assert_eq!(
            ledger.request_reservation(2, &request(3, 10, (5, 60)), LATER),
            granted_answer(10)
        );
        assert_eq!(
            ledger.request_reservation(2, &request(3, 10, (5, 60)), LATER),
            granted_answer(10)
        );
        assert_eq!(ledger.reservations().count(), 2);
        assert!(ledger.cancel(&2) && !ledger.cancel(&2));
        let all = ledger
            .timeline()
            .least_free(TimeSpan::new(Timestamp(10), Timestamp(99)));
        assert_eq!(all, ResourceAmounts::processors(4));
    }

    #[test]
    fn a_reservation_moves_into_its_own_time_and_stays_if_it_cannot_move() {
        let mut ledger = ledger();
        ledger.request_reservation(1, &request(4, 100, (0, 0)), LATER);
        ledger.request_reservation(2, &request(4, 100, (150, 150)), LATER);
        assert_eq!(
            ledger.modify(&1, 1, &request(4, 100, (50, 60))),
            Some(granted_answer(50))
        );
        let before = Reservation {
            number: 2,
            ..*ledger.find_by_tag(&1).unwrap()
        };
        let next = ReservationAnswer::NotBefore {
            next: Timestamp(250),
        };
        assert_eq!(ledger.modify(&1, 2, &request(4, 100, (60, 70))), Some(next));
        assert_eq!(ledger.find_by_tag(&1), Some(&before));
        assert_eq!(ledger.modify(&3, 1, &request(1, 1, (0, 0))), None);
    }

    #[test]
    fn a_change_that_comes_again_after_a_later_one_changes_nothing() {
        let mut ledger = ledger();
        ledger.request_reservation(1, &request(4, 100, (0, 0)), LATER);
        assert_eq!(
            ledger.modify(&1, 1, &request(4, 100, (50, 60))),
            Some(granted_answer(50))
        );
        assert_eq!(
            ledger.modify(&1, 2, &request(4, 100, (70, 80))),
            Some(granted_answer(70))
        );
        assert_eq!(
            ledger.modify(&1, 1, &request(4, 100, (50, 60))),
            Some(granted_answer(70))
        );
        assert_eq!(ledger.find_by_tag(&1).unwrap().span.from, Timestamp(70));
        assert_eq!(
            ledger.modify(&1, 3, &request(4, 100, (50, 60))),
            Some(granted_answer(50))
        );
    }

    #[test]
    fn a_reservation_that_has_begun_can_last_longer_as_far_as_there_is_room() {
        let mut ledger = ledger();
        ledger.request_reservation(1, &request(4, 100, (0, 0)), LATER);
        ledger.request_reservation(2, &request(1, 100, (150, 150)), LATER);
        ledger.confirm(&1);
        ledger.advance_to(Timestamp(60));
        assert_eq!(
            ledger.modify(&1, 1, &request(4, 150, (0, 0))),
            Some(granted_answer(0))
        );
        let refused = ledger.modify(&1, 2, &request(4, 151, (0, 0)));
        assert_eq!(
            refused,
            Some(ReservationAnswer::NotBefore {
                next: Timestamp(250)
            })
        );
        assert_eq!(
            ledger.find_by_tag(&1).unwrap().span,
            TimeSpan::new(Timestamp(0), Timestamp(150))
        );
        assert_eq!(
            ledger.request_reservation(3, &request(1, 10, (60, 200)), LATER),
            granted_answer(150)
        );
    }

    #[test]
    fn a_lease_that_is_not_confirmed_ends_by_itself() {
        let mut ledger = ledger();
        for tag in 1..=3 {
            ledger.request_reservation(tag, &request(1, 500, (100, 100)), Timestamp(50));
        }
        assert!(ledger.confirm(&1) && ledger.renew(&2, Timestamp(60)));
        assert_eq!(ledger.advance_to(Timestamp(50)), [3]);
        assert_eq!(ledger.advance_to(Timestamp(60)), [2]);
        assert!(!ledger.confirm(&2) && !ledger.renew(&3, LATER));
        assert_eq!(ledger.advance_to(Timestamp(599)), []);
        assert_eq!(ledger.advance_to(Timestamp(600)), [1]);
    }
}
