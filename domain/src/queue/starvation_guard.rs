//! Withholding: freed processors are withheld for the oldest job of the highest class. Small jobs,
//! which always fit, would starve a large one otherwise. Bounded in share and time.

use super::scan::Scan;
use super::waiting_job::WaitingCondition;
use super::{PlacementQueues, QueueParameters};
use crate::ids::{JobId, SiteName};
use crate::job::spec::Priority;
use crate::placement::site_search::PlacementSearch;
use crate::placement::{
    self, GridSnapshot, PlacementContext, PlacementRequest, RemainingResources, SilentObserver,
};
use crate::units::{DurationMs, PerMillion, Timestamp};

/// Processors that only one job may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StarvationGuard {
    /// The job that they are withheld for.
    pub job: JobId,
    /// Processors withheld at each site.
    pub withheld: Vec<(SiteName, u32)>,
    /// The end of the withholding. Afterwards everybody may use them for as long as they were
    /// withheld.
    pub until: Timestamp,
}

/// Says when and how much is withheld.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StarvationGuardParameters {
    /// Processors are withheld for a super-high job that has waited this long. `None`: never.
    pub after: Option<DurationMs>,
    /// The share of a site that may be withheld.
    pub share: PerMillion,
    /// Length of one withholding. Then nothing is withheld for as long, and so on in turn.
    pub time: DurationMs,
}

impl Default for StarvationGuardParameters {
    fn default() -> Self {
        Self {
            after: Some(DurationMs::from_secs(600)),
            share: PerMillion(500_000),
            time: DurationMs::from_secs(1_800),
        }
    }
}

impl StarvationGuardParameters {
    /// Returns the end of the withholding that is on at `now` for a job that waits since `entered`.
    fn withholds_until(&self, entered: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let begins = entered + self.after?;
        let time = self.time.0.max(1);
        let past = now.0.checked_sub(begins.0)?;
        let turn = past / time;
        turn.is_multiple_of(2)
            .then(|| begins + DurationMs((turn + 1).saturating_mul(time)))
    }
}

impl PlacementQueues {
    /// Finds the job to withhold for: the oldest super-high one, while it can be tried.
    fn job_to_withhold_for(
        &self,
        parameters: &QueueParameters,
        now: Timestamp,
    ) -> Option<(JobId, Timestamp)> {
        let (entered, job) = self.next_in_class(Priority::SuperHigh, None)?;
        let until = parameters.starvation_guard.withholds_until(entered, now)?;
        let ready = self.condition_of(job) == Some(WaitingCondition::Ready);
        ready.then_some((job, until))
    }

    /// Withholds what comes nearest to a plan for that job, if there is one and it has no plan.
    pub(super) fn begin_withholding(&mut self, scan: &mut Scan) -> Option<StarvationGuard> {
        let (job, until) = self.job_to_withhold_for(&self.parameters, scan.now)?;
        let (shape, request) = self.request_of(job)?;
        scan.trying = Some(job);
        let mut trial = scan.remaining.clone();
        let mut context = PlacementContext {
            grid: &scan.grid,
            remaining: &mut trial,
            history: &mut self.history.clone(),
            observer: &mut SilentObserver,
        };
        let outcome = placement::try_to_place(&request, &mut context);
        scan.trying = None;
        // It takes its turn as every other job does. The refusal stored is the one on the whole
        // grid.
        self.note_refusal(scan, shape, outcome.err()?);
        let share = self.parameters.starvation_guard.share;
        let withheld = withhold_processors(&request, &scan.grid, share, &mut scan.remaining);
        (!withheld.is_empty()).then_some(StarvationGuard {
            job,
            withheld,
            until,
        })
    }
}

/// For each component, the largest first, takes processors from the site with most left, among the
/// sites that could hold it when empty, but never more of a site than the share.
fn withhold_processors(
    request: &PlacementRequest,
    grid: &GridSnapshot,
    share: PerMillion,
    remaining: &mut RemainingResources,
) -> Vec<(SiteName, u32)> {
    let search = PlacementSearch::new(request, grid);
    let mut taken = vec![0u32; grid.sites().len()];
    for &component in request.components_by_size() {
        let component = component as usize;
        let left = |site: usize| {
            let shape = grid.sites()[site].shape.as_ref();
            let total = u64::from(shape.map_or(0, |s| s.total.processors));
            let bound = (total * u64::from(share.0) / 1_000_000) as u32;
            remaining.processors()[site].min(bound - taken[site])
        };
        let sites = (0..grid.sites().len()).filter(|&site| search.could_hold(component, site));
        let most = sites.max_by_key(|&site| (left(site), std::cmp::Reverse(site)));
        let Some(site) = most else { continue };
        let count = left(site).min(search.component(component).resources.processors);
        taken[site] += count;
        remaining.withhold_from_all(site, count);
    }
    let named = taken
        .into_iter()
        .enumerate()
        .filter(|(_, count)| *count > 0);
    named
        .map(|(site, count)| (grid.sites()[site].name.clone(), count))
        .collect()
}
