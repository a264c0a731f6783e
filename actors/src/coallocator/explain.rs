//! Explains why a job is where it is: the same policy, with a recording observer.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::bid::SiteBid;
use cospan_domain::ids::{ComponentIndex, JobId, KeyName, PolicyName, SiteName};
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::placed::{ContentSource, Placement};
use cospan_domain::placement::{
    self, BandwidthKind, GridSite, GridSnapshot, MissingLink, PlacementContext, PlacementPlan,
    PlacementRefusal, PlacementRequest, RemainingResources, SitePairHistory, SiteVerdict,
    VerdictRecorder,
};
use cospan_domain::queue::{AssignedClass, StarvationGuard, SweepGroups};
use cospan_domain::site::availability::{SiteObstacle, list_obstacles};
use cospan_domain::site::site_state::{Breaker, SiteRecord};
use cospan_domain::units::{DurationMs, Timestamp};

use super::estimate::{self, StartEstimate};
use crate::context::SharedState;
use crate::grid_snapshot::GridSnapshotMaker;
use crate::job::SilentSiteReport;
use crate::link_measurements::LinkFigures;

/// The explanation of a job's present state, or of what would become of it now.
#[derive(Debug, Clone)]
pub struct JobExplanation {
    /// Names of the job's components; of a flexible job as it would be split now.
    pub components: Vec<String>,
    /// The policy asked.
    pub policy: PolicyName,
    /// The policy's present decision: a plan, or what keeps it from one.
    pub decision: Result<PlacementPlan, PlacementRefusal>,
    /// The link without which the job can never be placed as things are, if there is one.
    pub missing_link: Option<MissingLink>,
    /// The policy's verdict on each site for each component that it came to.
    pub verdicts: Vec<SiteVerdict>,
    /// The bid of each site for the whole job, if the policy takes bids.
    pub bids: Vec<SiteBid>,
    /// The kind of bandwidths by which bids are counted.
    pub bid_kind: BandwidthKind,
    /// The figures of each site; sites that left the configuration are missing.
    pub sites: BTreeMap<SiteName, SiteFigures>,
    /// The thing that the job itself waits for.
    pub wait: WaitCause,
    /// The time of the next claim for the job, if it waits for that.
    pub next_claim: Option<Timestamp>,
    /// Processors withheld for another job; they count as taken here.
    pub starvation_guard: Option<StarvationGuard>,
    /// The estimated start.
    pub estimate: StartEstimate,
    /// Parts of the job that may run at sites that do not answer.
    pub silence: SilentSiteReport,
    /// The transfers that would be made if the job were placed as decided.
    pub transfers: Vec<ExpectedTransfer>,
    /// The priority that the job would have if it were submitted now, and by which rule.
    pub class: Option<AssignedClass>,
}

/// Knowledge of a site, in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteFigures {
    /// The age of the site's report; `None` if there never was one.
    pub age: Option<DurationMs>,
    /// Processors that the site reported idle.
    pub idle: Option<u32>,
    /// Processors of those that the quota lets us take.
    pub quota_leaves: Option<u32>,
    /// Processors that are deducted for jobs of ours and not shown by the site yet.
    pub pending: u32,
    /// The site's errors in a row.
    pub errors: u32,
    /// The time of the first probe, while the site is unusable.
    pub probe_at: Option<Timestamp>,
    /// Reasons that keep the site from taking anything.
    pub obstacles: Vec<SiteObstacle>,
}

/// A content on its way to a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedTransfer {
    pub component: ComponentIndex,
    /// The content, and where it comes from.
    pub source: ContentSource,
    /// The site that it goes to.
    pub to: SiteName,
    /// The length of the transfer.
    pub time: DurationMs,
    /// The link, if there is any on the way.
    pub link: Option<LinkFigures>,
}

/// The reason for which a job waits, whatever the sites are like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitCause {
    /// The job waits for a place: the verdicts say why it has none.
    Placement,
    /// The job waits for its turn: its sweep may have only this many runs at once.
    Turn(u32),
    /// A user froze the job.
    Frozen,
    /// The job is held after an internal error, for this reason.
    Held(String),
    /// The job waits for what its phase is about.
    Phase,
    /// The job has ended.
    Ended,
    /// The job is not submitted.
    NotSubmitted,
}

/// Explains a job.
pub fn explain_in_full(shared: &SharedState, job: &Job) -> JobExplanation {
    explain_with_estimate(shared, job, estimate::estimate_job_start)
}

/// Explains a job without an estimate of its start, which may be most of the work.
pub fn explain_without_estimate(shared: &SharedState, job: &Job) -> JobExplanation {
    explain_with_estimate(shared, job, |_, _, _, _| StartEstimate::None)
}

fn explain_with_estimate(
    shared: &SharedState,
    job: &Job,
    estimate: impl FnOnce(&SharedState, &GridSnapshot, &Arc<PlacementRequest>, &Job) -> StartEstimate,
) -> JobExplanation {
    let request = shared.placement_request_of(job);
    let wait = match (&job.held, &job.frozen_by) {
        _ if job.is_final() => WaitCause::Ended,
        (Some(reason), _) => WaitCause::Held(reason.to_string()),
        (None, Some(_)) => WaitCause::Frozen,
        (None, None) => match job.phase {
            JobPhase::Queued { .. } => {
                awaited_sweep_limit(shared, job).map_or(WaitCause::Placement, WaitCause::Turn)
            }
            _ => WaitCause::Phase,
        },
    };
    let starvation_guard = shared
        .starvation_guard
        .load()
        .as_ref()
        .clone()
        .filter(|starvation_guard| starvation_guard.job != job.id);
    let mut grids = GridSnapshotMaker::default();
    let grid = match job.phase {
        JobPhase::Queued { .. } => grids.snapshot_for_job(shared, job.id),
        _ => grids.snapshot_without_job(shared, job).into(),
    };
    let estimate = estimate(shared, &grid, &request, job);
    let explanation = explain_by_policy(shared, &grid, &job.spec, &request, wait, starvation_guard);
    let silence = SilentSiteReport::from_job(shared, job);
    JobExplanation {
        next_claim: job.next_claim_time(&shared.settings.job),
        estimate,
        silence,
        ..explanation
    }
}

/// Returns the limit of a job's sweep, if that is what it waits for.
fn awaited_sweep_limit(shared: &SharedState, job: &Job) -> Option<u32> {
    let task = job.spec.run.task.as_ref()?;
    let limit = task.at_once?;
    let end = JobId(task.group.0.saturating_add(u64::from(task.count)));
    let mut groups = SweepGroups::default();
    let view = shared.view.load();
    for (_, run) in view.jobs.range(task.group..end) {
        groups.record_phase(run);
    }
    groups.give_turns(task.group, std::iter::empty());
    (!groups.has_turn(job)).then_some(limit)
}

/// Explains what would become of a job if `owner` submitted it now; `request` is what it asks of
/// sites.
pub fn explain_unsubmitted(
    shared: &SharedState,
    owner: &KeyName,
    spec: &JobSpec,
    request: &Arc<PlacementRequest>,
) -> JobExplanation {
    let starvation_guard = shared.starvation_guard.load().as_ref().clone();
    let grid = GridSnapshotMaker::default().snapshot(shared);
    let estimate = estimate::estimate_unsubmitted_start(shared, &grid, request, owner, spec);
    JobExplanation {
        estimate,
        ..explain_by_policy(
            shared,
            &grid,
            spec,
            request,
            WaitCause::NotSubmitted,
            starvation_guard,
        )
    }
}

fn explain_by_policy(
    shared: &SharedState,
    grid: &GridSnapshot,
    spec: &JobSpec,
    request: &PlacementRequest,
    wait: WaitCause,
    starvation_guard: Option<StarvationGuard>,
) -> JobExplanation {
    let mut remaining = RemainingResources::of_grid(grid);
    for (site, count) in starvation_guard
        .iter()
        .flat_map(|starvation_guard| &starvation_guard.withheld)
    {
        if let Some(site) = grid.index_of(site) {
            remaining.withhold_from_all(site, *count);
        }
    }
    let mut observer = VerdictRecorder::default();
    let mut history = SitePairHistory::clone(&shared.history.load());
    let mut context = PlacementContext {
        grid,
        remaining: &mut remaining,
        history: &mut history,
        observer: &mut observer,
    };
    let decision = placement::try_to_place(request, &mut context);
    let count = match &decision {
        Ok(plan) => plan.placements.len(),
        Err(_) => spec.components.len(),
    };
    let may_probe = placement::may_try_out_any(request, grid.sites());
    let sites = grid.sites().iter();
    let sites = sites.map(|site| (site.name.clone(), site_figures(shared, site, may_probe)));
    JobExplanation {
        estimate: StartEstimate::None,
        transfers: decision
            .as_ref()
            .map(|plan| expected_transfers(shared, plan))
            .unwrap_or_default(),
        sites: sites.collect(),
        components: spec.component_names(count),
        policy: request.policy().clone(),
        missing_link: decision
            .as_ref()
            .err()
            .and_then(|_| placement::find_missing_link(request, grid)),
        decision,
        verdicts: observer.verdicts,
        bids: observer.bids,
        bid_kind: grid.bid_bandwidth_kind(),
        wait,
        next_claim: None,
        silence: SilentSiteReport::default(),
        starvation_guard,
        class: None,
    }
}

fn site_figures(shared: &SharedState, site: &GridSite, may_probe: bool) -> SiteFigures {
    let view = shared.view.load();
    let now = shared.clock.now();
    let fresh = SiteRecord::new(site.name.clone());
    let record = view
        .sites
        .get(&site.name)
        .map_or(&fresh, |record| record.as_ref());
    let contact = shared
        .live
        .site_report(&site.name)
        .unwrap_or_default()
        .contact;
    let held = view
        .holdings
        .get(&site.name)
        .map_or(0, |held| held.len() as u32);
    let idle = site.idle.as_ref().map(|belief| &belief.idle);
    let within = site.shape.as_ref().zip(idle).map(|(shape, idle)| {
        site.quota
            .usable_resources(&shape.total, idle, &site.ours)
            .processors
    });
    SiteFigures {
        age: site.report_age(now),
        idle: idle.map(|idle| idle.processors),
        quota_leaves: within,
        pending: site.pending.processors,
        errors: record.consecutive_errors,
        probe_at: match record.breaker {
            Breaker::Open { probe_at, .. } => Some(probe_at),
            Breaker::Closed | Breaker::HalfOpen { .. } => None,
        },
        obstacles: list_obstacles(record, contact, held, may_probe, now),
    }
}

/// Lists the transfers that a plan needs, and over which links.
fn expected_transfers(shared: &SharedState, plan: &PlacementPlan) -> Vec<ExpectedTransfer> {
    plan.placements
        .iter()
        .enumerate()
        .flat_map(|(index, placement): (usize, &Placement)| {
            let to = placement.site.clone();
            placement
                .sources
                .iter()
                .map(move |source| {
                    let link = shared.links.known_link(&source.from, &to);
                    let time = link
                        .as_ref()
                        .and_then(|l| source.content.size.transfer_time(l.bandwidth));
                    ExpectedTransfer {
                        component: ComponentIndex(index as u32),
                        source: source.clone(),
                        to: to.clone(),
                        time: time.unwrap_or_default(),
                        link,
                    }
                })
                .collect::<Vec<_>>()
        })
        .collect()
}
