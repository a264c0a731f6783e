//! A site in memory that grants reservations.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use cospan_domain::reservation::{
    FreeSlot, ReservationAnswer, ReservationLedger, ReservationTag, TimeSpan, Timeline,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::{
    ObservedReservation, ReservationsByTag, SiteError, SiteReservations, TaggedReservationRequest,
};

/// The ledger of reservations that the site has granted.
pub(super) struct StubReservations(Mutex<ReservationLedger<ReservationTag>>);

impl StubReservations {
    /// A site of this many processors, without any reservation.
    pub(super) fn new(processors: u32) -> anyhow::Result<Self> {
        let timeline = Timeline::new(Timestamp(0), &Resources::processors(processors))?;
        Ok(Self(Mutex::new(ReservationLedger::new(timeline))))
    }

    fn with_ledger<T>(
        &self,
        act: impl FnOnce(&mut ReservationLedger<ReservationTag>) -> T,
    ) -> Result<T, SiteError> {
        Ok(act(&mut self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)))
    }
}

/// No offer expires while it is measured.
const NEVER: Timestamp = Timestamp(u64::MAX);

#[async_trait]
impl SiteReservations for StubReservations {
    async fn request(
        &self,
        order: &TaggedReservationRequest,
    ) -> Result<ReservationAnswer, SiteError> {
        self.with_ledger(|ledger| ledger.request_reservation(order.tag, &order.request, NEVER))
    }

    async fn modify(
        &self,
        order: &TaggedReservationRequest,
    ) -> Result<Option<ReservationAnswer>, SiteError> {
        self.with_ledger(|ledger| ledger.modify(&order.tag, order.number, &order.request))
    }

    async fn renew(&self, tag: ReservationTag, _: DurationMs) -> Result<bool, SiteError> {
        self.with_ledger(|ledger| ledger.renew(&tag, NEVER))
    }

    async fn confirm(&self, tag: ReservationTag) -> Result<bool, SiteError> {
        self.with_ledger(|ledger| ledger.confirm(&tag))
    }

    async fn release(&self, tag: ReservationTag) -> Result<bool, SiteError> {
        self.with_ledger(|ledger| ledger.cancel(&tag))
    }

    async fn find(&self, tag: ReservationTag) -> Result<Option<ObservedReservation>, SiteError> {
        self.with_ledger(|ledger| {
            ledger.find_by_tag(&tag).map(|lease| ObservedReservation {
                span: lease.span,
                resources: ledger.timeline().kinds().to_resources(&lease.amounts),
                confirmed: lease.expires.is_none(),
            })
        })
    }

    async fn list(&self) -> Result<ReservationsByTag, SiteError> {
        Ok(ReservationsByTag::new())
    }

    async fn slots(&self, _: TimeSpan, _: usize) -> Result<Vec<FreeSlot>, SiteError> {
        Ok(Vec::new())
    }
}
