//! Placement into the queues of sites, for jobs that find nothing idle.
//!
//! The job's own policy chooses, as if only our own work counted at each site: the work of others
//! ends some time, and the site's own queue decides when. So no more of our work waits at a site
//! than it could ever hold at once; the rest waits here.

use std::sync::Arc;

use super::grid::{GridSite, GridSnapshot, LoadReport, PlacementAcceptance, PlacementHindrance};
use super::placement_plan::PlacementPlan;
use super::placement_request::PlacementRequest;
use super::policy::{PlacementContext, place_by_policy};
use super::reason::{PlacementRefusal, SilentObserver, VerdictObserver, VerdictRecorder};
use super::remaining::RemainingResources;
use crate::acquisition::{Acquisition, AcquisitionMode};

/// Places a request in the way that its job wants: on what is idle, or in queues.
///
/// # Errors
/// Not every component has a site now. For a job that may go either way the refusal says why
/// nothing idle serves it.
pub(super) fn place_as_wanted(
    request: &PlacementRequest,
    context: &mut PlacementContext<'_>,
) -> Result<PlacementPlan, PlacementRefusal> {
    match request.acquisition().mode {
        AcquisitionMode::Immediate => place_by_policy(request, context),
        AcquisitionMode::Queued => place_in_queues(request, context),
        AcquisitionMode::Auto if !context.grid.has_queues() => place_by_policy(request, context),
        AcquisitionMode::Auto => place_now_or_queue(request, context),
    }
}

fn place_now_or_queue(
    request: &PlacementRequest,
    context: &mut PlacementContext<'_>,
) -> Result<PlacementPlan, PlacementRefusal> {
    let mut of_idle = VerdictRecorder::default();
    let mut of_queues = VerdictRecorder::default();
    let listens = context.observer.is_listening();
    let refusal = match place_by_policy(
        request,
        &mut context.observing_context(listens, &mut of_idle, &mut SilentObserver),
    ) {
        Ok(plan) => return Ok(context.report_verdicts(of_idle, plan)),
        Err(refusal) => refusal,
    };
    match place_in_queues(
        request,
        &mut context.observing_context(listens, &mut of_queues, &mut SilentObserver),
    ) {
        Ok(plan) => Ok(context.report_verdicts(of_queues, plan)),
        Err(_) => Err(context.report_verdicts(of_idle, refusal)),
    }
}

/// Places a job that nothing idle covers into the queues of sites; `None` if it may not wait there,
/// or no site takes it.
pub fn place_in_queues_instead(
    request: &PlacementRequest,
    context: &mut PlacementContext<'_>,
) -> Option<PlacementPlan> {
    let may = request.acquisition().mode == AcquisitionMode::Auto && context.grid.has_queues();
    context.remaining.begin_request();
    may.then(|| place_in_queues(request, context).ok())
        .flatten()
}

/// Places a request in queues. It takes nothing that is idle, so the context loses only the room of
/// its input.
fn place_in_queues(
    request: &PlacementRequest,
    context: &mut PlacementContext<'_>,
) -> Result<PlacementPlan, PlacementRefusal> {
    let grid = context.grid.with_queues_as_idle();
    let mut remaining = RemainingResources::of_grid(&grid);
    let mut plan = place_by_policy(
        request,
        &mut PlacementContext {
            grid: &grid,
            remaining: &mut remaining,
            history: context.history,
            observer: context.observer,
        },
    )?;
    for placement in &mut plan.placements {
        placement.acquisition = Acquisition::Queue(request.acquisition().limits);
        if let Some(site) = context.grid.index_of(&placement.site) {
            let contents = placement.sources.iter().map(|source| source.content);
            context.remaining.add_staged(site, contents);
        }
    }
    Ok(plan)
}

impl PlacementContext<'_> {
    /// Returns the same context with another observer, if anybody observes.
    fn observing_context<'b>(
        &'b mut self,
        listens: bool,
        recorder: &'b mut VerdictRecorder,
        silent: &'b mut SilentObserver,
    ) -> PlacementContext<'b> {
        let observer: &mut dyn VerdictObserver = if listens { recorder } else { silent };
        PlacementContext {
            grid: self.grid,
            remaining: self.remaining,
            history: self.history,
            observer,
        }
    }

    /// Reports the recorded verdicts and bids to the observer, and returns the outcome.
    fn report_verdicts<T>(&mut self, recorded: VerdictRecorder, outcome: T) -> T {
        recorded
            .verdicts
            .into_iter()
            .for_each(|verdict| self.observer.record_verdict(verdict));
        if !recorded.bids.is_empty() {
            self.observer.record_bids(recorded.bids);
        }
        outcome
    }
}

impl GridSnapshot {
    /// Returns true if components may wait in the queue of any site.
    pub(super) fn has_queues(&self) -> bool {
        self.sites().iter().any(GridSite::has_queue)
    }

    /// Returns the sites as they are for work that may wait in their queues.
    fn with_queues_as_idle(&self) -> Self {
        self.with_sites(
            self.sites()
                .iter()
                .map(GridSite::with_queue_as_idle)
                .collect(),
        )
    }
}

impl GridSite {
    fn has_queue(&self) -> bool {
        self.shape.as_ref().is_some_and(|shape| shape.queues)
    }

    /// Returns the site with everything that is not ours counted as idle.
    fn with_queue_as_idle(&self) -> Self {
        let mut site = self.clone();
        site.acceptance = match self.acceptance {
            PlacementAcceptance::Open if !self.has_queue() => {
                PlacementAcceptance::Closed(PlacementHindrance::NoQueue)
            }
            PlacementAcceptance::Closed(PlacementHindrance::QueueOnly) => PlacementAcceptance::Open,
            other => other,
        };
        // Waiting is the point here.
        site.waits = None;
        if let (Some(shape), Some(belief)) = (&self.shape, &self.idle) {
            let mut idle = shape.total.clone();
            idle.subtract(&self.ours);
            site.ebbs = Arc::default();
            site.idle = Some(LoadReport {
                idle,
                asked_at: belief.asked_at,
            });
            let partitions = shape.lanes.iter().flat_map(|lanes| &lanes.partitions);
            let all = partitions.map(|(name, partition)| (name.clone(), partition.total.clone()));
            site.idle_in = Arc::new(all.collect());
        }
        site
    }
}
