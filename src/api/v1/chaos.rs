//! Faults injected on purpose: the plan, what runs, and what it came to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::number;
use super::quantity::{Instant, Length};

/// What is to go wrong, where, how often and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChaosPlan {
    /// How long the rehearsal takes; nothing is struck afterwards.
    #[serde(rename = "for")]
    pub lasting: Length,
    /// Which calls are drawn follows from it; drawn itself, and told, if it is not given.
    #[serde(
        default,
        deserialize_with = "number::any_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub seed: Option<u64>,
    /// The faults; of several that concern a call the first one drawn strikes it.
    pub inject: Vec<InjectionPlan>,
}

/// One fault, and which calls it strikes when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InjectionPlan {
    /// The sites.
    pub sites: Vec<String>,
    /// `request-lost`, `reply-lost`, `late`, `doubled`, `refused`, `not-sent`, `site-full`,
    /// `truncated`, `wrong-idle` or `frozen`.
    #[schema(example = "reply-lost")]
    pub fault: String,
    /// Kinds of calls, such as `submit` and `status`; none: all that the fault can strike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// Share of those calls that it strikes, above 0 and at most 1.
    #[serde(default = "every_call")]
    #[schema(default = 1.0, exclusive_minimum = 0, maximum = 1)]
    pub probability: f64,
    /// It begins so long after the rehearsal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Length>,
    /// It lasts so long; not given: until the rehearsal ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasting: Option<Length>,
    /// How late the answer comes; for `late`, and only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Length>,
}

fn every_call() -> f64 {
    1.0
}

/// Whether faults may be injected here, within which bounds, and what runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChaosStatus {
    /// The server's configuration allows it.
    pub allowed: bool,
    /// Longest rehearsal.
    pub max_duration: Length,
    /// Most sites that one rehearsal may strike.
    pub max_sites: u32,
    /// The sites there are.
    pub sites: Vec<String>,
    /// The rehearsal that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rehearsal: Option<RehearsalReport>,
}

/// One rehearsal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RehearsalReport {
    /// The key that began it.
    pub by: String,
    /// What the draws follow from.
    pub seed: u64,
    /// When it began.
    pub begun_at: Instant,
    /// When it ends at the latest.
    pub ends_at: Instant,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Instant>,
    /// The key that ended it; missing if its time was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// Its faults.
    pub injections: Vec<InjectionReport>,
}

/// One fault of a rehearsal, with everything filled in that its plan left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InjectionReport {
    /// `waiting`, `striking` or `over`.
    #[schema(example = "striking")]
    pub state: String,
    /// The sites.
    pub sites: Vec<String>,
    /// The fault.
    pub fault: String,
    /// The kinds of calls that it strikes.
    pub calls: Vec<String>,
    /// The share of them.
    pub probability: f64,
    /// When it begins.
    pub from: Instant,
    /// When it ends at the latest.
    pub until: Instant,
    /// How late answers come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Length>,
}

/// What was injected, and what the control plane did meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChaosReport {
    /// The rehearsal that runs, or the latest one since the server's start.
    pub rehearsal: RehearsalReport,
    /// What was struck, by site, fault and kind of call.
    pub strikes: Vec<StrikeReport>,
    /// What became of the sites.
    pub sites: Vec<SiteDeeds>,
    /// What became of jobs.
    pub jobs: JobDeeds,
    /// So many sites were silent at once that the fault was taken to be ours.
    pub isolated: bool,
    /// Changes that were not seen, because they came too fast: so much may be missing here.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub changes_missed: u64,
    /// When everything was well again after the faults had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_at: Option<Instant>,
    /// What is not well yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_recovered: Vec<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How calls of one kind to a site fared with one fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StrikeReport {
    /// The site.
    pub site: String,
    /// The fault.
    pub fault: String,
    /// The kind of call.
    pub call: String,
    /// Calls that it could have struck.
    pub calls: u64,
    /// Calls that it struck.
    pub strikes: u64,
}

/// What became of a site.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SiteDeeds {
    /// The site.
    pub site: String,
    /// Errors charged to it.
    pub errors_charged: u64,
    /// Times that its errors made it unusable.
    pub breaker_opened: u64,
    /// Times that probes made it usable again.
    pub breaker_closed: u64,
    /// The states it was in, with their begins; looked at twice a second, the first 64.
    pub states: Vec<StateSince>,
}

/// A state of a site, and when it was first seen in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StateSince {
    /// Since then.
    pub at: Instant,
    /// The state.
    #[schema(example = "unreachable")]
    pub state: String,
}

/// What became of jobs, whichever fault or none had to do with it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct JobDeeds {
    /// Submissions of which nobody knew at first whether they had arrived.
    pub submissions_uncertain: u64,
    /// Attempts that certainly never arrived, and were made anew.
    pub attempts_renewed: u64,
    /// Rounds that were given up, by cause.
    pub rounds_aborted: BTreeMap<String, u64>,
    /// Jobs placed once more after a round was given up.
    pub placed_again: u64,
    /// Jobs whose components all began.
    pub started: u64,
    /// Jobs that finished.
    pub finished: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
}
