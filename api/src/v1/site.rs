//! The public view of a site.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::partition::LaneReport;
use super::preferences::ScoreNumber;
use super::quantity::Instant;

/// Counts by name: `processors`, `memory_mb`, `gpus`, ...
pub type Counts = BTreeMap<String, u64>;

/// A site.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SiteReport {
    /// The name of the site.
    pub name: String,
    /// `unknown`, `usable`, `unusable`, `probing`, `draining`, `drained`, `maintenance`,
    /// `frozen`, `silent` (it has just stopped answering), `unreachable` or `credentials-expired`.
    #[schema(example = "usable")]
    pub state: String,
    /// The reason why the site is not usable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Everything that the site has.
    pub total: Counts,
    /// Resources that are free for one more submission, as the site last reported.
    pub idle: Counts,
    /// Resources of the site that our attempts hold.
    pub held: Counts,
    /// The labels of the site.
    pub labels: BTreeMap<String, Vec<String>>,
    /// Name and version of the batch system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// Age of the last answer, in milliseconds; missing if the site never answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Errors in a row.
    pub consecutive_errors: u32,
    /// The last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When an unusable site is probed next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_probe_at: Option<Instant>,
    /// Maintenance windows, in which nothing may run there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maintenance: Vec<WindowReport>,
    /// Commands in force: `drain`, `freeze`, `force-usable`, `force-unusable`; each with the key
    /// that gave it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub orders: BTreeMap<String, String>,
    /// Components of ours that may be alive there.
    pub components: u32,
    /// Faults that are injected on purpose into calls to the site.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub injected_faults: Vec<String>,
    /// The partition for jobs that name none, if the site has partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_partition: Option<String>,
    /// Default wall times by partition, in milliseconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub default_times_ms: BTreeMap<String, u64>,
    /// Processors of the smallest node, by partition.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub smallest_nodes: BTreeMap<String, u32>,
    /// Our recent experience with each partition, if the site has partitions: what could be
    /// acquired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneReport>,
    /// The share of the site that our jobs may fill, in millionths; missing if they may fill it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_millionths: Option<u32>,
    /// The computing power of each processor, in million operations per second, if it is
    /// configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mflops_per_processor: Option<u64>,
    /// Results in benchmarks, as configured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub benchmarks: BTreeMap<String, ScoreNumber>,
    /// Links that bring files to the site; only where one site is shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkReport>,
    /// The processors that are free from now on; only where one site is shown, on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineReport>,
    /// The attempts there that the server still needs; only where one site is shown, on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<NeedsReport>,
}

/// The jobs whose attempts at sites the server still needs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct NeedsReport {
    /// The instance in the tags of these attempts.
    #[schema(example = "k3v7q2ab")]
    pub instance: String,
    /// Numbers of all unfinished jobs, of all owners.
    pub jobs: Vec<u64>,
}

/// The free processors of a site from now on, as it reports them itself: without running jobs and
/// reservations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct TimelineReport {
    /// `answered`, `grants-none` (the site makes no reservations, and does not say) or `silent`.
    #[schema(example = "answered")]
    pub state: String,
    /// The reason why the site did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The numbers of free processors, each up to the start of the next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<FreeStep>,
    /// The end of the known times: later free processors are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_until: Option<Instant>,
}

/// A change of the number of free processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FreeStep {
    /// From then on.
    pub from: Instant,
    /// Number of free processors.
    pub processors: u32,
}

/// A link from another site.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct LinkReport {
    /// The site where the link begins.
    pub from: String,
    /// Bits per second that placement and transfers assume: measured, else configured.
    pub bandwidth_bps: u64,
    /// Bits per second as configured.
    pub configured_bps: u64,
    /// Bits per second of the latest transfers; missing if there were none lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_bps: Option<u64>,
    /// When the latest of these transfers ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<Instant>,
    /// Number of transfers behind the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfers: Option<u32>,
    /// Latency of the first bit in microseconds, as placement assumes: measured, else configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<u64>,
    /// Configured latency in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured_latency_us: Option<u64>,
    /// When the latency was measured; missing if it was not measured lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_measured_at: Option<Instant>,
    /// Number of measurements behind the latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_measurements: Option<u32>,
}

/// A maintenance window: its start belongs to it, its end does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowReport {
    /// The start of the window.
    pub from: Instant,
    /// The end of the window.
    pub until: Instant,
    /// The reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The key that set the window; in answers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The maintenance window to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowEnd {
    /// The start of the window.
    pub from: Instant,
}

/// A forced state of a site, which holds for a while in spite of its errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForceOrder {
    /// True: usable; false: unusable.
    pub usable: bool,
    /// The end of the forced state.
    pub until: Instant,
}

/// The body of a command about a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum SiteOrderBody {
    /// For `maintenance`.
    Maintenance(WindowReport),
    /// For `end-maintenance`.
    EndMaintenance(WindowEnd),
    /// For `force`.
    Force(ForceOrder),
}

/// All sites.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SiteList {
    /// The sites, by name.
    pub sites: Vec<SiteReport>,
    /// True if so many sites stopped answering at once that the control plane takes itself to be
    /// isolated: nothing is charged or moved until one answers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
}
