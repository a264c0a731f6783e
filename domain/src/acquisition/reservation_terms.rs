//! The terms of the reservation that a job wants.

use thiserror::Error;

use crate::reservation::StartWindow;
use crate::units::{DurationMs, Timestamp};

/// The least pause before sites that refused it are asked again, however soon the first request is.
const ASKED_AGAIN_LEAST: DurationMs = DurationMs::from_secs(60);
/// The longest pause, unless even the first request comes later.
const ASKED_AGAIN_MOST: DurationMs = DurationMs::from_secs(4 * 3_600);

/// The terms of a job's reservation. Without a reservation the job does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReservationTerms {
    /// The accepted starts of its payloads.
    pub window: StartWindow,
    /// The most by which the starts of its components' reservations may differ: eps.
    pub tolerance: DurationMs,
    /// True if the reservations may be rescheduled: to an earlier start within the window, and to
    /// other sites, as these have more free.
    pub flexible: bool,
    /// The time for which claims are tried first; sites are asked for reservations after that.
    /// `None`: sites are asked at once, and nothing is claimed.
    pub reserve_after: Option<DurationMs>,
    /// True if components that fit no site with reservations are claimed at the start, at sites
    /// that reserve nothing.
    pub unreserved: bool,
    /// True if no quota applies, as an operator asked for it.
    pub exempt: bool,
}

/// A mistake in the terms: no reservation is possible, whatever the sites answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum ReservationTermsError {
    #[error("the latest start of the reservation is before the earliest; give a later one")]
    LatestBeforeEarliest,
    #[error(
        "the reservations may begin {tolerance} apart, but the window of starts is only {window} \
         long; widen it, or lower `reservation.tolerance`"
    )]
    ShorterThanTolerance {
        tolerance: DurationMs,
        window: DurationMs,
    },
    #[error(
        "a job that runs within a reservation (`reservation.use`) gets no reservation of its own; \
         drop one of the two"
    )]
    WithinAndOwn,
    #[error(
        "components of a job that runs within a reservation are not restarted alone; drop \
         `restart_scope`"
    )]
    RestartWithin,
    #[error(
        "a flexible request is divided over what is free anywhere, and cannot run within a \
         reservation (`reservation.use`); name its components, or drop one of the two"
    )]
    FlexibleWithin,
    #[error(
        "a flexible request that lists its `splits` cannot have a reservation; use \
         min_component_size and max_components in place of them, or drop `[reservation]`"
    )]
    FlexibleSplits,
    #[error(
        "a flexible request is divided over sites that grant reservations, and nothing of it is \
         claimed at the start; drop `unreserved`"
    )]
    FlexibleUnreserved,
    #[error(
        "a job with a reservation waits in no queue; drop `acquisition.mode`, or `[reservation]`"
    )]
    Queued,
}

impl ReservationTerms {
    /// Returns when sites are asked for it, given since when the job has waited in vain (or never
    /// had to) and how often they have refused. A time past its latest start means that nobody is
    /// asked any more: it is too late for the job.
    pub fn next_request_at(&self, waits_since: Timestamp, refusals: u32) -> Timestamp {
        let Some(after) = self.reserve_after else {
            return Timestamp::default();
        };
        let due = waits_since + pause_after_refusals(after, refusals);
        let latest = self.window.latest;
        // A pause that has grown too long must not take its last chance.
        let last = latest - after;
        match () {
            () if due <= latest => due,
            () if refusals > 0 && waits_since + pause_after_refusals(after, 1) <= last => last,
            () => latest + DurationMs(1),
        }
    }

    /// Returns how far ahead its latest start is, if that exceeds what its user may reserve;
    /// `offset` is how much later the last of its components begins.
    pub fn excess_lead(
        &self,
        now: Timestamp,
        offset: DurationMs,
        most_ahead: Option<DurationMs>,
    ) -> Option<DurationMs> {
        let ahead = (self.window.latest + offset).since(now);
        most_ahead
            .filter(|most| !self.exempt && ahead > *most)
            .map(|_| ahead)
    }

    /// Checks what can be checked without a clock.
    ///
    /// # Errors
    /// No start can satisfy the terms.
    pub fn validate(&self) -> Result<(), ReservationTermsError> {
        let StartWindow { earliest, latest } = self.window;
        let tolerance = self.tolerance;
        let window = latest.since(earliest);
        match () {
            () if self.window.is_empty() => Err(ReservationTermsError::LatestBeforeEarliest),
            () if window < tolerance => {
                Err(ReservationTermsError::ShorterThanTolerance { tolerance, window })
            }
            () => Ok(()),
        }
    }
}

/// Returns the pause before sites are asked again. It doubles after each refusal: otherwise many
/// jobs that wait for full sites would keep asking.
fn pause_after_refusals(after: DurationMs, refusals: u32) -> DurationMs {
    let most = ASKED_AGAIN_MOST.max(after);
    if refusals == 0 {
        after
    } else {
        let doubled = DurationMs(after.0.saturating_mul(1 << refusals.min(32)));
        doubled.clamp(ASKED_AGAIN_LEAST, most)
    }
}
