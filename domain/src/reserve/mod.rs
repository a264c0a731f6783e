//! Reservations: what is free when, what a site answers, and how several sites begin together.
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

pub use agreement::{Answer, ReservationRequest, StartWindow, answer, lease_length};
pub use candidates::{Candidate, Found, Ranking};
pub use coallocation::{Ask, Coallocation, Failure, Outcome, Part, Reserved, Search, Standing};
pub use ebb::{Ebb, ebbs};
pub use ledger::{Lease, Ledger};
pub use starts::{
    CommonStarts, FreeSlot, Parts, PossibleStarts, common_starts, free_processors, possible_starts,
};
pub use tag::{InvalidTag, ReservationTag, Serial};
pub use timeline::{Amounts, Kinds, KindsError, Opening, Slot, Span, Timeline};
