//! Supervision of actors: their lives and deaths, and the consequences.
//!
//! actix's own supervisor restarts only actors that stopped politely, with their old state. Ours
//! learns of a death from a guard that every actor carries, and rebuilds the actor from durable
//! state, after a pause, within limits.

#[cfg(test)]
mod escalation_tests;
mod guard;
pub mod intensity;
pub mod life_events;
mod owed_answer;
mod supervisor;

use std::fmt;

use cospan_domain::ids::{Digest, JobId, SiteName};

pub use guard::LifeGuard;
pub(crate) use owed_answer::OwedAnswer;
pub use supervisor::{ActorBuilder, ActorDeath, Escalation, StartActor, Supervisor};

use crate::actor_settings::ActorSettings;

/// The name of an actor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActorId {
    /// The only writer to the store.
    Journal,
    /// Gives out job ids, and passes commands on.
    Intake,
    /// The catalogue of logical files.
    Information,
    /// Decides which copies are needed.
    DataManager,
    /// Places jobs.
    CoAllocator,
    /// Seeks and moves advance reservations.
    Reserver,
    /// Decides when to claim.
    Claimer,
    /// Sends messages to administrators and users.
    Notifier,
    /// The actor of one site.
    Cluster(SiteName),
    /// The actor of one unfinished job.
    Job(JobId),
    /// The actor of one content at one site.
    Transfer(Digest, SiteName),
    /// The timer for the claim of one job.
    ClaimTimer(JobId),
}

/// Kinds of actors, for limits and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "documented at ActorId")]
pub enum ActorKind {
    Journal,
    Intake,
    Information,
    DataManager,
    CoAllocator,
    Reserver,
    Claimer,
    Notifier,
    Cluster,
    Job,
    Transfer,
    ClaimTimer,
}

impl ActorKind {
    /// All kinds.
    pub const ALL: [ActorKind; 12] = [
        ActorKind::Journal,
        ActorKind::Intake,
        ActorKind::Information,
        ActorKind::DataManager,
        ActorKind::CoAllocator,
        ActorKind::Reserver,
        ActorKind::Claimer,
        ActorKind::Notifier,
        ActorKind::Cluster,
        ActorKind::Job,
        ActorKind::Transfer,
        ActorKind::ClaimTimer,
    ];

    /// The kind's label in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            ActorKind::Journal => "journal",
            ActorKind::Intake => "intake",
            ActorKind::Information => "information",
            ActorKind::DataManager => "data-manager",
            ActorKind::CoAllocator => "co-allocator",
            ActorKind::Reserver => "reserver",
            ActorKind::Claimer => "claimer",
            ActorKind::Notifier => "notifier",
            ActorKind::Cluster => "cluster",
            ActorKind::Job => "job",
            ActorKind::Transfer => "transfer",
            ActorKind::ClaimTimer => "claim-timer",
        }
    }

    /// Returns how many messages may wait for an actor of this kind. Messages whose sender waits
    /// for the answer come in beyond that: there are as many of those as actors and commands under
    /// way.
    pub fn mailbox_bound(self, settings: &ActorSettings) -> usize {
        match self {
            ActorKind::Intake => settings.intake_bound,
            ActorKind::Journal
            | ActorKind::Information
            | ActorKind::Claimer
            | ActorKind::Cluster => 4_096,
            ActorKind::CoAllocator | ActorKind::Reserver => 1_024,
            ActorKind::DataManager
            | ActorKind::Notifier
            | ActorKind::Job
            | ActorKind::Transfer
            | ActorKind::ClaimTimer => 16,
        }
    }
}

impl ActorId {
    /// The actor's kind.
    pub fn kind(&self) -> ActorKind {
        match self {
            ActorId::Journal => ActorKind::Journal,
            ActorId::Intake => ActorKind::Intake,
            ActorId::Information => ActorKind::Information,
            ActorId::DataManager => ActorKind::DataManager,
            ActorId::CoAllocator => ActorKind::CoAllocator,
            ActorId::Reserver => ActorKind::Reserver,
            ActorId::Claimer => ActorKind::Claimer,
            ActorId::Notifier => ActorKind::Notifier,
            ActorId::Cluster(_) => ActorKind::Cluster,
            ActorId::Job(_) => ActorKind::Job,
            ActorId::Transfer(..) => ActorKind::Transfer,
            ActorId::ClaimTimer(_) => ActorKind::ClaimTimer,
        }
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ActorId::Cluster(site) => write!(f, "cluster {site}"),
            ActorId::Job(id) => write!(f, "job {id}"),
            ActorId::Transfer(digest, site) => write!(f, "transfer {digest} to {site}"),
            ActorId::ClaimTimer(id) => write!(f, "claim timer of job {id}"),
            other => f.write_str(other.kind().as_str()),
        }
    }
}
