//! Reservations: free time at sites, their answers to requests, and a common start at several
//! sites.
//!
//! A reservation is one way to get processors; claiming them while they are idle is another
//! ([`crate::acquire`]). Absent here: calls to sites and timers.

pub mod agreement;
pub mod candidates;
pub mod coallocation;
pub mod ebb;
pub mod flexco;
pub mod ledger;
pub mod quota;
pub mod ranking;
pub mod starts;
pub mod tag;
pub mod timeline;

pub use agreement::{ReservationAnswer, ReservationRequest, StartWindow, answer, lease_length};
pub use candidates::{CandidateState, Ranking, ReservationCandidate};
pub use coallocation::{
    Coallocation, CoallocationPart, PartReservation, ReservationCall, ReservationOutcome,
    ReservationSearch, SearchFailure, SearchState,
};
pub use ebb::{IdleDrop, ebbs};
pub use ledger::{Reservation, ReservationLedger};
pub use starts::{
    CommonStarts, EqualParts, FreeSlot, PossibleStarts, common_starts, free_processors,
    possible_starts,
};
pub use tag::{InvalidTag, ReservationTag, Serial};
pub use timeline::{Amounts, Kinds, KindsError, Span, Timeline, TimelineOpening, TimelineSlot};
