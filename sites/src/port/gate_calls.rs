//! The decisions that open and close the gate of an attempt.

use async_trait::async_trait;
use cospan_domain::ids::{Attempt, AttemptTag, ComponentIndex, Epoch, Round, SiteName};
use cospan_domain::units::Timestamp;

use super::SiteError;

/// A decision about the gate of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateDecision {
    /// Open.
    Go(GoDecision),
    /// Closed for ever.
    Void,
}

/// The information that the payloads of a round get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoDecision {
    /// The round.
    pub round: Round,
    /// The control plane's epoch.
    pub epoch: Epoch,
    /// The time to start, by our clock; a wrapper does not wait for more than a few seconds.
    pub start_at: Timestamp,
    /// The last moment at which the payload may begin, by the site's clock: a wrapper that
    /// comes later starts nothing.
    pub start_by: Timestamp,
    /// This component's rank: its index in the job.
    pub rank: ComponentIndex,
    /// Attempt and host of each component of the round, by index.
    pub peers: Vec<RoundPeer>,
}

/// A component of a round, as its siblings see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundPeer {
    /// The attempt.
    pub attempt: Attempt,
    /// The site of the attempt.
    pub site: SiteName,
    /// The host its wrapper waits on; with several nodes all, as its batch system writes them
    /// (`n[1-3]`), its own first.
    pub host: String,
    /// The processors of the attempt.
    pub processors: u32,
}

/// The decision that a gate has: exactly one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateState {
    /// `go` won.
    Opened,
    /// `void` won.
    Voided,
}

/// The gates, which keep attempts that have their processors until all of their round have theirs.
#[async_trait]
pub trait Gate: Send + Sync {
    /// Decides the gate of an attempt, or finds it decided. `Refused` if the attempt has no
    /// directory yet and the decision is `Go`; `Void` of an attempt without directory takes the
    /// directory's name, so that a late wrapper finds it taken.
    async fn decide_gate(
        &self,
        tag: AttemptTag,
        decision: &GateDecision,
    ) -> Result<GateState, SiteError>;
}
