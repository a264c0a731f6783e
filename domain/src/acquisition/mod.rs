//! Ways for a placed component to get its processors: it claims them while they are idle (KOALA,
//! section 4.5; see [`crate::claim`]), waits in the site's own queue, or has a reservation (see
//! [`crate::reservation`]).
//!
//! The placement says which. Everything after it (gate, common start, restart, accounting,
//! explanation) is the same for all three.

mod acquisition_options;
mod molding;
mod partition;
mod partition_experience;
mod preferences;
mod reservation_terms;

pub use acquisition_options::{AcquisitionMode, AcquisitionOptions};
pub use molding::{AlternativeShape, MOST_OVERHEAD, MoldingError, MoldingOptions};
pub use partition::{
    Partition, PartitionAccount, PartitionOptionPrefixes, SitePartitions, max_of_partitions,
};
pub use partition_experience::{
    ImmediateStart, PartitionDemand, PartitionExperience, PartitionWait, SiteExperience,
};
pub use preferences::{
    BenchmarkScore, BenchmarkScores, JobBenchmark, RankingObjective, RankingPreferences,
    RankingPreferencesError,
};
pub use reservation_terms::{ReservationTerms, ReservationTermsError};

use crate::ids::{InstanceId, JobId};
use crate::reservation::{ReservationSerial, ReservationTag};
use crate::units::{DurationMs, Timestamp};

/// The way in which a placed component gets its processors at its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Acquisition {
    /// It claims idle processors: it runs within the grace of a claim or is withdrawn, and that is
    /// nobody's error.
    #[default]
    ClaimNow,
    /// It waits in the site's own queue.
    Queue(QueueTimeLimits),
    /// The site has reserved processors for it.
    Reserved(UsedReservation),
}

/// The reservation that a component uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsedReservation {
    /// Serial within the job, or within the site if jobs share the reservation.
    pub serial: ReservationSerial,
    pub from: Timestamp,
    pub to: Timestamp,
    /// True for a shared reservation, which belongs to no job: the job named it.
    pub shared: bool,
}

impl UsedReservation {
    /// Returns the tag by which the site knows the reservation.
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

/// The longest waits of a component at its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueTimeLimits {
    /// Time from its submission until it must have its processors; then the round is given up.
    pub deadline: DurationMs,
    /// Time for which it holds its processors at its gate while others still wait. Then it gives
    /// them back, and is submitted again to begin when the others are expected.
    pub max_hold: DurationMs,
}

impl Default for QueueTimeLimits {
    fn default() -> Self {
        Self {
            deadline: DurationMs::from_secs(86_400),
            max_hold: DurationMs::from_secs(600),
        }
    }
}

/// The longest times of a claim: at one site, or the longest of all sites of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimTimeLimits {
    /// Time from its submission until it must be at its gate.
    pub ready_within: DurationMs,
    /// Time for which it holds its processors there.
    pub max_hold: DurationMs,
}

impl ClaimTimeLimits {
    /// Returns limits that allow whatever either of the two allows.
    pub fn max_with(self, other: Self) -> Self {
        Self {
            ready_within: self.ready_within.max(other.ready_within),
            max_hold: self.max_hold.max(other.max_hold),
        }
    }
}

impl Acquisition {
    /// Returns the time within which a submitted component must be at its gate; `claims` holds the
    /// limits if it makes a claim.
    pub fn ready_within(self, claims: ClaimTimeLimits) -> DurationMs {
        match self {
            Acquisition::ClaimNow | Acquisition::Reserved(_) => claims.ready_within,
            Acquisition::Queue(limits) => limits.deadline,
        }
    }

    /// Returns the longest time for which it may hold its processors at its gate.
    pub fn max_hold(self, claims: ClaimTimeLimits) -> DurationMs {
        match self {
            Acquisition::ClaimNow | Acquisition::Reserved(_) => claims.max_hold,
            Acquisition::Queue(limits) => limits.max_hold,
        }
    }

    /// Returns the time after which its wrapper leaves the gate by itself. A component that waited
    /// in a queue is normally told to give its processors back by whoever knows when the others are
    /// expected; it gives up by itself only if nobody does.
    pub fn wrapper_hold_limit(self, claims: ClaimTimeLimits, slack: DurationMs) -> DurationMs {
        match self {
            Acquisition::ClaimNow | Acquisition::Reserved(_) => claims.max_hold,
            Acquisition::Queue(limits) => limits.max_hold + slack,
        }
    }

    /// Returns true if it waits in its site's own queue, however little is idle there.
    pub fn waits_in_site_queue(self) -> bool {
        matches!(self, Acquisition::Queue(_))
    }

    /// Returns true if a try is worthwhile only while enough is idle at its site.
    pub fn needs_idle_processors(self) -> bool {
        matches!(self, Acquisition::ClaimNow)
    }

    /// Returns the reservation that it uses, if any.
    pub fn reservation_use(self) -> Option<UsedReservation> {
        match self {
            Acquisition::Reserved(promised) => Some(promised),
            Acquisition::ClaimNow | Acquisition::Queue(_) => None,
        }
    }
}
