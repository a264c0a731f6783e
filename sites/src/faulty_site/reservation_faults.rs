//! Faults that affect calls about reservations.

use async_trait::async_trait;
use cospan_domain::reservation::{ReservationAnswer, ReservationTag, TimeSpan};
use cospan_domain::units::DurationMs;

use super::wrapped_site::FaultySite;
use crate::port::{
    FreeSlot, ObservedReservation, ReservationsByTag, SiteCallKind, SiteError, SiteReservations,
    TaggedReservationRequest,
};

const CALL: SiteCallKind = SiteCallKind::Reserve;

#[async_trait]
impl SiteReservations for FaultySite {
    async fn request(
        &self,
        order: &TaggedReservationRequest,
    ) -> Result<ReservationAnswer, SiteError> {
        let granting = self.inner_reservations()?;
        self.call_without_falsifying(CALL, || granting.request(order))
            .await
    }

    async fn modify(
        &self,
        order: &TaggedReservationRequest,
    ) -> Result<Option<ReservationAnswer>, SiteError> {
        let granting = self.inner_reservations()?;
        self.call_without_falsifying(CALL, || granting.modify(order))
            .await
    }

    async fn renew(&self, tag: ReservationTag, keep_for: DurationMs) -> Result<bool, SiteError> {
        let granting = self.inner_reservations()?;
        self.call_without_falsifying(CALL, || granting.renew(tag, keep_for))
            .await
    }

    async fn confirm(&self, tag: ReservationTag) -> Result<bool, SiteError> {
        let granting = self.inner_reservations()?;
        self.call_without_falsifying(CALL, || granting.confirm(tag))
            .await
    }

    async fn release(&self, tag: ReservationTag) -> Result<bool, SiteError> {
        let granting = self.inner_reservations()?;
        self.call_without_falsifying(CALL, || granting.release(tag))
            .await
    }

    async fn find(&self, tag: ReservationTag) -> Result<Option<ObservedReservation>, SiteError> {
        let granting = self.inner_reservations()?;
        self.call_without_falsifying(CALL, || granting.find(tag))
            .await
    }

    async fn list(&self) -> Result<ReservationsByTag, SiteError> {
        let granting = self.inner_reservations()?;
        self.call_without_falsifying(CALL, || granting.list()).await
    }

    async fn slots(&self, span: TimeSpan, most: usize) -> Result<Vec<FreeSlot>, SiteError> {
        let granting = self.inner_reservations()?;
        self.call_without_falsifying(CALL, || granting.slots(span, most))
            .await
    }
}
