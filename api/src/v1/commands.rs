//! Commands about jobs and sites.

use std::fmt;
use std::str::FromStr;

use cospan_domain::ids::{KeyName, SiteName};
use cospan_domain::job::job_state::PhaseKind;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use super::document::PriorityName;
use super::text_patterns::{KeyText, SiteText};
use super::{number, text};

/// A selection of jobs: by number, or by what they have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSelection {
    /// These jobs, at most 10,000; nothing else may be given then.
    #[serde(
        default,
        deserialize_with = "number::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub ids: Vec<u64>,
    /// All unfinished jobs that match the other fields. Must be `true` if there are no ids, so that
    /// nobody selects all jobs by accident.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// Only jobs with a component at this site, or that must go there; for `cancel` only jobs with
    /// a component that is placed, claiming or running there.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<SiteText>)]
    pub site: Option<SiteName>,
    /// Only jobs in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateName>,
    /// Only jobs of this key.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<KeyText>)]
    pub owner: Option<KeyName>,
    /// Only the runs of the sweep that begins with this job.
    #[serde(
        default,
        deserialize_with = "number::any_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub group: Option<u64>,
    /// Only jobs with a number above this one; a long selection continues here.
    #[serde(
        default,
        deserialize_with = "number::any_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub after: Option<u64>,
    /// Do not wait for components that may still run at silent sites; for `cancel` only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abandon: bool,
    /// The new priority; for `priority` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PriorityName>,
}

/// Jobs to submit again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RerunOrder {
    /// Jobs that have ended: of one sweep, or of none.
    #[serde(deserialize_with = "number::list")]
    pub ids: Vec<u64>,
    /// Accept them even if no known site can ever hold them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_unplaceable: bool,
}

/// The state of a job, as a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateName(pub PhaseKind);

impl FromStr for StateName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = PhaseKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text);
        found.map(StateName).ok_or_else(|| {
            let known: Vec<String> = PhaseKind::ALL
                .iter()
                .map(|kind| kind.as_str().to_owned())
                .collect();
            match super::parse::nearest_word(text, &known) {
                Some(nearest) => format!("{text:?} is no state; did you mean {nearest:?}?"),
                None => format!("{text:?} is no state; known are {}", known.join(", ")),
            }
        })
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl Serialize for StateName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        text::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for StateName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::deserialize(from)
    }
}

/// The results of a command about several jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct OrderReport {
    /// The results, one for each job.
    pub jobs: Vec<OutcomeReport>,
    /// There are more jobs: give this as `after`, and send the command again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// The result for one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutcomeReport {
    /// The job.
    pub id: u64,
    /// The result.
    pub outcome: OutcomeName,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The result of a command about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutcomeName {
    /// Done.
    Done,
    /// Nothing had to be done, or the job has ended.
    Unchanged,
    /// There is no such job.
    NotFound,
    /// Not possible.
    Refused,
}

/// The answer to a command that reports nothing but that it was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoneReport {
    /// Always `true`.
    pub done: bool,
}
