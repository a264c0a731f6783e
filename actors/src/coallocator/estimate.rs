//! Estimates when a job may start, as far as that is possible without guessing what others do.

use std::sync::Arc;

use cospan_domain::ids::KeyName;
use cospan_domain::job::job_state::{AttemptState, Job, JobPhase};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::placement::{GridSnapshot, PlacementRequest};
use cospan_domain::units::Timestamp;

use super::past_jobs::PastJobs;
use super::start_forecast::{self, StartForecaster};
use crate::context::SharedState;

/// The estimated start of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartEstimate {
    /// The job starts within this time.
    Within {
        /// The earliest start.
        from: Timestamp,
        /// The start if jobs take as long as those before them did.
        expected: Timestamp,
        /// The latest start, if the basis holds.
        until: Timestamp,
        /// The basis of the estimate.
        basis: String,
    },
    /// No estimate is possible, for this reason.
    Unknown(String),
    /// The job has started, or never will.
    None,
}

/// Estimates the start of a job.
pub(super) fn estimate_job_start(
    shared: &SharedState,
    grid: &GridSnapshot,
    request: &Arc<PlacementRequest>,
    job: &Job,
) -> StartEstimate {
    let now = shared.clock.now();
    let claim = job.claim_limits(&shared.settings.job).ready_within;
    match &job.phase {
        _ if job.held.is_some() => StartEstimate::Unknown("it is held".into()),
        JobPhase::Queued { .. } => {
            if job.frozen_by.is_some() {
                return StartEstimate::Unknown("it is frozen".into());
            }
            StartForecaster::new(shared, grid).estimate_waiting_job(job, request)
        }
        JobPhase::Placed { .. } => {
            let here = start_forecast::input_arrival(shared, &shared.view.load(), job, now);
            let basis = format!("its input is expected by then, and a claim takes {claim} at most");
            StartEstimate::Within {
                from: here,
                expected: here + PastJobs::of_view(&shared.view.load()).claim_time,
                until: here + claim,
                basis,
            }
        }
        JobPhase::Claiming { .. }
            if job
                .components
                .iter()
                .any(|c| c.acquisition().waits_in_site_queue()) =>
        {
            estimate_from_site_queues(job, now)
        }
        JobPhase::Claiming { since } => {
            let here = start_forecast::input_arrival(shared, &shared.view.load(), job, *since);
            let until = (*since).max(here) + claim;
            let taken = PastJobs::of_view(&shared.view.load()).claim_time;
            let basis = format!("a claim takes {claim} at most once its input is there");
            StartEstimate::Within {
                from: now,
                expected: (*since + taken).max(here).max(now),
                until: until.max(now),
                basis,
            }
        }
        JobPhase::Starting { since } => {
            let until = *since + shared.settings.job.go_grace;
            let basis = "its start is decided".into();
            let at = job.start_at.unwrap_or(now);
            StartEstimate::Within {
                from: at,
                expected: at.max(now),
                until: until.max(now),
                basis,
            }
        }
        _ => StartEstimate::None,
    }
}

/// Takes the latest start that its sites expect. If one gives none, the start is unknown.
fn estimate_from_site_queues(job: &Job, now: Timestamp) -> StartEstimate {
    let mut latest = now;
    for component in &job.components {
        match &component.run {
            AttemptState::Submitted {
                waits: Some(waits), ..
            } => match waits.expected_start {
                Some(at) => latest = latest.max(at),
                None => {
                    let why = "a site gives no expected start for what waits in its queue";
                    return StartEstimate::Unknown(why.into());
                }
            },
            AttemptState::AtGate { .. } => {}
            _ => {
                return StartEstimate::Unknown(
                    "not all of its components wait in the queues of their sites".into(),
                );
            }
        }
    }
    let basis = "its sites expect to start its last component then".into();
    StartEstimate::Within {
        from: now,
        expected: latest,
        until: latest,
        basis,
    }
}

/// Estimates the start of a job that would be submitted now, behind all of its priority.
pub(super) fn estimate_unsubmitted_start(
    shared: &SharedState,
    grid: &GridSnapshot,
    request: &Arc<PlacementRequest>,
    owner: &KeyName,
    spec: &JobSpec,
) -> StartEstimate {
    StartForecaster::new(shared, grid).estimate_unsubmitted_job(owner, spec, request)
}
