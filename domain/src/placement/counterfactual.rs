//! Suppositions: the grid as it would be if a component that has no site were at the one nearest to
//! taking it, for the verdicts on the components after it. Only explanations use them.

use std::sync::Arc;

use super::grid::{GridSite, GridSnapshot, SiteProperties};
use super::placement_request::ComponentRequest;
use super::reason::{RefusalReason, SiteSuitability};
use super::remaining::RemainingResources;
use super::site_quota::{QuotaBasis, SiteQuota};
use super::site_search::PlacementSearch;
use crate::labels::{LabelConstraint, LabelRule, SiteLabels};
use crate::reservation::IdleDrop;
use crate::resources::Resources;
use crate::units::{Bytes, Mflops, PerMillion};

/// A grid in which a component has its place, and what is left of it.
pub(super) struct SupposedGrid {
    pub(super) grid: GridSnapshot,
    pub(super) remaining: RemainingResources,
    /// Resources that are assumed idle, by site index.
    pub(super) made_up: Vec<Resources>,
}

impl PlacementSearch<'_> {
    /// Supposes the component at the site that its refusal names, with all reasons against it there
    /// lifted, and no more: exactly what it lacks is assumed idle. Files that cannot be brought
    /// there are not lifted: they are reported again for each component that reads them. `None` if
    /// there is no such site, or if it has not answered yet: its capacity is unknown.
    pub(super) fn suppose_placed(
        &self,
        component: usize,
        remaining: &RemainingResources,
    ) -> Option<SupposedGrid> {
        let name = self.nearest_refusal_of(component, remaining).site?;
        let index = self.grid.index_of(&name)?;
        // Resources can be assumed only for the site's own partition.
        if self.grid.sites()[index]
            .pool_of(self.component(component))
            .is_some()
        {
            return None;
        }
        let SiteSuitability::Refused(reasons) =
            self.site_verdict(component, index, remaining).outcome
        else {
            return None;
        };
        let mut remaining = remaining.clone();
        remaining.release_kept_back(index);
        let need = &self.component(component).resources;
        let before = &self.grid.usable_by_site()[index];
        let mut promised = before.clone();
        promised.subtract(&remaining.left_at(index));
        promised.add(&self.grid.sites()[index].pending);
        promised.add(need);
        promised
            .others
            .retain(|name, _| need.others.contains_key(name));
        let mut sites = self.grid.sites().to_vec();
        let lacked = lift_reasons(&mut sites[index], &reasons, &promised)?;
        raise_speed(&mut sites[index], self.component(component));
        let grid = self.grid.with_sites(sites);
        remaining.update_site(index, before, &grid, self.request.holding_time());
        if reasons.contains(&RefusalReason::SiteFull) {
            remaining.add_submission_room(index);
        }
        let mut made_up = self.made_up.clone();
        made_up.resize_with(grid.sites().len(), Resources::default);
        made_up[index].add(&lacked);
        let fits = remaining.covers_component(index, need);
        fits.then(|| self.take_component(component, index, &mut remaining));
        fits.then_some(SupposedGrid {
            grid,
            remaining,
            made_up,
        })
    }

    /// Returns the same search on the supposed sites.
    pub(super) fn search_supposed_grid<'s>(
        &'s self,
        supposed: &'s SupposedGrid,
    ) -> PlacementSearch<'s> {
        let mut search = self.search_on_grid(&supposed.grid);
        search.history = self.history;
        search.made_up.clone_from(&supposed.made_up);
        search
    }
}

/// Lifts these reasons, and returns how much more is idle; `promised` is what the quota must leave
/// room for.
fn lift_reasons(
    site: &mut GridSite,
    reasons: &[RefusalReason],
    promised: &Resources,
) -> Option<Resources> {
    if reasons
        .iter()
        .any(|reason| matches!(reason, RefusalReason::Reserved { .. }))
    {
        site.ebbs = Arc::default();
    }
    let shape = Arc::make_mut(site.shape.as_mut()?);
    let idle = &mut site.idle.as_mut()?.idle;
    let mut lacked = Resources::default();
    let mut is_quota_short = false;
    for reason in reasons {
        match reason {
            RefusalReason::NotEnoughIdle { resource, missing, .. } => {
                lacked.add(&single_resource(resource, *missing));
            }
            RefusalReason::QuotaReached { .. } | RefusalReason::QuotaTooSmall { .. } => is_quota_short = true,
            RefusalReason::SiteFull => site.room = site.room.map(|room| room.saturating_add(1)),
            RefusalReason::Waited { .. } => site.waits = None,
            RefusalReason::StagingFull { needed, left } => {
                let more = needed.0.saturating_sub(left.0);
                site.staging_left = site.staging_left.map(|bytes| bytes + Bytes(more));
            }
            RefusalReason::Closed(_) => site.acceptance = super::PlacementAcceptance::Open,
            RefusalReason::OwnerKeptOff(_) => site.bans = Arc::default(),
            RefusalReason::TooSmall { resource, needed, largest } => {
                let more = single_resource(resource, needed.saturating_sub(*largest));
                shape.largest_component.add(&more);
            }
            RefusalReason::TooLong { time, .. } => {
                let lanes = shape.lanes.iter_mut();
                for partition in lanes.flat_map(|lanes| lanes.partitions.values_mut()) {
                    partition.longest = partition.longest.map(|longest| longest.max(*time));
                }
            }
            RefusalReason::LabelMismatch(constraint) => satisfy_constraint(&mut shape.labels, constraint),
            // Lifted above.
            RefusalReason::Reserved { .. }
            // These concern the component, its policy, or its files.
            | RefusalReason::Avoided
            | RefusalReason::NoSplit { .. }
            | RefusalReason::NotInHistory
            | RefusalReason::NoGflops { .. }
            | RefusalReason::NoBandwidth { .. }
            | RefusalReason::ReplicaUnreachable { .. }
            | RefusalReason::NoReplica { .. }
            | RefusalReason::RefusedByBatchSystem(_)
            | RefusalReason::ForOtherKeys(_)
            | RefusalReason::NoSuchSite(_)
            | RefusalReason::NotTheNamedSite(_)
            | RefusalReason::NoSites
            | RefusalReason::PolicyUnsuited { .. }
            | RefusalReason::PolicyUnknown(_) => {}
        }
    }
    idle.add(&lacked);
    site.ebbs = site
        .ebbs
        .iter()
        .map(|ebb: &IdleDrop| {
            let mut left = ebb.left.clone();
            left.add(&lacked);
            IdleDrop {
                left,
                ..ebb.clone()
            }
        })
        .collect();
    if is_quota_short {
        site.quota = least_quota(site.quota, shape, idle, &site.ours, promised);
    }
    Some(lacked)
}

/// Raises the speed of its processors to what the component asks for.
fn raise_speed(site: &mut GridSite, component: &ComponentRequest) {
    if component.gflops > 0 {
        let processors = u64::from(component.resources.processors.max(1));
        let least = Mflops(component.gflops.saturating_mul(1_000).div_ceil(processors));
        site.power_per_processor = site.power_per_processor.max(Some(least));
    }
}

fn single_resource(resource: &str, count: u64) -> Resources {
    match resource {
        "processors" => Resources::processors(u32::try_from(count).unwrap_or(u32::MAX)),
        other => Resources {
            processors: 0,
            others: [(other.into(), count)].into(),
        },
    }
}

fn satisfy_constraint(labels: &mut SiteLabels, constraint: &LabelConstraint) {
    let values = labels.entry(constraint.key.clone()).or_default();
    match &constraint.rule {
        LabelRule::Is(value) => drop(values.insert(value.clone())),
        LabelRule::OneOf(accepted) => values.extend(accepted.first().cloned()),
        LabelRule::IsNot(value) => drop(values.remove(value)),
        LabelRule::AtLeast(least) => drop(values.insert(least.to_string().into())),
    }
}

/// Returns the least quota that leaves room for what is deducted; no quota at all if the whole site
/// would not.
fn least_quota(
    quota: SiteQuota,
    shape: &SiteProperties,
    idle: &Resources,
    ours: &Resources,
    promised: &Resources,
) -> SiteQuota {
    let others = promised
        .others
        .iter()
        .map(|(name, count)| (Some(&**name), *count));
    let all = others.chain([(None, u64::from(promised.processors))]);
    let mut share = quota.share;
    for (name, promised) in all {
        let total = resource_count(&shape.total, name);
        let taken = match quota.basis {
            QuotaBasis::Level => total.saturating_sub(resource_count(idle, name)),
            QuotaBasis::Share => resource_count(ours, name),
        };
        let held = taken.saturating_add(promised);
        if held > total {
            return SiteQuota::NONE;
        }
        let least = (u128::from(held) * 1_000_000).div_ceil(u128::from(total.max(1)));
        share = share.max(PerMillion(
            u32::try_from(least).unwrap_or(PerMillion::ONE.0),
        ));
    }
    SiteQuota { share, ..quota }
}

/// The amount of a resource by name, or of processors.
fn resource_count(resources: &Resources, name: Option<&str>) -> u64 {
    match name {
        Some(name) => resources.other(name),
        None => resources.processors.into(),
    }
}
