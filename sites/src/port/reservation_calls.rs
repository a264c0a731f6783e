//! Reservations at a site that grants them.

use std::collections::BTreeMap;

use async_trait::async_trait;
pub use cospan_domain::reservation::FreeSlot;
use cospan_domain::reservation::{
    ReservationAnswer, ReservationRequest, ReservationTag, StartWindow, TimeSpan,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};

use super::SiteError;

/// A request for a reservation, or for a change of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaggedReservationRequest {
    /// The tag of the reservation.
    pub tag: ReservationTag,
    /// The number of the request under this tag, from 1. A site that changes a reservation in place
    /// ignores a request that comes after a later one.
    pub number: u32,
    /// The terms that are requested.
    pub request: ReservationRequest,
    /// An offer stands for this long unless it is confirmed.
    pub keep_for: DurationMs,
}

/// A reservation as its site shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedReservation {
    /// The span, by the site's clock.
    pub span: TimeSpan,
    /// The resources.
    pub resources: Resources,
    /// True if it does not end by itself before its time.
    pub confirmed: bool,
}

/// Sites that count in seconds begin with the second, and end with it.
const SECOND: DurationMs = DurationMs(1_000);

impl ObservedReservation {
    /// Returns the start that was granted for a request with this window: if the window begins
    /// within a second, the site may have reserved from the beginning of that.
    pub fn granted_start(&self, window: StartWindow) -> Timestamp {
        let begins_within = window.earliest.since(self.span.from) < SECOND;
        if begins_within {
            self.span.from.max(window.earliest)
        } else {
            self.span.from
        }
    }

    /// Returns true if it has this span, as far as a site can say that counts in seconds.
    pub fn has_span(&self, span: TimeSpan) -> bool {
        time_between(self.span.from, span.from) < SECOND
            && time_between(self.span.to, span.to) < SECOND
    }
}

fn time_between(one: Timestamp, other: Timestamp) -> DurationMs {
    one.since(other).max(other.since(one))
}

/// The reservations of a site that grants them. A site makes an offer, which ends by itself unless
/// it is confirmed in time. Starts are the site's time. The site enforces its reservations.
#[async_trait]
pub trait SiteReservations: Send + Sync {
    /// Reserves, or says when the same may be granted. If the tag has a reservation
    /// already, answers with that.
    async fn request(
        &self,
        order: &TaggedReservationRequest,
    ) -> Result<ReservationAnswer, SiteError>;

    /// Changes a reservation, or leaves it as it is; `None` if there is none with that tag.
    async fn modify(
        &self,
        order: &TaggedReservationRequest,
    ) -> Result<Option<ReservationAnswer>, SiteError>;

    /// Lets an offer stand for this long from now; `false` if it has ended.
    async fn renew(&self, tag: ReservationTag, keep_for: DurationMs) -> Result<bool, SiteError>;

    /// Confirms an offer, which would end by itself; `false` if it has ended.
    async fn confirm(&self, tag: ReservationTag) -> Result<bool, SiteError>;

    /// Cancels a reservation; `false` if there is none with that tag.
    async fn release(&self, tag: ReservationTag) -> Result<bool, SiteError>;

    /// Looks for a reservation by its tag.
    async fn find(&self, tag: ReservationTag) -> Result<Option<ObservedReservation>, SiteError>;

    /// Lists all reservations, of any instance.
    async fn list(&self) -> Result<ReservationsByTag, SiteError>;

    /// Lists the longest slots of free time within a span, at most `most`, the earliest first.
    async fn slots(&self, span: TimeSpan, most: usize) -> Result<Vec<FreeSlot>, SiteError>;
}

/// Reservations by tag.
pub type ReservationsByTag = BTreeMap<ReservationTag, ObservedReservation>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_site_counts_in_seconds_is_what_was_asked_for() {
        let seen = |from, to| {
            let span = TimeSpan::new(Timestamp(from), Timestamp(to));
            ObservedReservation {
                span,
                resources: Resources::default(),
                confirmed: true,
            }
        };
        let start = |from, window| seen(from, 90_000).granted_start(window);
        let exactly = StartWindow::single_start(Timestamp(10_400));
        assert_eq!(start(10_000, exactly), Timestamp(10_400));
        assert_eq!(
            start(9_000, exactly),
            Timestamp(9_000),
            "another start stays wrong"
        );
        let wide = StartWindow::new(Timestamp(10_400), Timestamp(12_000));
        assert_eq!(start(11_000, wide), Timestamp(11_000));
        let span = TimeSpan::new(Timestamp(10_400), Timestamp(70_400));
        assert!(seen(10_000, 71_000).has_span(span));
        assert!(!seen(10_000, 71_500).has_span(span) && !seen(12_000, 70_400).has_span(span));
    }
}
