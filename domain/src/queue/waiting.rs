//! A job as its placement queue knows it.

use std::sync::Arc;

use crate::ids::JobId;
use crate::job::spec::Priority;
use crate::job::state::{Job, JobPhase};
use crate::placement::{PlacementRefusal, PlacementRequest};
use crate::units::Timestamp;

/// A job that waits for placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingJob {
    /// Which.
    pub job: JobId,
    /// Its queue.
    pub priority: Priority,
    /// When it entered the queue: its place, equal ones by job id.
    pub entered: Timestamp,
    /// Not tried before; [`Timestamp`] 0 for no such wait.
    pub not_before: Timestamp,
    /// Not tried at all while set: frozen by a user, or held after panics.
    pub frozen: bool,
    /// Given up when counted tries exceed this; `None`: as for all jobs.
    pub max_tries: Option<u32>,
    /// What it needs.
    pub request: Arc<PlacementRequest>,
}

impl WaitingJob {
    /// The job as it waits; `None` if it does not wait for placement. `request`: what it
    /// needs.
    pub fn of_job(job: &Job, request: impl FnOnce() -> Arc<PlacementRequest>) -> Option<Self> {
        let JobPhase::Queued { since, .. } = job.phase else {
            return None;
        };
        // Sites promise it a place, or have promised one that it shares; else it has none.
        let not_before = job.waits_for_claim()?;
        Some(Self {
            job: job.id,
            priority: job.priority,
            entered: since,
            not_before,
            frozen: job.frozen_by.is_some() || job.held.is_some(),
            max_tries: job.spec.max_placement_tries,
            request: request(),
        })
    }
}

/// Whether a waiting job is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// It is tried by the next scan.
    Ready,
    /// It backs off until this time.
    BackedOff(Timestamp),
    /// It is frozen or held.
    Frozen,
    /// A plan for it was offered and is not decided yet.
    Offered,
}

/// Where a waiting job stands, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStanding {
    /// Its queue.
    pub priority: Priority,
    /// How many jobs of its queue are ahead of it.
    pub ahead: usize,
    /// Whether it is tried.
    pub condition: Condition,
    /// Counted tries that failed since our start.
    pub tries: u32,
    /// Why its shape was last refused, if it was.
    pub refusal: Option<PlacementRefusal>,
}
