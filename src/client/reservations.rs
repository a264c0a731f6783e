//! Calls about starts that are promised.

use super::calls::JobFilter;
use super::query::Query;
use super::{Client, ClientError};
use crate::api::v1::control::OutcomeReport;
use crate::api::v1::reservation::{ReservationDocument, ReservationPage, ReservationRow};
use crate::api::v1::shared::{SharedAccess, SharedDocument, SharedExtension, SharedReport};
use crate::api::v1::slots::SlotsReport;
use crate::api::v1::{Instant, Length};

/// What is to start, and when at the earliest.
#[derive(Debug, Clone)]
pub struct SlotsRequest<'r> {
    /// Processors of each component.
    pub processors: u32,
    /// How long it runs.
    pub wall_time: Length,
    /// How many components start together.
    pub components: Option<u32>,
    /// The earliest start.
    pub earliest: Option<Instant>,
    /// The latest, as a length after the earliest.
    pub within: Option<Length>,
    /// Only this site.
    pub site: Option<&'r str>,
    /// At most so many windows of each site.
    pub limit: Option<u32>,
}

impl Client {
    /// When a job could start.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn slots(&self, wanted: &SlotsRequest<'_>) -> Result<SlotsReport, ClientError> {
        let path = Query::of("/v1/slots")
            .with("processors", wanted.processors)
            .with("for", wanted.wall_time)
            .with_some("components", wanted.components)
            .with_some("earliest", wanted.earliest)
            .with_some("within", wanted.within)
            .with_some("site", wanted.site)
            .with_some("limit", wanted.limit);
        self.get(&path.0)
    }

    /// One page of jobs that are to be promised a start, or are.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn reservations(&self, filter: &JobFilter) -> Result<ReservationPage, ClientError> {
        self.get(&filter.added_to(Query::of("/v1/reservations")).0)
    }

    /// The reservations of one job, and what happened to them.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn reservation(&self, job: u64) -> Result<ReservationRow, ClientError> {
        self.get(&format!("/v1/reservations/{job}"))
    }

    /// One reservation that jobs share.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn shared_reservation(&self, name: &str) -> Result<SharedReport, ClientError> {
        self.get(&format!("/v1/shared-reservations/{name}"))
    }

    /// Has one made.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn create_shared(&self, wanted: &SharedDocument) -> Result<SharedReport, ClientError> {
        self.post("/v1/shared-reservations", wanted)
    }

    /// Has one end later.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn extend_shared(
        &self,
        name: &str,
        to: &SharedExtension,
    ) -> Result<SharedReport, ClientError> {
        self.post(&format!("/v1/shared-reservations/{name}/extend"), to)
    }

    /// Changes who may use one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn allow_shared(
        &self,
        name: &str,
        who: &SharedAccess,
    ) -> Result<SharedReport, ClientError> {
        self.post(&format!("/v1/shared-reservations/{name}/allow"), who)
    }

    /// Gives one back.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn cancel_shared(&self, name: &str) -> Result<SharedReport, ClientError> {
        let nothing = serde_json::json!({});
        self.post(&format!("/v1/shared-reservations/{name}/cancel"), &nothing)
    }

    /// Gives the reservations of a job back; it is placed as others are.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn cancel_reservation(&self, job: u64) -> Result<(), ClientError> {
        let path = format!("/v1/reservations/{job}/cancel");
        self.send(self.request("POST", &path), &[]).map(drop)
    }

    /// Has another start looked for; what is promised is kept until it is found.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn move_reservation(&self, job: u64, to: &ReservationDocument) -> Result<(), ClientError> {
        let path = format!("/v1/reservations/{job}/move");
        self.post::<_, OutcomeReport>(&path, to).map(drop)
    }
}
