//! What opens and closes the gate of an attempt.

use cospan_domain::ids::{Attempt, ComponentIndex, Epoch, Round, SiteName};
use cospan_domain::units::Timestamp;

/// What the gate of an attempt is to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateDecision {
    /// Open.
    Go(Go),
    /// Closed for ever.
    Void,
}

/// What the payloads of a round are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Go {
    /// The round.
    pub round: Round,
    /// The control plane's epoch.
    pub epoch: Epoch,
    /// When to start, by our clock; a wrapper does not wait for more than a few seconds.
    pub start_at: Timestamp,
    /// The last moment at which the payload may begin, by the site's clock: a wrapper that
    /// comes to it later starts nothing.
    pub start_by: Timestamp,
    /// This component's rank: its index in the job.
    pub rank: ComponentIndex,
    /// Attempt and host of each component of the round, by index.
    pub peers: Vec<Peer>,
}

/// One component of a round as its siblings see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The attempt.
    pub attempt: Attempt,
    /// Its site.
    pub site: SiteName,
    /// The host its wrapper waits on; of several nodes all, as its batch system writes them
    /// (`n[1-3]`), its own first.
    pub host: String,
    /// Its processors.
    pub processors: u32,
}

/// What a gate turned out to be: exactly one decision wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateState {
    /// `go` won.
    Opened,
    /// `void` won.
    Voided,
}
