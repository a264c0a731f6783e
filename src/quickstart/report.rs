//! The report at the end.

use serde::Serialize;

/// What was done and what came of it.
#[derive(Debug, Clone, Serialize)]
pub struct QuickstartReport {
    /// Everything was as it must be.
    pub right: bool,
    /// Where everything is.
    pub directory: String,
    /// The server's configuration file.
    pub config: String,
    /// Address of the API.
    pub server: String,
    /// Address of the metrics.
    pub metrics: String,
    /// The server still runs, as this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_pid: Option<u32>,
    /// The input.
    pub input: InputReport,
    /// The jobs that were submitted.
    pub jobs: Vec<u64>,
    /// Co-allocations that it took.
    pub rounds: u32,
    /// The components.
    pub components: Vec<MovedComponent>,
    /// The site that died.
    pub dead_site: DeadSite,
    /// How long what took.
    pub durations_ms: Durations,
}

/// The input.
#[derive(Debug, Clone, Serialize)]
pub struct InputReport {
    /// Its logical name.
    pub name: String,
    /// The site that has it.
    pub site: String,
    /// Its file there.
    pub file: String,
    /// Its size.
    pub size_bytes: u64,
    /// BLAKE3 digest.
    pub digest: String,
}

/// One component.
#[derive(Debug, Clone, Serialize)]
pub struct MovedComponent {
    /// Its name.
    pub name: String,
    /// Its processors.
    pub processors: u32,
    /// Where it was before the site died.
    pub site_before: String,
    /// Where it finished.
    pub site_after: String,
    /// Its output as fetched.
    pub file: String,
    /// Size of that.
    pub size_bytes: u64,
    /// BLAKE3 digest of that.
    pub digest: String,
    /// BLAKE3 digest of what it must be, worked out from the input.
    pub expected_digest: String,
    /// Both agree.
    pub right: bool,
}

/// The site that died, as the server saw it at the end.
#[derive(Debug, Clone, Serialize)]
pub struct DeadSite {
    /// Its name.
    pub name: String,
    /// Its processes that were killed.
    pub killed: usize,
    /// Its state.
    pub state: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Errors that it was charged with.
    pub errors: u32,
    /// The last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// How long what took, in milliseconds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Durations {
    /// Until the server took work.
    pub server: u64,
    /// From submission until all input was there.
    pub transfer: u64,
    /// From submission to the common start.
    pub first_start: u64,
    /// From the death until the site was charged.
    pub noticed: u64,
    /// From the death to the second common start.
    pub second_start: u64,
    /// From submission to the end.
    pub job: u64,
    /// Everything.
    pub total: u64,
}
