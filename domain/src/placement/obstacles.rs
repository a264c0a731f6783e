//! Everything that can keep a component from a site, in one place.

use std::ops::ControlFlow::{self, Continue};
use std::sync::Arc;

use super::grid::{GridSite, PlacementHindrance, SiteProperties};
use super::placement_request::ComponentRequest;
use super::reason::RefusalReason;
use super::remaining::RemainingResources;
use super::site_quota::QuotaBasis;
use super::site_search::PlacementSearch;
use crate::acquisition::{PartitionAccount, PartitionDemand, PartitionWait, SiteExperience};
use crate::placed::ReasonCode;
use crate::resources::{GFLOPS, Resources};
use crate::units::{Bytes, DurationMs};

/// The callback for an obstacle: its code, how much is missing (0 where that is no number), and how
/// to describe it. `Break` ends the search for more. Reasons are built only on request, so that
/// choosing allocates nothing.
pub(super) type ObstacleSink<'r> =
    dyn FnMut(ReasonCode, u64, &dyn Fn() -> RefusalReason) -> ControlFlow<()> + 'r;

pub(super) type RememberedObstacle = (ReasonCode, u64, RefusalReason);

/// Returns the worst obstacle that `look` reports; of equally bad ones the first.
pub(super) fn find_worst_obstacle(
    look: impl FnOnce(&mut ObstacleSink<'_>) -> ControlFlow<()>,
) -> Option<RememberedObstacle> {
    let mut worst: Option<RememberedObstacle> = None;
    let _ = look(&mut |code, gap, reason| {
        if worst.as_ref().is_none_or(|(known, ..)| code > *known) {
            worst = Some((code, gap, reason()));
        }
        Continue(())
    });
    worst
}

impl PlacementSearch<'_> {
    /// Reports everything that keeps the component from the site, the worst kinds first.
    pub(super) fn report_obstacles(
        &self,
        component: usize,
        index: usize,
        remaining: &RemainingResources,
        report: &mut ObstacleSink<'_>,
    ) -> ControlFlow<()> {
        let request = self.component(component);
        let site = &self.grid.sites()[index];
        if let Some(named) = request.site.as_ref().filter(|named| **named != site.name) {
            report(ReasonCode::NotTheNamedSite, 0, &|| {
                RefusalReason::NotTheNamedSite(named.clone())
            })?;
        }
        report_misfits(request, self.whole.wall_time(), site, report)?;
        if let Some(hindrance) = closing_hindrance(site, self.tries_out) {
            report(hindrance.into(), 0, &|| RefusalReason::Closed(hindrance))?;
        }
        // Most requests have no input.
        if let Some(shape) = site
            .shape
            .as_ref()
            .filter(|_| !self.request.contents().is_empty())
        {
            for content in self.contents_at(component, index, shape) {
                if let Err(reason) = self.nearest_replica(content, index) {
                    report(reason.code(), 0, &|| reason.clone())?;
                }
            }
        }
        if let Some(reason) = self.pair_obstacle(component, index) {
            report(reason.code(), 0, &|| reason.clone())?;
        }
        if let Some(ban) = site.ban_of_owner(self.whole.owner()) {
            report(ReasonCode::OwnerKeptOff, 0, &|| {
                RefusalReason::OwnerKeptOff(ban.clone())
            })?;
        }
        if self.avoids.get(component) == Some(&true) && request.avoid.contains(&site.name) {
            report(ReasonCode::Avoided, 0, &|| RefusalReason::Avoided)?;
        }
        self.report_staging(component, index, remaining, report)?;
        if !remaining.has_component_room(index) {
            report(ReasonCode::SiteFull, 0, &|| RefusalReason::SiteFull)?;
        }
        if site.shape.is_some() && site.idle.is_some() {
            let need = &request.resources;
            match site.pool_of(request) {
                Some(pool) => self.report_pool_shortages(&pool, need, index, remaining, report)?,
                None => self.report_shortages(need, index, remaining, report)?,
            }
        }
        if let Some((lane, wait)) = self.current_wait(request, site) {
            report(ReasonCode::Waited, 0, &|| RefusalReason::Waited {
                lane: lane.clone(),
                wait: wait.clone(),
            })?;
        }
        Continue(())
    }

    /// Returns a recent wait because of which this is not claimed now: idle processors need not be
    /// ours.
    fn current_wait<'s>(
        &self,
        component: &ComponentRequest,
        site: &'s GridSite,
    ) -> Option<(PartitionAccount, &'s PartitionWait)> {
        let (waits, lane, time) = self.partition_demand(component, site)?;
        let ask = PartitionDemand {
            processors: component.resources.processors,
            time,
        };
        let wait = waits.blocking_wait(&lane, &ask)?;
        Some((lane, wait))
    }

    /// Returns the most processors that a component may have at a site, given recent waits.
    pub(super) fn max_processors_without_wait(&self, component: usize, site: usize) -> u32 {
        let component = self.component(component);
        let site = &self.grid.sites()[site];
        let asked = self.partition_demand(component, site);
        let most = asked.and_then(|(waits, lane, time)| waits.max_processors(&lane, time));
        most.unwrap_or(u32::MAX)
    }

    /// Returns the waits known at a site, the partition that the component asks for, and its time.
    fn partition_demand<'s>(
        &self,
        component: &ComponentRequest,
        site: &'s GridSite,
    ) -> Option<(&'s SiteExperience, PartitionAccount, DurationMs)> {
        let waits = site.waits.as_deref()?;
        let shape = site.shape.as_ref()?;
        let lane =
            shape
                .lanes
                .as_ref()?
                .own
                .resolve_at(&component.lanes, &site.name, &shape.labels);
        Some((waits, lane, self.whole.wall_time()?))
    }

    /// Reports missing room for staging. All of its input is copied to the site's store, also what
    /// lies at the site already; copies staged there for others serve it as well.
    fn report_staging(
        &self,
        component: usize,
        index: usize,
        remaining: &RemainingResources,
        report: &mut ObstacleSink<'_>,
    ) -> ControlFlow<()> {
        let site = &self.grid.sites()[index];
        let (Some(left), Some(shape)) = (site.staging_left, &site.shape) else {
            return Continue(());
        };
        let contents = self.contents_at(component, index, shape);
        let (needed, taken) =
            remaining.staging_bytes(index, contents, |c| self.grid.is_staged(&site.name, c));
        let left = Bytes(left.0.saturating_sub(taken.0));
        if needed <= left {
            return Continue(());
        }
        report(ReasonCode::StagingFull, needed.0 - left.0, &|| {
            RefusalReason::StagingFull { needed, left }
        })
    }

    fn report_shortages(
        &self,
        need: &Resources,
        site: usize,
        remaining: &RemainingResources,
        report: &mut ObstacleSink<'_>,
    ) -> ControlFlow<()> {
        let left = remaining.processors()[site];
        if left < need.processors {
            let short = MissingResource::new(
                ResourceKind::Processors,
                need.processors.into(),
                left.into(),
            );
            self.report_shortage(&short.with_kept(remaining.kept_back_at(site)), site, report)?;
        }
        for (name, &needed) in &need.others {
            let left = remaining.other_resource_left(site, name);
            if left < needed {
                let short = MissingResource::new(ResourceKind::Other(name), needed, left);
                self.report_shortage(&short.with_kept(remaining.kept_back_at(site)), site, report)?;
            }
        }
        Continue(())
    }

    /// Reports a resource that is short, because of the site's load, our quota, or both.
    fn report_shortage(
        &self,
        short: &MissingResource<'_>,
        index: usize,
        report: &mut ObstacleSink<'_>,
    ) -> ControlFlow<()> {
        let MissingResource {
            kind, needed, left, ..
        } = *short;
        let site = &self.grid.sites()[index];
        let idle = site
            .idle
            .as_ref()
            .map_or(0, |belief| kind.count(&belief.idle));
        let total = site
            .shape
            .as_ref()
            .map_or(0, |shape| kind.count(&shape.total));
        // Resources that jobs of this scan took, beside what was pending before it.
        let taken = kind
            .count(&self.grid.usable_by_site()[index])
            .saturating_sub(left);
        let promised = kind.count(&site.pending).saturating_add(taken);
        let by_quota = match site.quota.basis {
            QuotaBasis::Level => left,
            QuotaBasis::Share => site
                .quota
                .usable_amount(total, u64::MAX, kind.count(&site.ours))
                .saturating_sub(promised),
        };
        // A quota that is always too small was reported above.
        if site.quota.is_bounding()
            && by_quota < needed
            && needed <= site.quota.share_of_total(total)
        {
            report(ReasonCode::QuotaReached, needed - by_quota, &|| {
                RefusalReason::QuotaReached {
                    resource: kind.name(),
                    needed,
                    usable: by_quota,
                }
            })?;
        }
        self.report_reserved(short, promised, index, report)?;
        let by_load = idle.saturating_sub(promised);
        if by_load < needed {
            let missing = promised.saturating_add(needed).saturating_sub(idle);
            let made_up = self.made_up.get(index);
            let made_up = made_up.map_or(0, |resources| kind.count(resources));
            report(ReasonCode::NotEnoughIdle, missing, &|| {
                RefusalReason::NotEnoughIdle {
                    resource: kind.name(),
                    needed,
                    idle: idle.saturating_sub(made_up),
                    made_up,
                    pending: promised,
                    missing,
                }
            })?;
        }
        Continue(())
    }
}

impl PlacementSearch<'_> {
    /// Reports resources that are idle now, but not for as long as the component needs them.
    fn report_reserved(
        &self,
        short: &MissingResource<'_>,
        promised: u64,
        index: usize,
        report: &mut ObstacleSink<'_>,
    ) -> ControlFlow<()> {
        let MissingResource {
            kind,
            needed,
            left,
            kept,
        } = *short;
        let site = &self.grid.sites()[index];
        let idle = site
            .idle
            .as_ref()
            .map_or(0, |belief| kind.count(&belief.idle));
        let mut met = site
            .ebbs
            .iter()
            .filter(|ebb| ebb.after < self.request.holding_time());
        let enough = idle.min(promised.saturating_add(needed));
        let first = met.clone().find(|ebb| kind.count(&ebb.left) < enough);
        // The obstacle holds even where nothing was left to be kept: it would appear once all else
        // is lifted.
        let Some(ebb) = first.or_else(|| met.next_back().filter(|_| kept > 0)) else {
            return Continue(());
        };
        report(
            ReasonCode::Reserved,
            (needed + kept).saturating_sub(left),
            &|| RefusalReason::Reserved {
                resource: kind.name(),
                needed,
                lasts: self.request.holding_time(),
                from: ebb.at,
                after: ebb.after,
                reserved: idle.saturating_sub(kind.count(&ebb.left)),
                idle,
                pending: promised,
            },
        )
    }
}

/// Reports why the site could not hold the component even if it were empty and open. A site that
/// has not answered yet is not called too small. `time` is the wall time, where sites limit it.
pub(super) fn report_misfits(
    component: &ComponentRequest,
    time: Option<DurationMs>,
    site: &GridSite,
    report: &mut ObstacleSink<'_>,
) -> ControlFlow<()> {
    // This holds for any site.
    if let Some(keys) = component.barred.get(&site.name) {
        report(ReasonCode::ForOtherKeys, 0, &|| {
            RefusalReason::ForOtherKeys(keys.clone())
        })?;
    }
    if let Some(words) = component.unfit_for.get(&site.name) {
        report(ReasonCode::RefusedByBatchSystem, 0, &|| {
            RefusalReason::RefusedByBatchSystem(words.clone())
        })?;
    }
    let Some(shape) = &site.shape else {
        return Continue(());
    };
    for constraint in component
        .constraints
        .iter()
        .filter(|c| !c.matches_labels(&shape.labels))
    {
        report(ReasonCode::LabelMismatch, 0, &|| {
            RefusalReason::LabelMismatch(constraint.clone())
        })?;
    }
    let need = &component.resources;
    let pool = site.pool_of(component);
    let has = match &pool {
        Some(pool) => SiteCapacity {
            largest: &pool.total,
            total: &pool.total,
        },
        None => SiteCapacity {
            largest: &shape.largest_component,
            total: &shape.total,
        },
    };
    report_too_small(
        ResourceKind::Processors,
        need.processors.into(),
        site,
        has,
        report,
    )?;
    for (name, &needed) in &need.others {
        report_too_small(ResourceKind::Other(name), needed, site, has, report)?;
    }
    report_too_long(component, time, site, shape, report)?;
    report_too_slow(component, site, report)
}

/// Reports a partition whose limit is below the component's time.
fn report_too_long(
    component: &ComponentRequest,
    time: Option<DurationMs>,
    site: &GridSite,
    shape: &SiteProperties,
    report: &mut ObstacleSink<'_>,
) -> ControlFlow<()> {
    let (Some(time), Some(lanes)) = (time, &shape.lanes) else {
        return Continue(());
    };
    let lane = lanes
        .own
        .resolve_at(&component.lanes, &site.name, &shape.labels);
    match lanes
        .longest_time_in(&lane)
        .filter(|longest| *longest < time)
    {
        Some(longest) => report(ReasonCode::TooLong, 0, &|| RefusalReason::TooLong {
            lane: lane.clone(),
            time,
            longest,
        }),
        None => Continue(()),
    }
}

/// Reports processors that together lack the computing power that the component asks for.
fn report_too_slow(
    component: &ComponentRequest,
    site: &GridSite,
    report: &mut ObstacleSink<'_>,
) -> ControlFlow<()> {
    let needed = component.gflops;
    if needed == 0 {
        return Continue(());
    }
    let Some(each) = site.power_per_processor else {
        return report(ReasonCode::NoGflops, 0, &|| RefusalReason::NoGflops {
            needed,
        });
    };
    let largest = u64::from(component.resources.processors).saturating_mul(each.0) / 1_000;
    if needed > largest {
        report(ReasonCode::TooSmall, needed - largest, &|| {
            RefusalReason::TooSmall {
                resource: GFLOPS.into(),
                needed,
                largest,
            }
        })?;
    }
    Continue(())
}

/// The capacity of a site, or of the partition that a component asks for, when it is empty.
#[derive(Clone, Copy)]
struct SiteCapacity<'a> {
    /// The most for one component.
    largest: &'a Resources,
    total: &'a Resources,
}

fn report_too_small(
    kind: ResourceKind<'_>,
    needed: u64,
    site: &GridSite,
    has: SiteCapacity<'_>,
    report: &mut ObstacleSink<'_>,
) -> ControlFlow<()> {
    let largest = kind.count(has.largest);
    if needed > largest {
        report(ReasonCode::TooSmall, needed - largest, &|| {
            RefusalReason::TooSmall {
                resource: kind.name(),
                needed,
                largest,
            }
        })?;
    }
    if !site.quota.is_bounding() {
        return Continue(());
    }
    let quota = site.quota.share_of_total(kind.count(has.total));
    if needed > quota {
        report(ReasonCode::QuotaTooSmall, needed - quota, &|| {
            RefusalReason::QuotaTooSmall {
                resource: kind.name(),
                needed,
                quota,
            }
        })?;
    }
    Continue(())
}

/// Returns what closes the site to the job; a site of unknown shape or load is closed.
fn closing_hindrance(site: &GridSite, may_probe: bool) -> Option<PlacementHindrance> {
    site.acceptance.hindrance(may_probe).or_else(|| {
        (site.shape.is_none() || site.idle.is_none()).then_some(PlacementHindrance::Unknown)
    })
}

/// A resource that is short.
#[derive(Clone, Copy)]
struct MissingResource<'a> {
    kind: ResourceKind<'a>,
    needed: u64,
    /// The amount left now.
    left: u64,
    /// The amount of that which is reserved for others before the component would end.
    kept: u64,
}

impl<'a> MissingResource<'a> {
    fn new(kind: ResourceKind<'a>, needed: u64, left: u64) -> Self {
        Self {
            kind,
            needed,
            left,
            kept: 0,
        }
    }

    /// Adds resources that are there, but kept for others.
    fn with_kept(self, kept: Option<&Resources>) -> Self {
        let kept = kept.map_or(0, |kept| self.kind.count(kept));
        Self {
            left: self.left.saturating_add(kept),
            kept,
            ..self
        }
    }
}

/// A resource of the vector; compares without names where possible.
#[derive(Clone, Copy)]
enum ResourceKind<'a> {
    Processors,
    Other(&'a str),
}

impl ResourceKind<'_> {
    fn count(self, resources: &Resources) -> u64 {
        match self {
            ResourceKind::Processors => resources.processors.into(),
            ResourceKind::Other(name) => resources.others.get(name).copied().unwrap_or(0),
        }
    }

    fn name(self) -> Arc<str> {
        match self {
            ResourceKind::Processors => "processors".into(),
            ResourceKind::Other(name) => name.into(),
        }
    }
}
