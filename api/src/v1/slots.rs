//! The possible starts of a job, as reported by sites that grant reservations.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::quantity::Instant;

/// The possible starts of a job. Nothing is reserved: another job may be faster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SlotsReport {
    /// The starts at each site.
    pub sites: Vec<SiteSlots>,
    /// The windows in which all components could start at the same time, at these sites together.
    pub together: Vec<TogetherSlot>,
    /// True if there are more windows than were asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
}

/// The possible starts at a site.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SiteSlots {
    /// The name of the site.
    pub site: String,
    /// `answered`, `grants-none` (the site makes no reservations) or `silent`.
    #[schema(example = "answered")]
    pub state: String,
    /// The reason why the site did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Windows in which some components could start, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<StartSlot>,
    /// The end of the known times: later starts are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_until: Option<Instant>,
}

/// A window of starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartSlot {
    /// The first.
    pub earliest: Instant,
    /// The last.
    pub latest: Instant,
    /// Number of components that could start there.
    pub components: u32,
}

/// A window in which all components could start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TogetherSlot {
    /// The first start.
    pub earliest: Instant,
    /// The last.
    pub latest: Instant,
    /// Number of components at each site, for the first start.
    pub sites: BTreeMap<String, u32>,
}
