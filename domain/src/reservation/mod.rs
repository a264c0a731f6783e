//! Reservations: free time at sites, their answers to requests, and a common start at several
//! sites.
//!
//! A reservation is one way to get processors; claiming them while they are idle is another
//! ([`crate::acquisition`]). Absent here: calls to sites and timers.

pub mod agreement;
pub mod candidates;
pub mod coallocation;
pub mod common_starts;
pub mod flexco;
pub mod idle_drops;
pub mod owner_quota;
pub mod ranking;
pub mod reservation_ledger;
pub mod reservation_tag;
pub mod timeline;

pub use agreement::{
    ReservationAnswer, ReservationRequest, StartWindow, answer_request, reservation_length,
};
pub use candidates::{CandidateState, ReservationCandidate, SiteRanking};
pub use coallocation::{
    Coallocation, CoallocationPart, PartReservation, ReservationCall, ReservationOutcome,
    ReservationSearch, ReservationSearchFailure, ReservationSearchState,
};
pub use common_starts::{
    CommonStarts, EqualParts, FreeSlot, PossibleStarts, common_starts, free_processors,
    possible_starts,
};
pub use idle_drops::{IdleDrop, list_idle_drops};
pub use reservation_ledger::{Reservation, ReservationLedger};
pub use reservation_tag::{ReservationSerial, ReservationTag, ReservationTagError};
pub use timeline::{
    OpeningRequest, ResourceAmounts, ResourceKinds, ResourceKindsError, TimeSpan, Timeline,
    TimelineSlot,
};
