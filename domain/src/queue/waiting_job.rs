//! A job as its placement queue sees it.

use std::sync::Arc;

use crate::ids::JobId;
use crate::job::job_state::{Job, JobPhase};
use crate::job::spec::Priority;
use crate::placement::{PlacementRefusal, PlacementRequest};
use crate::units::Timestamp;

/// A job that waits for placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingJob {
    pub job: JobId,
    /// The queue that it waits in.
    pub priority: Priority,
    /// The time it entered the queue. Gives its place; equal times go by job id.
    pub entered: Timestamp,
    /// The earliest time of its next try; [`Timestamp`] 0 for no such wait.
    pub not_before: Timestamp,
    /// True while it is frozen by a user, or held after panics: it is not tried.
    pub frozen: bool,
    /// Limit of counted tries, after which the job fails; `None`: the one for all jobs.
    pub max_tries: Option<u32>,
    pub request: Arc<PlacementRequest>,
}

impl WaitingJob {
    /// Creates the entry of a job; `None` if it does not wait for placement. `request` builds its
    /// requirements.
    pub fn from_job(job: &Job, request: impl FnOnce() -> Arc<PlacementRequest>) -> Option<Self> {
        let JobPhase::Queued { since, .. } = job.phase else {
            return None;
        };
        // `None`: it waits for reservations, its own or a shared one, and not for a placement.
        let not_before = job.claimable_from()?;
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

/// Says if and when a waiting job is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitingCondition {
    /// It is tried by the next scan.
    Ready,
    /// It backs off until this time.
    BackedOff(Timestamp),
    /// It is frozen or held.
    Frozen,
    /// An open proposal is not decided yet.
    Offered,
}

/// The place of a waiting job, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStanding {
    /// The queue that it waits in.
    pub priority: Priority,
    /// The number of jobs ahead of it in that queue.
    pub ahead: usize,
    pub condition: WaitingCondition,
    /// Failed tries counted since our start.
    pub tries: u32,
    /// The reason its shape was last refused, if it was.
    pub refusal: Option<PlacementRefusal>,
}
