//! Co-allocation: a reservation for each part of a job, all starting within one short window (the
//! broker's paper, section 3.2, Algorithms 1 and 2).
//!
//! The search is a state machine. It makes one call at a time to one site and gets the outcome, so
//! that each step can be made durable before it is performed. The next call follows from the state
//! alone: after a restart the same call is made again, under the same serial. Unknown outcomes do
//! not come here; the driver of the search looks the reservation up first.
//!
//! If no two parts can use the same site, a common start is found exactly if there is one. If they
//! share sites, the published algorithm misses some starts, and so does this one:
//! - Each part in turn takes the earliest start in the window, and a hand-over keeps it: no part is
//!   made to wait for a later one within the tolerance.
//! - For each part, only the first of the shortest paths is tried in each window.
//! - Sites compute T_next with the job's own other reservations taken, so that the window may slide
//!   over a start that these leave free once they have moved.

mod augmenting_paths;
mod coallocation_request;
mod next_window;
mod ranked_offers;
mod reservation_call;
mod reservation_search;
mod search_steps;
#[cfg(test)]
mod tests;

pub use augmenting_paths::AugmentingPath;
pub use coallocation_request::{
    Coallocation, CoallocationError, CoallocationPart, sort_largest_first,
};
pub use ranked_offers::RankingCall;
pub use reservation_call::{ReservationCall, ReservationOutcome};
pub use reservation_search::{
    AugmentingCall, PartReservation, PlacingStep, ReservationSearch, ReservationSearchFailure,
    ReservationSearchState, ReservationSearchStep,
};
