//! Calls about the injection of faults.

use super::query::QueryBuilder;
use super::{Client, ClientError};
use cospan_api::v1::chaos::{ChaosPlan, ChaosReport, ChaosStatus, RehearsalReport};

impl Client {
    /// Returns the bounds of fault injection, and the faults that are being injected.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn chaos_status(&self) -> Result<ChaosStatus, ClientError> {
        self.get("/v1/chaos")
    }

    /// Begins to inject faults; with `dry_run` only reports what would run.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn inject_faults(
        &self,
        plan: &ChaosPlan,
        dry_run: bool,
    ) -> Result<RehearsalReport, ClientError> {
        self.post(
            &QueryBuilder::from_path("/v1/chaos")
                .with_optional_parameter("dry_run", dry_run.then_some(true))
                .0,
            plan,
        )
    }

    /// Ends all injected faults.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn stop_chaos(&self) -> Result<ChaosReport, ClientError> {
        let response = self.send_request(self.build_request("DELETE", "/v1/chaos"), &[])?;
        self.read_json(response)
    }

    /// Returns the injected faults, and their effects on the control plane.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn chaos_report(&self) -> Result<ChaosReport, ClientError> {
        self.get("/v1/chaos/report")
    }
}
