//! The report at the end.

use serde::Serialize;

/// The report of the demonstration.
#[derive(Debug, Clone, Serialize)]
pub struct QuickstartReport {
    /// True if every output was right.
    pub right: bool,
    /// Directory of all files.
    pub directory: String,
    /// The server's configuration file.
    pub config: String,
    /// Address of the API.
    pub server: String,
    /// Address of the metrics.
    pub metrics: String,
    /// The process of the server, if it still runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_pid: Option<u32>,
    pub input: InputReport,
    /// The jobs that were submitted.
    pub jobs: Vec<u64>,
    /// Rounds that the job took.
    pub rounds: u32,
    pub components: Vec<MovedComponent>,
    /// The site that died.
    pub dead_site: DeadSite,
    pub durations_ms: StepDurations,
}

#[derive(Debug, Clone, Serialize)]
pub struct InputReport {
    /// The logical name.
    pub name: String,
    /// The site that has it.
    pub site: String,
    /// The file there.
    pub file: String,
    pub size_bytes: u64,
    /// BLAKE3 digest.
    pub digest: String,
}

/// A component.
#[derive(Debug, Clone, Serialize)]
pub struct MovedComponent {
    pub name: String,
    pub processors: u32,
    /// The site before the death.
    pub site_before: String,
    /// The site where it finished.
    pub site_after: String,
    /// The file of its output, as fetched.
    pub file: String,
    /// Size of the output.
    pub size_bytes: u64,
    /// BLAKE3 digest of the output.
    pub digest: String,
    /// BLAKE3 digest of the right output, computed from the input.
    pub expected_digest: String,
    /// True if both agree.
    pub right: bool,
}

/// The site that died, as the server saw it at the end.
#[derive(Debug, Clone, Serialize)]
pub struct DeadSite {
    pub name: String,
    /// Processes at the site that were killed.
    pub killed: usize,
    pub state: String,
    /// The reason of the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Errors that were charged to it.
    pub errors: u32,
    /// The last charged error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// Durations of all steps, in milliseconds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct StepDurations {
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
    /// The whole demonstration.
    pub total: u64,
}
