//! Estimates when a job may start, as far as that is possible without guessing what others do.

use std::sync::Arc;

use cospan_domain::ids::JobId;
use cospan_domain::job::demands::ComponentHolding;
use cospan_domain::job::job_state::{AttemptState, Job, JobPhase};
use cospan_domain::job::spec::{JobSpec, Priority};
use cospan_domain::placement::estimate::{
    ExpectedRelease, PlacementForecast, PlacementWaiter, estimate_wait, forecast_placement,
};
use cospan_domain::placement::{GridSnapshot, PlacementRequest, SitePairHistory};
use cospan_domain::units::{DurationMs, Timestamp};

use crate::committed::CommittedView;
use crate::context::SharedState;

/// The most jobs before it that are looked at; with more of them the pace of the queue counts.
const MOST_AHEAD: usize = 50;
/// The pace is that of the last hour.
const PACE: DurationMs = DurationMs::from_secs(3_600);

/// The estimated start of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartEstimate {
    /// The job starts within this time.
    Within {
        /// The earliest start.
        from: Timestamp,
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
        JobPhase::Queued { not_before, .. } => {
            if job.frozen_by.is_some() {
                return StartEstimate::Unknown("it is frozen".into());
            }
            let waiter = make_waiter(shared, request.clone(), *not_before, job.spec.wall_time);
            match jobs_ahead(shared, job) {
                Ok(ahead) => estimate_waiter_start(shared, grid, &waiter, &ahead, &job.spec),
                Err(count) => estimate_from_queue_pace(shared, count),
            }
        }
        JobPhase::Placed { start_estimate, .. } => {
            let here = if job.inputs_here {
                now
            } else {
                (*start_estimate).max(now)
            };
            let basis = format!("its input is expected by then, and a claim takes {claim} at most");
            StartEstimate::Within {
                from: here,
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
            let here = job.instants.start_estimate.filter(|_| !job.inputs_here);
            let until = (*since).max(here.unwrap_or(now)) + claim;
            let basis = format!("a claim takes {claim} at most once its input is there");
            StartEstimate::Within {
                from: now,
                until: until.max(now),
                basis,
            }
        }
        JobPhase::Starting { since } => {
            let until = *since + shared.settings.job.go_grace;
            let basis = "its start is decided".into();
            StartEstimate::Within {
                from: job.start_at.unwrap_or(now),
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
        until: latest,
        basis,
    }
}

/// Estimates the start of a job that would be submitted now, behind all of its priority.
pub(super) fn estimate_unsubmitted_start(
    shared: &SharedState,
    grid: &GridSnapshot,
    request: &Arc<PlacementRequest>,
    spec: &JobSpec,
) -> StartEstimate {
    let waiter = make_waiter(shared, request.clone(), Timestamp(0), spec.wall_time);
    let view = shared.view.load();
    match waiting_jobs(shared, &view, |job: &&Arc<Job>| {
        job.priority >= spec.priority
    }) {
        Ok(ahead) => estimate_waiter_start(shared, grid, &waiter, &ahead, spec),
        Err(count) => estimate_from_queue_pace(shared, count),
    }
}

/// Estimates from the pace of the queue: too many jobs are before it to look at each.
fn estimate_from_queue_pace(shared: &SharedState, ahead: usize) -> StartEstimate {
    let now = shared.clock.now();
    let view = shared.view.load();
    let placed = view
        .jobs
        .values()
        .filter(|job: &&Arc<Job>| job.instants.placed.is_some_and(|at| now.since(at) < PACE))
        .count();
    match estimate_wait(ahead, placed, PACE) {
        None => StartEstimate::Unknown(format!(
            "{ahead} jobs are ahead of it, and none was placed in the last hour"
        )),
        Some((least, most)) => StartEstimate::Within {
            from: now + least,
            until: now + most,
            basis: format!(
                "{ahead} jobs are ahead of it, and {placed} were placed in the last hour: half to \
                 twice the time that they take at this pace"
            ),
        },
    }
}

fn estimate_waiter_start(
    shared: &SharedState,
    grid: &GridSnapshot,
    waiter: &PlacementWaiter,
    ahead: &[PlacementWaiter],
    spec: &JobSpec,
) -> StartEstimate {
    let now = shared.clock.now();
    let history = SitePairHistory::clone(&shared.history.load());
    let claim = shared.settings.job.claim_timeout;
    match forecast_placement(
        grid,
        &history,
        expected_releases(shared, now),
        ahead,
        waiter,
        now,
    ) {
        Err(None) => StartEstimate::Unknown("too many components must end before it fits".into()),
        Err(Some(refusal)) => StartEstimate::Unknown(format!(
            "it does not fit even once all our components have ended: {}",
            refusal.describe_with_names(&spec.component_names(spec.components.len()))
        )),
        Ok(PlacementForecast { at, plan, ended }) => {
            let scan = if at > now {
                shared.settings.queue.scan_interval
            } else {
                DurationMs::ZERO
            };
            let until = at + scan + plan.transfer_time + claim;
            let from = now.max(waiter.not_before) + plan.transfer_time;
            StartEstimate::Within {
                from,
                until,
                basis: basis_text(ended, ahead.len(), at > now, claim),
            }
        }
    }
}

fn basis_text(ended: usize, ahead: usize, later: bool, claim: DurationMs) -> String {
    let mut basis = match (later, ended) {
        (false, _) => "it fits now".to_owned(),
        (true, 0) => "it fits, and waits for its time".to_owned(),
        (true, 1) => "it fits once one of our components ends, by its time limit".into(),
        (true, count) => {
            format!("it fits once {count} of our components end, by their time limits")
        }
    };
    if ahead > 0 {
        basis.push_str(&format!(", after the {ahead} job(s) ahead of it"));
    }
    basis.push_str(&format!(
        "; assumes that transfers are as fast as lately, that a claim takes {claim} at most, and \
         that neither local users nor more urgent jobs take more"
    ));
    basis
}

fn make_waiter(
    shared: &SharedState,
    request: Arc<PlacementRequest>,
    not_before: Timestamp,
    wall_time: DurationMs,
) -> PlacementWaiter {
    let job = &shared.settings.job;
    let longest = job.claim_timeout + job.hold_max + job.go_grace + wall_time;
    PlacementWaiter {
        request,
        not_before,
        longest,
    }
}

/// Lists the jobs before this one: more urgent, or as urgent and longer in the queue.
fn jobs_ahead(shared: &SharedState, job: &Job) -> Result<Vec<PlacementWaiter>, usize> {
    let own = queue_order_key(job);
    waiting_jobs(shared, &shared.view.load(), |other| {
        queue_order_key(other) < own
    })
}

fn queue_order_key(job: &Job) -> (std::cmp::Reverse<Priority>, Timestamp, JobId) {
    let (since, _) = queue_entry_times(job);
    (std::cmp::Reverse(job.priority), since, job.id)
}

/// Since when a job waits, and before when it is not placed.
fn queue_entry_times(job: &Job) -> (Timestamp, Timestamp) {
    match job.phase {
        JobPhase::Queued { since, not_before } => (since, not_before),
        _ => (Timestamp(0), Timestamp(0)),
    }
}

fn waiting_jobs(
    shared: &SharedState,
    view: &CommittedView,
    before: impl Fn(&&Arc<Job>) -> bool,
) -> Result<Vec<PlacementWaiter>, usize> {
    let mut jobs: Vec<&Arc<Job>> = view
        .jobs
        .values()
        .filter(|job: &&Arc<Job>| {
            let waits = job.held.is_none() && job.frozen_by.is_none();
            waits && matches!(job.phase, JobPhase::Queued { .. })
        })
        .filter(before)
        .collect();
    if jobs.len() > MOST_AHEAD {
        return Err(jobs.len());
    }
    jobs.sort_by_key(|job| queue_order_key(job));
    Ok(jobs
        .into_iter()
        .map(|job: &Arc<Job>| {
            make_waiter(
                shared,
                shared.placement_request_of(job),
                queue_entry_times(job).1,
                job.spec.wall_time,
            )
        })
        .collect())
}

/// Lists everything that jobs of ours have, with the latest time at which it ends.
fn expected_releases(shared: &SharedState, now: Timestamp) -> Vec<ExpectedRelease> {
    let view = shared.view.load();
    let holdings = view.holdings.values().flat_map(|site| site.iter());
    holdings
        .filter_map(|((id, _), holding)| {
            expected_release_of(shared, view.jobs.get(id)?, holding, now)
        })
        .collect()
}

fn expected_release_of(
    shared: &SharedState,
    job: &Job,
    holding: &ComponentHolding,
    now: Timestamp,
) -> Option<ExpectedRelease> {
    let parameters = &shared.settings.job;
    let began = match job.components.get(holding.component.0 as usize)?.run {
        AttemptState::Running { since, .. } => Some(since),
        _ => None,
    };
    let claims = job.claim_limits(parameters);
    let begins = match &job.phase {
        JobPhase::Placed { start_estimate, .. } => (*start_estimate).max(now) + claims.ready_within,
        JobPhase::Claiming { since } => *since + claims.ready_within,
        _ => began
            .or(job.component_start(holding.component))
            .unwrap_or(now),
    };
    let waits = match began {
        Some(_) => DurationMs::ZERO,
        None => claims.max_hold + parameters.go_grace,
    };
    let report = shared.live.site_report(&holding.site);
    let asked = report.and_then(|report| Some(report.idle.as_ref()?.0));
    let visible = asked.is_some_and(|asked| holding.is_counted(asked, now));
    Some(ExpectedRelease {
        at: begins + waits + job.spec.wall_time,
        site: holding.site.clone(),
        resources: holding.resources.clone(),
        visible,
    })
}
