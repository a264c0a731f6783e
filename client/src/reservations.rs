//! Calls about reservations.

use super::calls::JobFilter;
use super::query::QueryBuilder;
use super::{Client, ClientError};
use cospan_api::v1::commands::OutcomeReport;
use cospan_api::v1::reservation::{ReservationDocument, ReservationPage, ReservationRow};
use cospan_api::v1::shared_reservation::{
    SharedAccess, SharedDocument, SharedExtension, SharedReport,
};
use cospan_api::v1::slots::SlotsReport;
use cospan_api::v1::{Instant, Length};

/// A request for possible starts.
#[derive(Debug, Clone)]
pub struct SlotsRequest<'r> {
    /// Processors of each component.
    pub processors: u32,
    /// Wall time of the components.
    pub wall_time: Length,
    /// Number of components that start together.
    pub components: Option<u32>,
    /// The earliest start.
    pub earliest: Option<Instant>,
    /// The latest start, as a length of time after the earliest.
    pub within: Option<Length>,
    /// Only this site.
    pub site: Option<&'r str>,
    /// Most windows of each site.
    pub limit: Option<u32>,
}

impl Client {
    /// Finds the possible starts of a job.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn find_slots(&self, wanted: &SlotsRequest<'_>) -> Result<SlotsReport, ClientError> {
        let path = QueryBuilder::from_path("/v1/slots")
            .with_parameter("processors", wanted.processors)
            .with_parameter("for", wanted.wall_time)
            .with_optional_parameter("components", wanted.components)
            .with_optional_parameter("earliest", wanted.earliest)
            .with_optional_parameter("within", wanted.within)
            .with_optional_parameter("site", wanted.site)
            .with_optional_parameter("limit", wanted.limit);
        self.get(&path.0)
    }

    /// Lists a page of jobs that have a reservation or want one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn list_reservations(&self, filter: &JobFilter) -> Result<ReservationPage, ClientError> {
        self.get(
            &filter
                .add_to_query(QueryBuilder::from_path("/v1/reservations"))
                .0,
        )
    }

    /// Returns the reservations of one job, and their events.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn reservation(&self, job: u64) -> Result<ReservationRow, ClientError> {
        self.get(&format!("/v1/reservations/{job}"))
    }

    /// Returns one shared reservation.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn shared_reservation(&self, name: &str) -> Result<SharedReport, ClientError> {
        self.get(&format!("/v1/shared-reservations/{name}"))
    }

    /// Creates a shared reservation.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn create_shared(&self, wanted: &SharedDocument) -> Result<SharedReport, ClientError> {
        self.post("/v1/shared-reservations", wanted)
    }

    /// Moves the end of a shared reservation to a later time.
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

    /// Changes the keys that may use a shared reservation.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn change_shared_access(
        &self,
        name: &str,
        who: &SharedAccess,
    ) -> Result<SharedReport, ClientError> {
        self.post(&format!("/v1/shared-reservations/{name}/allow"), who)
    }

    /// Cancels a shared reservation.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn cancel_shared(&self, name: &str) -> Result<SharedReport, ClientError> {
        let nothing = serde_json::json!({});
        self.post(&format!("/v1/shared-reservations/{name}/cancel"), &nothing)
    }

    /// Cancels the reservations of a job; the job is then placed as others are.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn cancel_reservation(&self, job: u64) -> Result<(), ClientError> {
        let path = format!("/v1/reservations/{job}/cancel");
        self.send_request(self.build_request("POST", &path), &[])
            .map(drop)
    }

    /// Reschedules a job; its reservation is kept until another one is found.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn move_reservation(&self, job: u64, to: &ReservationDocument) -> Result<(), ClientError> {
        let path = format!("/v1/reservations/{job}/move");
        self.post::<_, OutcomeReport>(&path, to).map(drop)
    }
}
