//! Getting processors for a placed component: claimed while they are idle (KOALA, section 4.5;
//! see [`crate::claim`]), waited for in the site's own queue, or reserved (see
//! [`crate::reserve`]).
//!
//! A placement says which. Everything after it (gate, common start, restart, accounting,
//! explanation) is the same for all.

mod lane;
mod molding;
mod obtainable;
mod options;
mod preferences;
mod wish;

pub use lane::{Partition, PartitionAccount, PartitionOptions, SitePartitions, most_of_any};
pub use molding::{InvalidMolding, MOST_OVERHEAD, Molding, OtherShape};
pub use obtainable::{Experience, Got, Obtainable, PartitionDemand, Waited};
pub use options::{AcquisitionMode, AcquisitionOptions};
pub use preferences::{Benchmark, InvalidPreferences, Objective, Preferences, Score, Scores};
pub use wish::{InvalidTerms, ReservationTerms};

use crate::ids::{InstanceId, JobId};
use crate::reserve::{ReservationTag, Serial};
use crate::units::{DurationMs, Timestamp};

/// How a placed component gets its processors at its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Acquisition {
    /// Claimed while they are idle: it runs within the grace of a claim, or is withdrawn, and
    /// that is nobody's error.
    #[default]
    ClaimNow,
    /// It waits in the site's own queue.
    Queue(QueueLimits),
    /// Its site has promised them.
    Reserved(ReservationUse),
}

/// The reservation that a component uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationUse {
    /// Its serial within the job, or within its site if jobs share it.
    pub serial: Serial,
    /// When it begins.
    pub from: Timestamp,
    /// When it ends.
    pub to: Timestamp,
    /// It belongs to no job: the job named it.
    pub shared: bool,
}

impl ReservationUse {
    /// How its site knows it.
    pub fn tag(self, instance: InstanceId, job: JobId) -> ReservationTag {
        if self.shared {
            ReservationTag::shared(instance, self.serial)
        } else {
            ReservationTag {
                instance,
                job,
                serial: self.serial,
            }
        }
    }
}

/// How long a component may wait at its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueLimits {
    /// From its submission until it must have its processors; then the round is given up.
    pub deadline: DurationMs,
    /// How long it holds its processors at its gate for others that still wait; then it gives
    /// them back, and is submitted again to begin when the others are expected.
    pub max_hold: DurationMs,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            deadline: DurationMs::from_secs(86_400),
            max_hold: DurationMs::from_secs(600),
        }
    }
}

/// How long a claim may take: at one site, or the longest of all sites of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimLimits {
    /// From its submission until it must be at its gate.
    pub ready_within: DurationMs,
    /// How long it holds its processors there.
    pub max_hold: DurationMs,
}

impl ClaimLimits {
    /// What both allow.
    pub fn longest(self, other: Self) -> Self {
        Self {
            ready_within: self.ready_within.max(other.ready_within),
            max_hold: self.max_hold.max(other.max_hold),
        }
    }
}

impl Acquisition {
    /// How long a submitted component may take until it is at its gate; `claims`: if it is
    /// claimed.
    pub fn ready_within(self, claims: ClaimLimits) -> DurationMs {
        match self {
            Acquisition::ClaimNow | Acquisition::Reserved(_) => claims.ready_within,
            Acquisition::Queue(limits) => limits.deadline,
        }
    }

    /// How long it may hold its processors at its gate.
    pub fn max_hold(self, claims: ClaimLimits) -> DurationMs {
        match self {
            Acquisition::ClaimNow | Acquisition::Reserved(_) => claims.max_hold,
            Acquisition::Queue(limits) => limits.max_hold,
        }
    }

    /// How long its wrapper waits at the gate by itself. Who waited in a queue is told to give
    /// its processors back, by whoever knows when the others are expected: only if nobody does,
    /// it gives up by itself.
    pub fn wrapper_hold(self, claims: ClaimLimits, slack: DurationMs) -> DurationMs {
        match self {
            Acquisition::ClaimNow | Acquisition::Reserved(_) => claims.max_hold,
            Acquisition::Queue(limits) => limits.max_hold + slack,
        }
    }

    /// Whether it waits in its site's own queue, however little is idle there.
    pub fn is_queued(self) -> bool {
        matches!(self, Acquisition::Queue(_))
    }

    /// Whether it is only worth trying while enough is idle at its site.
    pub fn asks_idle(self) -> bool {
        matches!(self, Acquisition::ClaimNow)
    }

    /// The reservation that it uses, if it does.
    pub fn promised(self) -> Option<ReservationUse> {
        match self {
            Acquisition::Reserved(promised) => Some(promised),
            Acquisition::ClaimNow | Acquisition::Queue(_) => None,
        }
    }
}
