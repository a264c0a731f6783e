//! What a site looks like from outside.

use std::collections::BTreeMap;

use cospan_actors::api::FreeLater;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::lane::LaneReport;
use super::quantity::Instant;

/// Counts by name: `processors`, `memory_mb`, `gpus`, ...
pub type Counts = BTreeMap<String, u64>;

/// One site.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SiteReport {
    /// Its name.
    pub name: String,
    /// `unknown`, `usable`, `unusable`, `probing`, `draining`, `drained`, `maintenance`,
    /// `frozen`, `silent` (it stopped answering just now), `unreachable` or `credentials-expired`.
    #[schema(example = "usable")]
    pub state: String,
    /// Why it is not usable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// All that it has.
    pub total: Counts,
    /// What is free for one more submission, as last heard.
    pub idle: Counts,
    /// What we hold there.
    pub held: Counts,
    /// Its labels.
    pub labels: BTreeMap<String, Vec<String>>,
    /// Name and version of its resource manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// How old the last answer is, in milliseconds; missing if it never answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Errors in a row.
    pub consecutive_errors: u32,
    /// The last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When an unusable site is tried next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_probe_at: Option<Instant>,
    /// Windows in which nothing may run there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maintenance: Vec<WindowReport>,
    /// Orders that hold: `drain`, `freeze`, `force-usable`, `force-unusable`; with the key that
    /// gave each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub orders: BTreeMap<String, String>,
    /// Components of ours that may be alive there.
    pub components: u32,
    /// Faults that are being injected on purpose into the calls to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub injected_faults: Vec<String>,
    /// The partition that jobs go to which name none, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_partition: Option<String>,
    /// How long jobs may run that do not say it themselves, by partition, in milliseconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub default_times_ms: BTreeMap<String, u64>,
    /// What could be got lately of its partitions, if it has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneReport>,
    /// Links that bring files to it; only where one site is shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkReport>,
    /// What is free there from now on; only where one site is shown and that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineReport>,
    /// What of it the server still needs; only where one site is shown and that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<NeedsReport>,
}

/// Whose attempts at sites the server still needs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct NeedsReport {
    /// The instance that is in the tags of its attempts.
    #[schema(example = "k3v7q2ab")]
    pub instance: String,
    /// Numbers of all jobs that are not over, whoever's they are.
    pub jobs: Vec<u64>,
}

/// What is free at a site from now on, by its own account: less what runs there, and what is
/// reserved.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct TimelineReport {
    /// `answered`, `grants-none` (it promises nothing for later, and does not say) or `silent`.
    #[schema(example = "answered")]
    pub state: String,
    /// Why it did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// From when on how many processors are free, up to the next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<FreeStep>,
    /// What is free from then on is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_until: Option<Instant>,
}

/// A change of what is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FreeStep {
    /// From then on.
    pub from: Instant,
    /// So many processors.
    pub processors: u32,
}

impl From<FreeLater> for TimelineReport {
    fn from(said: FreeLater) -> Self {
        let state = |state: &str| Self {
            state: state.into(),
            ..Self::default()
        };
        match said {
            FreeLater::GrantsNone => state("grants-none"),
            FreeLater::Silent(why) => Self {
                problem: Some(why),
                ..state("silent")
            },
            FreeLater::Told { steps, until } => {
                let steps = steps
                    .into_iter()
                    .map(|(from, processors)| FreeStep {
                        from: Instant(from),
                        processors,
                    })
                    .collect();
                Self {
                    steps,
                    known_until: until.map(Instant),
                    ..state("answered")
                }
            }
        }
    }
}

/// A link from another site.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct LinkReport {
    /// Where it begins.
    pub from: String,
    /// Bits per second that placement and transfers reckon with: as measured, else as configured.
    pub bandwidth_bps: u64,
    /// Bits per second as configured.
    pub configured_bps: u64,
    /// Bits per second that the latest transfers had; missing if there were none lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_bps: Option<u64>,
    /// When the latest of them ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<Instant>,
    /// How many transfers that is made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfers: Option<u32>,
    /// Microseconds that the first bit takes, as placement reckons: as measured, else as
    /// configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<u64>,
    /// The same as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured_latency_us: Option<u64>,
    /// When it was measured; missing if it was not lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_measured_at: Option<Instant>,
    /// How many measurements it is made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_measurements: Option<u32>,
}

/// A window of maintenance: its begin is in it, its end is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowReport {
    /// Its begin.
    pub from: Instant,
    /// Its end.
    pub until: Instant,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The key that set it; told, never asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Which window of maintenance to take back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowEnd {
    /// Its begin.
    pub from: Instant,
}

/// A verdict on a site that holds instead of its errors for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForceOrder {
    /// Take it as usable; else as unusable.
    pub usable: bool,
    /// It holds before this.
    pub until: Instant,
}

/// What goes with an order about a site.
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
    /// By name.
    pub sites: Vec<SiteReport>,
    /// So many sites stopped answering at once that the fault is taken to be ours:
    /// nothing is charged or moved until one answers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
}
