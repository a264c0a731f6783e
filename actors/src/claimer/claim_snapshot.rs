//! The sites as a claim sees them: idle processors as their batch systems count them, less what was
//! submitted since they were asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_domain::acquisition::max_of_partitions;
use cospan_domain::claim::{ClaimPlace, ClaimableSites, PreemptibleJob};
use cospan_domain::content::Content;
use cospan_domain::ids::{ComponentIndex, JobId, SiteName};
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::placed::Placement;
use cospan_domain::placement::{
    self, GridSite, GridSnapshot, LoadReport, PlacementContext, PlacementRequest,
    RemainingResources, SilentObserver, SitePairHistory,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::Timestamp;

use crate::committed::CommittedView;
use crate::context::SharedState;
use crate::grid_snapshot::{GridSnapshotMaker, believed_idle};

/// A pass over the jobs that are due.
pub(super) struct ClaimPass<'a> {
    shared: &'a SharedState,
    view: Arc<CommittedView>,
    now: Timestamp,
    grid: &'a mut GridSnapshotMaker,
    /// Processors left at each place that was looked at; `None` if that is not known.
    idle: BTreeMap<ClaimPlace, Option<Resources>>,
    /// Everything else that is known of the sites; made when a component is first placed anew.
    base: Option<GridSnapshot>,
    /// Input of components that were placed anew in this pass, where its room is bounded.
    staged: BTreeSet<(SiteName, Content)>,
}

impl<'a> ClaimPass<'a> {
    /// Opens the field on the present state.
    pub(super) fn new(shared: &'a SharedState, grid: &'a mut GridSnapshotMaker) -> Self {
        let view = shared.view.load();
        let now = shared.clock.now();
        shared.deductions.expire_deductions(now);
        let idle = BTreeMap::new();
        let staged = BTreeSet::new();
        Self {
            shared,
            view,
            now,
            grid,
            idle,
            base: None,
            staged,
        }
    }

    /// The processors that a site's batch system counts as idle, less those it cannot have counted.
    fn reported_idle(&self, place: &ClaimPlace) -> Option<Resources> {
        let site = &place.site;
        let report = self.shared.live.site_report(site)?;
        if !report.contact.is_answering() {
            return None;
        }
        let belief = believed_idle(self.shared, site, &report, self.now)?;
        let mut idle = match &place.partition {
            Some(partition) => max_of_partitions(partition, |name| report.idle_in.get(name)),
            None => belief.idle,
        };
        let holdings = self.view.holdings.get(site);
        for holding in holdings.into_iter().flat_map(|holdings| holdings.values()) {
            if holding.live && !holding.is_counted(belief.asked_at, self.now) {
                idle.subtract(&holding.resources);
            }
        }
        // Claims that were sent out and are not committed yet.
        idle.subtract(&self.shared.deductions.deducted_at(site).claiming);
        Some(idle)
    }

    /// Makes a grid of the sites with what is left there.
    fn current_grid(&mut self) -> GridSnapshot {
        let base = self
            .base
            .take()
            .unwrap_or_else(|| self.grid.snapshot_for_claims(self.shared));
        for site in base.sites() {
            let own = ClaimPlace::site_default(site.name.clone());
            if !self.idle.contains_key(&own) {
                let idle = self.reported_idle(&own);
                self.idle.insert(own, idle);
            }
        }
        let sites = base.sites().iter().map(|site| {
            let idle = self.idle.get(&ClaimPlace::site_default(site.name.clone()));
            let idle = idle.cloned().flatten().map(|idle| LoadReport {
                idle,
                asked_at: self.now,
            });
            GridSite {
                idle,
                ..site.clone()
            }
        });
        let grid = base.with_sites(sites.collect());
        self.base = Some(base);
        grid
    }

    /// Works out what is left of the sites for a component that is placed anew after others.
    /// Content that those read is there for it as well.
    fn remaining_capacity(&self, grid: &GridSnapshot) -> RemainingResources {
        let mut remaining = RemainingResources::of_grid(grid);
        for (site, content) in &self.staged {
            if let Some(index) = grid.index_of(site) {
                remaining.add_staged(index, std::iter::once(*content));
            }
        }
        remaining
    }

    /// The partition that a component asks for, if it is another than the site's own.
    fn other_partition(
        &self,
        job: &Job,
        component: ComponentIndex,
        site: &SiteName,
    ) -> Option<Arc<str>> {
        let report = self.shared.live.site_report(site)?;
        let words = self.shared.settings.default_policies.lanes;
        let (lane, _) = report.partition_demand(words, site, job, component)?;
        report
            .shape
            .as_ref()?
            .lanes
            .as_ref()?
            .foreign_partition(&lane)
            .cloned()
    }
}

impl ClaimableSites for ClaimPass<'_> {
    fn place(&self, job: &Job, component: ComponentIndex, site: &SiteName) -> ClaimPlace {
        ClaimPlace {
            site: site.clone(),
            partition: self.other_partition(job, component, site),
        }
    }

    fn idle_at(&self, place: &ClaimPlace) -> Option<Resources> {
        match self.idle.get(place) {
            Some(idle) => idle.clone(),
            None => self.reported_idle(place),
        }
    }

    fn waited_lately(&self, job: &Job, component: ComponentIndex) -> bool {
        let placed = job.components.get(component.0 as usize);
        let Some(site) = placed.and_then(|placed| Some(&placed.placement.as_ref()?.site)) else {
            return false;
        };
        let Some(report) = self.shared.live.site_report(site) else {
            return false;
        };
        let words = self.shared.settings.default_policies.lanes;
        let asked = report.partition_demand(words, site, job, component);
        asked.is_some_and(|(lane, ask)| report.obtainable.blocking_wait(&lane, &ask).is_some())
    }

    fn take(&mut self, place: &ClaimPlace, used: &Resources) {
        let mut idle = self.idle_at(place);
        if let Some(idle) = &mut idle {
            idle.subtract(used);
        }
        self.idle.insert(place.clone(), idle);
    }

    fn replace(&mut self, job: &Job, component: ComponentIndex) -> Option<Placement> {
        let defaults = &self.shared.settings.default_policies;
        let request = PlacementRequest::of_single_component(job, component, defaults)?;
        let request = self
            .shared
            .add_owner_if_barred(Arc::new(request), &job.owner);
        let grid = self.current_grid();
        let mut history = SitePairHistory::clone(&self.shared.history.load());
        let mut context = PlacementContext {
            grid: &grid,
            remaining: &mut self.remaining_capacity(&grid),
            history: &mut history,
            observer: &mut SilentObserver,
        };
        let placement = placement::try_to_place(&request, &mut context)
            .ok()?
            .placements
            .pop()?;
        let contents = placement.sources.iter().map(|source| source.content);
        let bounded = grid
            .site(&placement.site)
            .is_some_and(|site| site.staging_left.is_some());
        if bounded {
            self.staged
                .extend(contents.map(|content| (placement.site.clone(), content)));
        }
        let before = job
            .components
            .get(component.0 as usize)?
            .placement
            .as_ref()?;
        Some(Placement {
            share: before.share,
            ..placement
        })
    }

    /// A job in another partition frees nothing for this one: at most the two share some nodes.
    fn victims_at(&self, place: &ClaimPlace) -> Vec<PreemptibleJob> {
        let site = &place.site;
        let mut victims: BTreeMap<JobId, PreemptibleJob> = BTreeMap::new();
        for ((id, component), holding) in self.view.holdings.get(site).into_iter().flatten() {
            let Some(job) = self.view.jobs.get(id).filter(|job| may_be_preempted(job)) else {
                continue;
            };
            if holding.live && self.place(job, *component, site) == *place {
                let victim = victims.entry(*id).or_insert_with(|| victim_of(job));
                victim.resources.add(&holding.resources);
            }
        }
        victims.into_values().collect()
    }
}

fn may_be_preempted(job: &Job) -> bool {
    let holds = matches!(
        job.phase,
        JobPhase::Claiming { .. } | JobPhase::Starting { .. } | JobPhase::Running { .. }
    );
    holds && job.held.is_none() && job.may_be_preempted()
}

fn victim_of(job: &Job) -> PreemptibleJob {
    PreemptibleJob {
        job: job.id,
        priority: job.priority,
        resources: Resources::default(),
        start_estimate: job.instants.start_estimate.unwrap_or_default(),
        submitted_at: job.submitted_at,
        at_gate: matches!(job.phase, JobPhase::Claiming { .. }),
    }
}

#[cfg(test)]
#[path = "claim_snapshot_tests.rs"]
mod tests;
