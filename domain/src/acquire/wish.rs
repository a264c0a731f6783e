//! What a job says of the reservation that it wants.

use thiserror::Error;

use crate::reserve::StartWindow;
use crate::units::DurationMs;

/// A start that the job is promised, or it does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationWish {
    /// The starts of its payloads that are accepted.
    pub window: StartWindow,
    /// How far apart the reservations of its components may begin: eps.
    pub tolerance: DurationMs,
    /// What is promised may be moved to an earlier start within the window, and to other sites,
    /// as these have more free.
    pub flexible: bool,
}

/// Why no reservation can be had, whatever the sites answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum InvalidWish {
    #[error("the latest start of the reservation is before the earliest; give a later one")]
    LatestBeforeEarliest,
    #[error(
        "the reservations may begin {tolerance} apart, but the window of starts is only {window} \
         long; widen it, or lower `reservation.tolerance`"
    )]
    ShorterThanTolerance { tolerance: DurationMs, window: DurationMs },
    #[error(
        "a job that runs within a reservation (`reservation.use`) is promised no start of its own; \
         drop one of the two"
    )]
    WithinAndOwn,
    #[error(
        "components of a job that runs within a reservation are not restarted alone; drop \
         `restart_scope`"
    )]
    RestartWithin,
    #[error("a flexible request cannot be reserved; name its components, or drop `[reservation]`")]
    Flexible,
    #[error(
        "a job with a reservation waits in no queue; drop `acquisition.mode`, or `[reservation]`"
    )]
    Queued,
}

impl ReservationWish {
    /// Checks what can be checked without a clock.
    ///
    /// # Errors
    /// No start can be granted.
    pub fn validate(&self) -> Result<(), InvalidWish> {
        let StartWindow { earliest, latest } = self.window;
        let (tolerance, window) = (self.tolerance, latest.since(earliest));
        match () {
            () if self.window.is_empty() => Err(InvalidWish::LatestBeforeEarliest),
            () if window < tolerance => {
                Err(InvalidWish::ShorterThanTolerance { tolerance, window })
            }
            () => Ok(()),
        }
    }
}
