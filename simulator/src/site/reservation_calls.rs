//! Reservations at a simulated site, as its callers see them.

use async_trait::async_trait;
use cospan_domain::reservation::{ReservationAnswer, ReservationTag, TimeSpan};
use cospan_domain::units::DurationMs;
use cospan_sites::port::{
    FreeSlot, ObservedReservation, ReservationsByTag, SiteCallKind, SiteError, SiteReservations,
    TaggedReservationRequest,
};

use super::SimulatedSite;
use crate::call_faults::CallFate;
use crate::fault_kinds::FaultKind;
use crate::world::SimulatedWorld;

const CALL: SiteCallKind = SiteCallKind::Reserve;
/// Longest time by which a wrong start is later than requested.
const WRONG_BY: DurationMs = DurationMs(7_200_000);

impl SimulatedSite {
    /// Returns the request as the site understands it: with another window if the fate says so.
    fn misunderstand_request(
        fate: CallFate,
        order: &TaggedReservationRequest,
    ) -> TaggedReservationRequest {
        let mut order = order.clone();
        if fate.fault == Some(FaultKind::WrongStart) {
            let length = order
                .request
                .window
                .latest
                .since(order.request.window.earliest);
            let later = DurationMs(length.0 + 1 + fate.dice % WRONG_BY.0);
            order.request.window = order.request.window.shifted_by(later);
        }
        order
    }
}

#[async_trait]
impl SiteReservations for SimulatedSite {
    async fn request(
        &self,
        order: &TaggedReservationRequest,
    ) -> Result<ReservationAnswer, SiteError> {
        let fate = self.call_faults.draw_fate();
        let order = Self::misunderstand_request(fate, order);
        self.call_with_fate(fate, CALL, None, move |world: &mut SimulatedWorld, site| {
            world.request_reservation(site, &order)
        })
        .await
    }

    async fn modify(
        &self,
        order: &TaggedReservationRequest,
    ) -> Result<Option<ReservationAnswer>, SiteError> {
        let fate = self.call_faults.draw_fate();
        let order = Self::misunderstand_request(fate, order);
        self.call_with_fate(fate, CALL, None, move |world: &mut SimulatedWorld, site| {
            world.modify_reservation(site, &order)
        })
        .await
    }

    async fn renew(&self, tag: ReservationTag, keep_for: DurationMs) -> Result<bool, SiteError> {
        self.call_site(CALL, move |world, site| {
            world.renew_reservation(site, tag, keep_for)
        })
        .await
    }

    async fn confirm(&self, tag: ReservationTag) -> Result<bool, SiteError> {
        self.call_site(CALL, move |world, site| {
            world.confirm_reservation(site, tag)
        })
        .await
    }

    async fn release(&self, tag: ReservationTag) -> Result<bool, SiteError> {
        self.call_site(CALL, move |world, site| world.cancel_reservation(site, tag))
            .await
    }

    async fn find(&self, tag: ReservationTag) -> Result<Option<ObservedReservation>, SiteError> {
        Ok(self.list().await?.remove(&tag))
    }

    async fn list(&self) -> Result<ReservationsByTag, SiteError> {
        self.call_site(CALL, |world, site| world.list_reservations(site))
            .await
    }

    async fn slots(&self, span: TimeSpan, most: usize) -> Result<Vec<FreeSlot>, SiteError> {
        self.call_site(CALL, move |world, site| world.free_slots(site, span, most))
            .await
    }
}
