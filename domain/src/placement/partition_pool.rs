//! Pools: partitions other than the site's own, as a component finds them.

use std::borrow::Cow;
use std::ops::ControlFlow::{self, Continue};
use std::sync::Arc;

use super::grid::GridSite;
use super::obstacles::ObstacleSink;
use super::placement_request::ComponentRequest;
use super::reason::RefusalReason;
use super::remaining::RemainingResources;
use super::site_search::PlacementSearch;
use crate::acquisition::max_of_partitions;
use crate::placed::ReasonCode;
use crate::resources::Resources;

/// A partition of a site, or several, other than the site's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionPool {
    /// The name as the component gives it.
    pub name: Arc<str>,
    /// All resources that may be used, in use or not.
    pub total: Resources,
    /// The reported idle resources.
    pub idle: Resources,
}

impl GridSite {
    /// Returns the pool that a component asks for at this site; `None`: the site's own partition.
    pub fn pool_of(&self, component: &ComponentRequest) -> Option<PartitionPool> {
        // Most components name no partition.
        if component.lanes.is_empty() {
            return None;
        }
        let shape = self.shape.as_ref()?;
        let lanes = shape.lanes.as_ref()?;
        let lane = lanes
            .own
            .resolve_at(&component.lanes, &self.name, &shape.labels);
        let name = lanes.foreign_partition(&lane)?.clone();
        let idle = max_of_partitions(&name, |name| self.idle_in.get(name));
        Some(PartitionPool {
            total: lanes.usable_total(&name),
            idle,
            name,
        })
    }
}

impl PlacementSearch<'_> {
    /// Returns what is left of a pool. Deductions for our jobs are not known by partition, so all
    /// of them count: soon the site counts them itself.
    pub(super) fn left_in_pool(
        &self,
        pool: &PartitionPool,
        index: usize,
        remaining: &RemainingResources,
    ) -> Resources {
        let site = &self.grid.sites()[index];
        let mut left = site
            .quota
            .usable_resources(&pool.total, &pool.idle, &site.ours);
        left.subtract(&site.pending);
        if let Some(taken) = remaining.taken_of_partition(index, &pool.name) {
            left.subtract(taken);
        }
        left
    }

    /// Returns the processors that are left for a component, by site index.
    pub(super) fn processors_left<'r>(
        &self,
        component: usize,
        remaining: &'r RemainingResources,
    ) -> Cow<'r, [u32]> {
        let component = self.component(component);
        if component.lanes.is_empty() {
            return Cow::Borrowed(remaining.processors());
        }
        remaining
            .processors()
            .iter()
            .enumerate()
            .map(|(index, &own): (usize, &u32)| {
                let pool = self.grid.sites()[index].pool_of(component);
                pool.map_or(own, |pool| {
                    self.left_in_pool(&pool, index, remaining).processors
                })
            })
            .collect()
    }

    /// Reports the resources that a pool lacks for a component.
    pub(super) fn report_pool_shortages(
        &self,
        pool: &PartitionPool,
        need: &Resources,
        index: usize,
        remaining: &RemainingResources,
        report: &mut ObstacleSink<'_>,
    ) -> ControlFlow<()> {
        let left = self.left_in_pool(pool, index, remaining);
        let others = need
            .others
            .iter()
            .map(|(name, needed)| (name.clone(), *needed));
        let all = std::iter::once(("processors".into(), u64::from(need.processors))).chain(others);
        for (resource, needed) in all {
            if count_resource(&left, &resource) >= needed {
                continue;
            }
            let mut promised = self.grid.sites()[index].pending.clone();
            remaining
                .taken_of_partition(index, &pool.name)
                .into_iter()
                .for_each(|taken| promised.add(taken));
            let idle = count_resource(&pool.idle, &resource);
            let pending = count_resource(&promised, &resource);
            let missing = pending.saturating_add(needed).saturating_sub(idle);
            if missing == 0 {
                let usable = count_resource(&left, &resource);
                report(ReasonCode::QuotaReached, needed - usable, &|| {
                    RefusalReason::QuotaReached {
                        resource: resource.clone(),
                        needed,
                        usable,
                    }
                })?;
                continue;
            }
            report(ReasonCode::NotEnoughIdle, missing, &|| {
                RefusalReason::NotEnoughIdle {
                    resource: resource.clone(),
                    needed,
                    idle,
                    made_up: 0,
                    pending,
                    missing,
                }
            })?;
        }
        Continue(())
    }
}

fn count_resource(of: &Resources, name: &str) -> u64 {
    match name {
        "processors" => of.processors.into(),
        other => of.other(other),
    }
}
