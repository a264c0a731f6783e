//! The public view of our recent experience at a site: what could be acquired.

use std::fmt;

use cospan_domain::acquisition::{
    ImmediateStart, PartitionAccount, PartitionDemand, PartitionExperience, PartitionWait,
};
use cospan_domain::units::DurationMs;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::quantity::Instant;

/// The recent experience with one partition of a site and one account: what could be acquired.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct LaneReport {
    /// The partition and the account.
    #[schema(example = "short (account physics)")]
    pub lane: String,
    /// The largest request that started at once lately; missing if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub got: Option<GotReport>,
    /// Requests that waited for others, or for a limit of the account, although processors were
    /// idle. For a while only smaller or shorter requests are claimed there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitReport>,
}

/// A request that started at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GotReport {
    /// Processors.
    pub processors: u32,
    /// Wall time of the request.
    pub wall_time_ms: u64,
    /// When it started.
    pub at: Instant,
}

/// A request that waited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitReport {
    /// Processors.
    pub processors: u32,
    /// Wall time of the request.
    pub wall_time_ms: u64,
    /// When the request was made.
    pub asked_at: Instant,
    /// The reason for the wait, in the site's words.
    #[schema(example = "Priority")]
    pub why: String,
    /// From then on as much is requested again.
    pub until: Instant,
}

impl LaneReport {
    /// Reports what is known about one partition with one account.
    pub fn of(lane: &PartitionAccount, known: &PartitionExperience) -> Self {
        Self {
            lane: lane.to_string(),
            got: known.got.map(Into::into),
            waits: known.waits.iter().map(Into::into).collect(),
        }
    }
}

impl From<ImmediateStart> for GotReport {
    fn from(got: ImmediateStart) -> Self {
        let PartitionDemand { processors, time } = got.ask;
        Self {
            processors,
            wall_time_ms: time.0,
            at: got.at.into(),
        }
    }
}

impl From<&PartitionWait> for WaitReport {
    fn from(waited: &PartitionWait) -> Self {
        Self {
            processors: waited.ask.processors,
            wall_time_ms: waited.ask.time.0,
            asked_at: waited.asked_at.into(),
            why: waited.why.to_string(),
            until: waited.until.into(),
        }
    }
}

impl fmt::Display for GotReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} processors for {}",
            self.processors,
            DurationMs(self.wall_time_ms)
        )
    }
}

impl fmt::Display for WaitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            processors,
            asked_at,
            why,
            until,
            ..
        } = self;
        let length = DurationMs(self.wall_time_ms);
        write!(
            f,
            "asked for {processors} processors for {length} at {asked_at}: waited for {why}; \
             smaller or shorter until {until}"
        )
    }
}
