//! Faults that are injected on purpose: the plan, the running rehearsal and its result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::number;
use super::quantity::{Instant, Length};

/// The plan of a rehearsal: the faults, the sites, the shares and the times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChaosPlan {
    /// Length of the rehearsal; no fault is injected afterwards.
    #[serde(rename = "for")]
    pub lasting: Length,
    /// The seed that decides which calls are drawn. If it is left out, it is drawn and reported.
    #[serde(
        default,
        deserialize_with = "number::any_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub seed: Option<u64>,
    /// The faults. If several concern a call, the first one drawn is injected.
    pub inject: Vec<InjectionPlan>,
}

/// A fault, and the calls into which it is injected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InjectionPlan {
    /// The sites.
    pub sites: Vec<String>,
    /// `request-lost`, `reply-lost`, `late`, `doubled`, `refused`, `not-sent`, `site-full`,
    /// `truncated`, `wrong-idle` or `frozen`.
    #[schema(example = "reply-lost")]
    pub fault: String,
    /// Kinds of calls, such as `submit` and `status`. If there are none: all kinds that the fault
    /// can concern.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// Share of those calls that get the fault, above 0 and at most 1.
    #[serde(default = "every_call")]
    #[schema(default = 1.0, exclusive_minimum = 0, maximum = 1)]
    pub probability: f64,
    /// Time from the start of the rehearsal to the start of the fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Length>,
    /// Length of the fault; until the rehearsal ends if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasting: Option<Length>,
    /// Delay of the answer; for `late` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Length>,
}

fn every_call() -> f64 {
    1.0
}

/// The state of fault injection: whether it is allowed, its bounds, and the running rehearsal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChaosStatus {
    /// True if the server's configuration allows faults to be injected.
    pub allowed: bool,
    /// Longest rehearsal that is allowed.
    pub max_duration: Length,
    /// Largest number of sites in one rehearsal.
    pub max_sites: u32,
    /// All sites.
    pub sites: Vec<String>,
    /// The running rehearsal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rehearsal: Option<RehearsalReport>,
}

/// A rehearsal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RehearsalReport {
    /// The key that began the rehearsal.
    pub by: String,
    /// The seed of the draws.
    pub seed: u64,
    /// When the rehearsal began.
    pub begun_at: Instant,
    /// When the rehearsal ends at the latest.
    pub ends_at: Instant,
    /// When the rehearsal ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Instant>,
    /// The key that ended the rehearsal; missing if its time was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// The faults of the rehearsal.
    pub injections: Vec<InjectionReport>,
}

/// A fault of a rehearsal, with everything filled in that the plan left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InjectionReport {
    /// `waiting`, `striking` or `over`.
    #[schema(example = "striking")]
    pub state: String,
    /// The sites.
    pub sites: Vec<String>,
    /// The fault.
    pub fault: String,
    /// The kinds of calls that get the fault.
    pub calls: Vec<String>,
    /// The share of those calls that get the fault.
    pub probability: f64,
    /// When the fault begins.
    pub from: Instant,
    /// When the fault ends at the latest.
    pub until: Instant,
    /// Delay of answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Length>,
}

/// The injected faults, and what the control plane did meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChaosReport {
    /// The running rehearsal, or the latest one since the server started.
    pub rehearsal: RehearsalReport,
    /// The injected faults, by site, fault and kind of call.
    pub strikes: Vec<StrikeReport>,
    /// The effects on sites.
    pub sites: Vec<SiteDeeds>,
    /// The effects on jobs.
    pub jobs: JobDeeds,
    /// True if so many sites were silent at once that the control plane took itself to be isolated.
    pub isolated: bool,
    /// Changes that came too fast to be seen; this report may lack as many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub changes_missed: u64,
    /// When everything was well again after the faults ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_at: Option<Instant>,
    /// Everything that is not well yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_recovered: Vec<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The calls of one kind to a site, and how many of them got one fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StrikeReport {
    /// The site.
    pub site: String,
    /// The fault.
    pub fault: String,
    /// The kind of call.
    pub call: String,
    /// Calls that could have got the fault.
    pub calls: u64,
    /// Calls that got the fault.
    pub strikes: u64,
}

/// The effects on a site.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SiteDeeds {
    /// The site.
    pub site: String,
    /// Errors that were charged to the site.
    pub errors_charged: u64,
    /// Number of times that the breaker opened, which made the site unusable.
    pub breaker_opened: u64,
    /// Number of times that probes closed the breaker, which made the site usable again.
    pub breaker_closed: u64,
    /// The states of the site, and when they began. States are read twice a second; the first 64
    /// are kept.
    pub states: Vec<StateSince>,
}

/// A state of a site, and when it was first seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StateSince {
    /// When the state was first seen.
    pub at: Instant,
    /// The state.
    #[schema(example = "unreachable")]
    pub state: String,
}

/// The events of all jobs during the rehearsal, also those that no fault caused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct JobDeeds {
    /// Submissions of which nobody knew at first if they had arrived.
    pub submissions_uncertain: u64,
    /// Attempts that certainly never arrived and were submitted again.
    pub attempts_renewed: u64,
    /// Aborted rounds, by cause.
    pub rounds_aborted: BTreeMap<String, u64>,
    /// Jobs that were placed again after an aborted round.
    pub placed_again: u64,
    /// Jobs whose components have all begun.
    pub started: u64,
    /// Jobs that finished.
    pub finished: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
}
