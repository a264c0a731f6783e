//! Looks ahead through the placement queue, twice: as jobs are expected to take, and as they may take
//! at most.

use std::fmt;
use std::sync::Arc;

use cospan_domain::ids::{Digest, JobId, KeyName, SiteName};
use cospan_domain::job::demands::ComponentHolding;
use cospan_domain::job::job_state::{AttemptState, Component, Job, JobPhase};
use cospan_domain::job::run_times::RunTimeTraits;
use cospan_domain::job::spec::{JobSpec, Priority};
use cospan_domain::placement::estimate::{
    CopyArrivals, ExpectedChanges, ExpectedRelease, PlacementForecast, PlacementWaiter,
    WaitingJobs, forecast_placement,
};
use cospan_domain::placement::{GridSnapshot, PlacementRefusal, PlacementRequest, SitePairHistory};
use cospan_domain::queue::{QueuePace, QueueVisit};
use cospan_domain::transfer::copy_state::CopyPhase;
use cospan_domain::units::{DurationMs, Timestamp};

use super::estimate::StartEstimate;
use super::past_jobs::{PastJobs, traits_of};
use crate::committed::CommittedView;
use crate::context::SharedState;

/// The most jobs before it that are looked at; with more of them the pace of the queue counts.
const MOST_AHEAD: usize = 500;
/// The pace is that of the last hour, or since the queue began.
const PACE: DurationMs = DurationMs::from_secs(3_600);

/// The lengths that a forecast counts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ForecastKind {
    /// Jobs take as long as those before them did.
    Expected,
    /// Jobs take all of their wall times, and nothing else goes wrong.
    ByWallTimes,
    /// Jobs take all of their wall times, and all the time that they may take before.
    Latest,
}

/// Copies as the view and the live state know them.
struct KnownCopies<'a> {
    shared: &'a SharedState,
    view: &'a CommittedView,
}

/// A job that waits, with its place in the queue.
type QueuedJob<'a> = (PlacementOrderKey, &'a Arc<Job>);

/// The order in which jobs are placed: the more urgent first, then who waits for longer.
type PlacementOrderKey = (std::cmp::Reverse<Priority>, Timestamp, JobId);

/// A job that is not submitted, as a forecast sees it.
#[derive(Debug, Clone)]
pub struct UnsubmittedJob {
    /// The request that it would make of sites.
    pub request: Arc<PlacementRequest>,
    /// The longest run time, as its user says.
    pub wall_time: DurationMs,
}

/// Forecasts starts from one state of everything.
pub struct StartForecaster<'a> {
    shared: &'a SharedState,
    grid: &'a GridSnapshot,
    view: Arc<CommittedView>,
    past: PastJobs,
    now: Timestamp,
}

impl fmt::Debug for KnownCopies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownCopies").finish_non_exhaustive()
    }
}

impl CopyArrivals for KnownCopies<'_> {
    fn arrival_of(&self, digest: &Digest, site: &SiteName) -> Option<Timestamp> {
        let copy = self.view.copies.get(&(*digest, site.clone()))?;
        match &copy.phase {
            CopyPhase::Ready { at, .. } => Some(*at),
            CopyPhase::Copying { .. } => {
                let progress = self.shared.live.copy_progress(*digest, site)?;
                Some(progress.expected)
            }
            CopyPhase::Absent
            | CopyPhase::Waiting { .. }
            | CopyPhase::Stopping { .. }
            | CopyPhase::Deleting { .. } => None,
        }
    }
}

/// Returns when all input of a placed job is at its sites, and `now` if it is there: copies that
/// are there count, and those that come arrive as their progress says, not as was estimated.
pub(super) fn input_arrival(
    shared: &SharedState,
    view: &CommittedView,
    job: &Job,
    now: Timestamp,
) -> Timestamp {
    if job.inputs_here {
        return now;
    }
    let copies = KnownCopies { shared, view };
    let estimated = job.instants.start_estimate.unwrap_or(now);
    let placements = job.components.iter().filter_map(|c| c.placement.as_ref());
    let arrivals = placements.flat_map(|placement| {
        let brought = placement.sources.iter();
        let brought = brought.filter(|source| source.from != placement.site);
        brought.map(|source| {
            let known = copies.arrival_of(&source.content.digest, &placement.site);
            known.unwrap_or(estimated)
        })
    });
    arrivals.max().unwrap_or(now).max(now)
}

impl<'a> StartForecaster<'a> {
    /// Takes what is known now; `grid` is what jobs are placed on.
    pub fn new(shared: &'a SharedState, grid: &'a GridSnapshot) -> Self {
        let view = shared.view.load();
        let past = PastJobs::of_view(&view);
        Self {
            shared,
            grid,
            past,
            now: shared.clock.now(),
            view,
        }
    }

    /// The time of the forecasts.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns when a job would be placed if these were placed before it and nobody else waited, by
    /// the run times that users estimate; `None` if that cannot be said.
    pub fn placement_by_wall_times(
        &self,
        ahead: &[&UnsubmittedJob],
        job: &UnsubmittedJob,
    ) -> Option<Timestamp> {
        let waiter = |job: &UnsubmittedJob| PlacementWaiter {
            request: job.request.clone(),
            not_before: Timestamp(0),
            holds_for: self.past.claim_time + job.wall_time,
        };
        let ahead: Vec<PlacementWaiter> = ahead.iter().map(|job| waiter(job)).collect();
        let others = WaitingJobs {
            ahead: &ahead,
            behind: &[],
        };
        let forecast = self.forecast(others, &waiter(job), ForecastKind::ByWallTimes);
        Some(forecast.ok()?.at)
    }

    /// Estimates the start of a job that waits for its placement.
    pub(super) fn estimate_waiting_job(
        &self,
        job: &Job,
        request: &Arc<PlacementRequest>,
    ) -> StartEstimate {
        let place = queue_place(job);
        self.estimate_at_place(&job.spec, &traits_of(job), request, place, not_before(job))
    }

    /// Estimates the start of a job that would be submitted now, behind all of its priority.
    pub(super) fn estimate_unsubmitted_job(
        &self,
        owner: &KeyName,
        spec: &JobSpec,
        request: &Arc<PlacementRequest>,
    ) -> StartEstimate {
        let place = (
            std::cmp::Reverse(spec.priority),
            Timestamp(u64::MAX),
            JobId(u64::MAX),
        );
        let traits = RunTimeTraits {
            owner,
            wall_time: spec.wall_time,
            processors: spec.total_resources().processors,
        };
        self.estimate_at_place(spec, &traits, request, place, Timestamp(0))
    }

    fn estimate_at_place(
        &self,
        spec: &JobSpec,
        traits: &RunTimeTraits<'_>,
        request: &Arc<PlacementRequest>,
        place: PlacementOrderKey,
        not_before: Timestamp,
    ) -> StartEstimate {
        let mut queue = self.queued_jobs();
        let ahead = queue.partition_point(|(other, _)| *other < place);
        if ahead > MOST_AHEAD {
            return self.estimate_from_queue_pace(ahead);
        }
        queue.retain(|(other, _)| *other != place);
        queue.truncate(2 * MOST_AHEAD);
        let forecast = |kind| {
            let waiter = PlacementWaiter {
                request: request.clone(),
                not_before,
                holds_for: self.holding_time(traits, kind),
            };
            self.forecast_start(&queue, ahead, &waiter, kind)
        };
        match forecast(ForecastKind::Expected) {
            Err(None) => self.estimate_from_queue_pace(ahead),
            Err(Some(refusal)) => StartEstimate::Unknown(format!(
                "it does not fit even once all our components have ended: {}",
                refusal.describe_with_names(&spec.component_names(spec.components.len()))
            )),
            Ok(expected) => {
                let latest = forecast(ForecastKind::Latest);
                self.estimate_from_forecasts(&expected, latest.ok(), ahead, not_before)
            }
        }
    }

    fn estimate_from_forecasts(
        &self,
        expected: &PlacementForecast,
        latest: Option<PlacementForecast>,
        ahead: usize,
        not_before: Timestamp,
    ) -> StartEstimate {
        let queue = &self.shared.settings.queue;
        let claim = self.shared.settings.job.claim_timeout;
        let scan = |at: Timestamp, interval| {
            if at > self.now {
                interval
            } else {
                DurationMs::ZERO
            }
        };
        let start = expected.at + expected.transfer_time + self.past.claim_time;
        let until = match &latest {
            Some(latest) => {
                latest.at + scan(latest.at, queue.scan_interval) + latest.transfer_time + claim
            }
            // Twice the wait, as for queues that are too long to look through.
            None => start + start.since(self.now) + claim,
        };
        // Without events a job is found to fit by the next scan only.
        let found = if queue.events {
            DurationMs::ZERO
        } else {
            scan(expected.at, DurationMs(queue.scan_interval.0 / 2))
        };
        let ended = latest
            .as_ref()
            .map_or(expected.ended, |latest| latest.ended);
        let later = latest.as_ref().unwrap_or(expected).at > self.now;
        let from = self.now.max(not_before) + expected.transfer_time;
        let expected = (start + found).max(from);
        StartEstimate::Within {
            from,
            expected,
            until: until.max(expected),
            basis: basis_text(ended, ahead, later, claim),
        }
    }

    /// Estimates from the pace of the queue: too many jobs are before it to look at each.
    fn estimate_from_queue_pace(&self, ahead: usize) -> StartEstimate {
        let visits = self.view.jobs.values().filter_map(|job| visit_of(job));
        let pace = QueuePace::of_visits(visits, self.now, PACE);
        let QueuePace { placed, within } = pace;
        match pace.wait_behind(ahead) {
            None => StartEstimate::Unknown(format!(
                "{ahead} jobs are ahead of it, and none of those that waited was placed in the \
                 last {within}"
            )),
            Some(wait) => StartEstimate::Within {
                from: self.now + DurationMs(wait.0 / 2),
                expected: self.now + wait,
                until: self.now + wait + wait,
                basis: format!(
                    "{ahead} jobs are ahead of it, and {placed} that waited were placed in the last \
                     {within}: half to twice the time that they take at this pace"
                ),
            },
        }
    }

    fn forecast_start(
        &self,
        queue: &[QueuedJob<'_>],
        ahead: usize,
        waiter: &PlacementWaiter,
        kind: ForecastKind,
    ) -> Result<PlacementForecast, Option<PlacementRefusal>> {
        let waiters: Vec<PlacementWaiter> = queue
            .iter()
            .map(|(_, job)| PlacementWaiter {
                request: self.shared.placement_request_of(job),
                not_before: not_before(job),
                holds_for: self.holding_time(&traits_of(job), kind),
            })
            .collect();
        let others = WaitingJobs {
            ahead: &waiters[..ahead],
            behind: &waiters[ahead..],
        };
        self.forecast(others, waiter, kind)
    }

    fn forecast(
        &self,
        others: WaitingJobs<'_>,
        waiter: &PlacementWaiter,
        kind: ForecastKind,
    ) -> Result<PlacementForecast, Option<PlacementRefusal>> {
        let copies = KnownCopies {
            shared: self.shared,
            view: &self.view,
        };
        let changes = ExpectedChanges {
            releases: self.expected_releases(kind),
            copies: &copies,
        };
        let history = SitePairHistory::clone(&self.shared.history.load());
        forecast_placement(self.grid, &history, changes, others, waiter, self.now)
    }

    /// Returns the time for which a job that waits will hold its processors. It seldom takes long to
    /// claim them, so even at most that is the usual time.
    fn holding_time(&self, job: &RunTimeTraits<'_>, kind: ForecastKind) -> DurationMs {
        self.past.claim_time + self.run_time(job, DurationMs::ZERO, kind)
    }

    fn run_time(
        &self,
        job: &RunTimeTraits<'_>,
        elapsed: DurationMs,
        kind: ForecastKind,
    ) -> DurationMs {
        match kind {
            ForecastKind::Expected => self.past.run_times.expected_run(job, elapsed),
            ForecastKind::ByWallTimes | ForecastKind::Latest => job.wall_time,
        }
    }

    /// Lists the jobs that wait for their placement and may have it, in order.
    fn queued_jobs(&self) -> Vec<QueuedJob<'_>> {
        let jobs = self.view.jobs.values().filter(|job: &&Arc<Job>| {
            let waits = job.held.is_none() && job.frozen_by.is_none();
            waits && matches!(job.phase, JobPhase::Queued { .. })
        });
        let mut jobs: Vec<QueuedJob<'_>> = jobs.map(|job| (queue_place(job), job)).collect();
        jobs.sort_by_key(|(place, _)| *place);
        jobs
    }

    /// Lists everything that jobs of ours have, with the time at which it ends.
    fn expected_releases(&self, kind: ForecastKind) -> Vec<ExpectedRelease> {
        let holdings = self.view.holdings.values().flat_map(|site| site.iter());
        holdings
            .filter_map(|((id, _), holding)| {
                let job = self.view.jobs.get(id)?;
                self.expected_release_of(job, holding, kind)
            })
            .collect()
    }

    fn expected_release_of(
        &self,
        job: &Job,
        holding: &ComponentHolding,
        kind: ForecastKind,
    ) -> Option<ExpectedRelease> {
        let component = job.components.get(holding.component.0 as usize)?;
        let began = match component.run {
            AttemptState::Running { since, .. } => Some(since),
            // The gate is open: it waits for nobody any more.
            AttemptState::Opened { at, .. } => {
                Some(job.component_start(holding.component).unwrap_or(at))
            }
            _ => None,
        };
        let begins = began.unwrap_or_else(|| self.expected_begin(job, component, holding, kind));
        let elapsed = self.now.since(begins);
        let report = self.shared.live.site_report(&holding.site);
        let asked = report.and_then(|report| Some(report.idle.as_ref()?.0));
        let visible = asked.is_some_and(|asked| holding.is_counted(asked, self.now));
        Some(ExpectedRelease {
            at: begins + self.run_time(&traits_of(job), elapsed, kind),
            site: holding.site.clone(),
            resources: holding.resources.clone(),
            visible,
        })
    }

    /// Returns when a component begins that has not begun.
    fn expected_begin(
        &self,
        job: &Job,
        component: &Component,
        holding: &ComponentHolding,
        kind: ForecastKind,
    ) -> Timestamp {
        let decided = job.component_start(holding.component);
        let parameters = &self.shared.settings.job;
        if let Some(at) = decided {
            return match kind {
                ForecastKind::Expected | ForecastKind::ByWallTimes => at.max(self.now),
                ForecastKind::Latest => at.max(self.now) + parameters.go_grace,
            };
        }
        let since = match &job.phase {
            JobPhase::Claiming { since } => *since,
            _ => self.now,
        };
        let here = input_arrival(self.shared, &self.view, job, since);
        let claims = job.claim_limits(parameters);
        match kind {
            ForecastKind::Expected | ForecastKind::ByWallTimes => {
                (here + self.past.claim_time).max(self.now)
            }
            ForecastKind::Latest => {
                // It stays at its gate for others, or for its input, and for nothing else.
                let alone = job.inputs_here && job.components.len() == 1;
                let holds = if alone {
                    DurationMs::ZERO
                } else {
                    claims.max_hold
                };
                let claimed = match component.run {
                    AttemptState::AtGate { since, .. } => since,
                    _ => here.max(since) + claims.ready_within,
                };
                claimed + holds + parameters.go_grace
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

fn queue_place(job: &Job) -> PlacementOrderKey {
    let since = match job.phase {
        JobPhase::Queued { since, .. } => since,
        _ => Timestamp(0),
    };
    (std::cmp::Reverse(job.priority), since, job.id)
}

/// Returns the time before which a job that waits is not placed.
fn not_before(job: &Job) -> Timestamp {
    match job.phase {
        JobPhase::Queued { not_before, .. } => not_before,
        _ => Timestamp(0),
    }
}

/// Returns the latest visit of a job to the placement queue.
fn visit_of(job: &Job) -> Option<QueueVisit> {
    if let JobPhase::Queued { since, .. } = job.phase {
        return Some(QueueVisit {
            entered: since,
            placed: None,
        });
    }
    let placed = job.instants.placed?;
    Some(QueueVisit {
        entered: placed - job.instants.placement_time,
        placed: Some(placed),
    })
}
