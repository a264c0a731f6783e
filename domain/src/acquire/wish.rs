//! What a job says of the reservation that it wants.

use thiserror::Error;

use crate::reserve::StartWindow;
use crate::units::{DurationMs, Timestamp};

/// Sites that refused it are asked again after this at least, however soon they are asked first.
const ASKED_AGAIN_LEAST: DurationMs = DurationMs::from_secs(60);
/// And after this at most, unless they are asked later even the first time.
const ASKED_AGAIN_MOST: DurationMs = DurationMs::from_secs(4 * 3_600);

/// A start that the job is promised, or it does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReservationTerms {
    /// The starts of its payloads that are accepted.
    pub window: StartWindow,
    /// How far apart the reservations of its components may begin: eps.
    pub tolerance: DurationMs,
    /// What is promised may be moved to an earlier start within the window, and to other sites,
    /// as these have more free.
    pub flexible: bool,
    /// Processors are claimed for it first; sites are asked once it has waited so long in vain.
    /// `None`: they are asked at once, and nothing is claimed.
    pub reserve_after: Option<DurationMs>,
    /// Components that no site which grants reservations could hold are claimed at the start, at
    /// sites that promise nothing.
    pub unreserved: bool,
    /// No quota holds for it: an operator asked for it.
    pub exempt: bool,
}

/// Why no reservation can be had, whatever the sites answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum InvalidTerms {
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
        "a job that runs within a reservation (`reservation.use`) is promised no start of its own; \
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
        "a flexible request that lists its `splits` cannot be promised a start; use \
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
    /// When sites are asked for it, if its job has waited in vain since then, or never had to, and
    /// they have refused it so often. Past its latest start if nobody is asked any more: then it is
    /// too late for the job.
    pub fn asked_at(&self, waits_since: Timestamp, refusals: u32) -> Timestamp {
        let Some(after) = self.reserve_after else {
            return Timestamp::default();
        };
        let due = waits_since + pause(after, refusals);
        let latest = self.window.latest;
        // A pause that has grown too long for it does not take its last chance.
        let last = latest - after;
        match () {
            () if due <= latest => due,
            () if refusals > 0 && waits_since + pause(after, 1) <= last => last,
            () => latest + DurationMs(1),
        }
    }

    /// How far ahead of what its user may reserve its latest start is, if it is; the last of its
    /// components begins so long after that.
    pub fn too_far(
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
    /// No start can be granted.
    pub fn validate(&self) -> Result<(), InvalidTerms> {
        let StartWindow { earliest, latest } = self.window;
        let tolerance = self.tolerance;
        let window = latest.since(earliest);
        match () {
            () if self.window.is_empty() => Err(InvalidTerms::LatestBeforeEarliest),
            () if window < tolerance => {
                Err(InvalidTerms::ShorterThanTolerance { tolerance, window })
            }
            () => Ok(()),
        }
    }
}

/// How long sites are not asked. Twice as long after each refusal: where many jobs wait for full
/// sites they would ask for nothing else all the time.
fn pause(after: DurationMs, refusals: u32) -> DurationMs {
    let most = ASKED_AGAIN_MOST.max(after);
    let doubled = |first: DurationMs| DurationMs(first.0.saturating_mul(1 << refusals.min(32)));
    if refusals == 0 {
        after
    } else {
        doubled(after).clamp(ASKED_AGAIN_LEAST, most)
    }
}
