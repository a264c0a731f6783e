//! Withholding: freed processors are withheld for the oldest job of the highest class, so that
//! a large one is not starved by small ones that always fit (bounded in share and time).

use super::scan::Scan;
use super::waiting::Condition;
use super::{PlacementQueues, QueueParameters};
use crate::ids::{JobId, SiteName};
use crate::job::spec::Priority;
use crate::placement::search::PlacementSearch;
use crate::placement::{self, GridSnapshot, PlacementContext, PlacementRequest, Remaining, Silent};
use crate::planted::{Bug, bug};
use crate::units::{DurationMs, PerMillion, Timestamp};

/// Processors that only one job may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StarvationGuard {
    /// For whom.
    pub job: JobId,
    /// How many at which site.
    pub withheld: Vec<(SiteName, u32)>,
    /// They are everybody's again from then on, for as long as they were withheld.
    pub until: Timestamp,
}

/// When and how much is withheld.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StarvationGuardParameters {
    /// A super-high job that has waited this long is guarded; `None`: nobody ever does.
    pub after: Option<DurationMs>,
    /// The part of a site that may be withheld.
    pub share: PerMillion,
    /// For how long; then nothing is withheld for as long, and so on in turn.
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
    /// Until when a job that has waited since `entered` is guarded, if it is at `now`.
    fn hoards_until(&self, entered: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let begins = entered + self.after?;
        let time = self.time.0.max(1);
        let past = now.0.checked_sub(begins.0)?;
        let turn = if bug(Bug::HoardForEver) {
            past / time / 2 * 2
        } else {
            past / time
        };
        turn.is_multiple_of(2)
            .then(|| begins + DurationMs((turn + 1).saturating_mul(time)))
    }
}

impl PlacementQueues {
    /// Who is guarded, if anybody: the oldest super-high job, while it can be tried.
    fn hoarder(&self, parameters: &QueueParameters, now: Timestamp) -> Option<(JobId, Timestamp)> {
        let (entered, job) = self.next_in_class(Priority::SuperHigh, None)?;
        let until = parameters.starvation_guard.hoards_until(entered, now)?;
        let ready = self.condition(job) == Some(Condition::Ready);
        ready.then_some((job, until))
    }

    /// Withholds what is nearest to a plan for the hoarder, if there is one and it has none.
    pub(super) fn starvation_guard(&mut self, scan: &mut Scan) -> Option<StarvationGuard> {
        let (job, until) = self.hoarder(&self.parameters, scan.now)?;
        let (shape, request) = self.request_of(job)?;
        scan.trying = Some(job);
        let mut trial = scan.remaining.clone();
        let mut context = PlacementContext {
            grid: &scan.grid,
            remaining: &mut trial,
            history: &mut self.history.clone(),
            observer: &mut Silent,
        };
        let outcome = placement::place(&request, &mut context);
        scan.trying = None;
        // It has its turn like everybody else; what it lacks is not told of a smaller grid.
        self.refused(scan, shape, outcome.err()?);
        let share = if bug(Bug::HoardWhole) {
            PerMillion::ONE
        } else {
            self.parameters.starvation_guard.share
        };
        let withheld = withhold(&request, &scan.grid, share, &mut scan.remaining);
        (!withheld.is_empty()).then_some(StarvationGuard {
            job,
            withheld,
            until,
        })
    }
}

/// Takes for each component, the largest first, what is left where most is left of the
/// sites that could hold it when empty, but no more of a site than the share.
fn withhold(
    request: &PlacementRequest,
    grid: &GridSnapshot,
    share: PerMillion,
    remaining: &mut Remaining,
) -> Vec<(SiteName, u32)> {
    let search = PlacementSearch::new(request, grid);
    let total = |site: usize| {
        grid.sites()[site]
            .shape
            .as_ref()
            .map_or(0, |s| s.total.processors)
    };
    let bound = |site: usize| (u64::from(total(site)) * u64::from(share.0) / 1_000_000) as u32;
    let mut taken = vec![0u32; grid.sites().len()];
    for &component in request.by_size() {
        let component = component as usize;
        let left = |site: usize| remaining.processors()[site].min(bound(site) - taken[site]);
        let sites = (0..grid.sites().len()).filter(|&site| search.could_hold(component, site));
        let most = sites.max_by_key(|&site| (left(site), std::cmp::Reverse(site)));
        let Some(site) = most else { continue };
        let count = left(site).min(search.component(component).resources.processors);
        taken[site] += count;
        remaining.withhold(site, count);
    }
    let named = taken
        .into_iter()
        .enumerate()
        .filter(|(_, count)| *count > 0);
    named
        .map(|(site, count)| (grid.sites()[site].name.clone(), count))
        .collect()
}
