//! The events of a job: its history, and the stream of committed changes.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::document::PriorityName;
use super::explain::RefusedReport;
use super::quantity::Instant;

/// An event. Only fields that the event has are present.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct EventReport {
    /// When the event was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Instant>,
    /// Name of the event: `JobPlaced`, `ComponentBegan`, ...
    #[schema(example = "JobPlaced")]
    pub event: String,
    /// The key that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Position of the component, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<u32>,
    /// Positions of the components, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<u32>,
    /// Name of the component; not in the stream of changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// The site; one for each component if several are placed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<String>,
    /// The policy that chose the sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The rule of the policy that chose the sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The reason for which most of the refused sites were refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedReport>,
    /// Details: the manner or the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The state that follows an abort, or how an attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The number of the job in the batch system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lrm_id: Option<String>,
    /// The instant that the event is about: estimated start, common start, not before, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Instant>,
    /// The new priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PriorityName>,
    /// Position of the output, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u32>,
    /// Digest of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Size of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

impl fmt::Display for EventReport {
    /// Writes one line for people, without the time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.event)?;
        match &self.name {
            Some(name) => write!(f, " component {name}")?,
            None => write_number(f, "component", self.component)?,
        }
        write_number(f, "attempt", self.attempt)?;
        write_number(f, "round", self.round)?;
        write_number(f, "output", self.output)?;
        if !self.sites.is_empty() {
            write!(f, " at {}", self.sites.join(", "))?;
        }
        if let (Some(policy), Some(rule)) = (&self.policy, &self.rule) {
            write!(f, " by {policy} ({rule})")?;
        }
        if let Some(refused) = &self.refused {
            write!(f, ", {refused}")?;
        }
        let texts = [
            (" on ", self.host.as_ref()),
            (" as ", self.lrm_id.as_ref()),
            (" -> ", self.state.as_ref()),
            (": ", self.detail.as_ref()),
            (", by ", self.by.as_ref()),
        ];
        for (before, text) in texts {
            if let Some(text) = text {
                write!(f, "{before}{text}")?;
            }
        }
        if let Some(priority) = self.priority {
            write!(f, " -> {priority}")?;
        }
        if let Some(until) = self.until {
            write!(f, " ({}{until})", self.meaning_of_until())?;
        }
        Ok(())
    }
}

fn write_number(f: &mut fmt::Formatter<'_>, name: &str, value: Option<u32>) -> fmt::Result {
    match value {
        Some(value) => write!(f, " {name} {value}"),
        None => Ok(()),
    }
}

impl EventReport {
    /// Says what the instant in `until` means.
    fn meaning_of_until(&self) -> &'static str {
        match self.event.as_str() {
            "JobPlaced" | "StartPostponed" => "start expected ",
            "GoDecided" => "start at ",
            "ClaimMissed" | "ComponentFailed" => "claimed again at ",
            "JobRequeued" | "RoundAborted" | "AbortRedirected" => "not placed before ",
            "SubmissionUncertain" => "known after ",
            "AttemptAbsent" => "looked for again at ",
            _ => "",
        }
    }
}

/// The history of a job, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct HistoryReport {
    /// The events.
    pub events: Vec<EventReport>,
    /// True if older events were dropped, because a history is bounded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
}

/// A committed change, as sent in the event stream with the name `job`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangeReport {
    /// Position in the journal; also the id of the event in the stream.
    pub seq: u64,
    /// The job.
    pub job: u64,
    /// The events of the job; empty if the job was only written.
    pub events: Vec<EventReport>,
}

/// Sent with the name `resync` when changes were missed: the client must read everything again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResyncReport {
    /// The stream goes on after this position.
    pub seq: u64,
}
