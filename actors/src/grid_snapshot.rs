//! The snapshot that policies work on, made from the view and the live state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_domain::catalogue::file_state::FileRecord;
use cospan_domain::ids::{ComponentIndex, Digest, JobId, LogicalName, SiteName};
use cospan_domain::job::demands::{ComponentHolding, list_holdings};
use cospan_domain::job::job_state::Job;
use cospan_domain::placement::{
    self, GridSite, GridSnapshot, LoadReport, PlacementAcceptance, PlacementHindrance,
    PlacementRequest,
};
use cospan_domain::reservation::IdleDrop;
use cospan_domain::resources::Resources;
use cospan_domain::site::availability::{can_serve_files, site_state};
use cospan_domain::site::site_state::SiteRecord;
use cospan_domain::transfer::copy_state::CopyRecord;
use cospan_domain::units::{Bytes, Timestamp};
use imbl::OrdMap;

use crate::committed::CommittedView;
use crate::context::SharedState;
use crate::live_state::LatestSiteReport;

type ReplicaIndex = BTreeMap<Digest, BTreeSet<SiteName>>;

/// Makes snapshots, and keeps what seldom changes.
#[derive(Debug, Default)]
pub struct GridSnapshotMaker {
    files: OrdMap<LogicalName, Arc<FileRecord>>,
    copies: OrdMap<(Digest, SiteName), Arc<CopyRecord>>,
    catalogue: Arc<ReplicaIndex>,
}

impl GridSnapshotMaker {
    /// Makes a snapshot of what is known now, less what is deducted.
    pub fn snapshot(&mut self, shared: &SharedState) -> Arc<GridSnapshot> {
        self.snapshot_less_deductions(shared, |_| Resources::default())
    }

    /// Makes a snapshot for a job that waits: what is deducted for the job itself is there for it.
    pub fn snapshot_for_job(&mut self, shared: &SharedState, job: JobId) -> Arc<GridSnapshot> {
        self.snapshot_less_deductions(shared, |site| {
            shared
                .deductions
                .lock_ledgers()
                .deducted_for_job(site, job)
                .placing
        })
    }

    fn snapshot_less_deductions(
        &mut self,
        shared: &SharedState,
        own: impl Fn(&SiteName) -> Resources,
    ) -> Arc<GridSnapshot> {
        let isolated = shared.live.is_isolated();
        shared.deductions.expire_deductions(shared.clock.now());
        Arc::new(self.build_snapshot(shared, |mut site| {
            let mut promised = shared.deductions.deducted_at(&site.name).placing;
            promised.subtract(&own(&site.name));
            site.pending.add(&promised);
            if isolated {
                site.acceptance = PlacementAcceptance::Closed(PlacementHindrance::Isolated);
            }
            site
        }))
    }

    /// Makes a snapshot as it would be if this job had nothing: what its sites are to it.
    pub fn snapshot_without_job(&mut self, shared: &SharedState, job: &Job) -> GridSnapshot {
        let held = list_holdings(job);
        let now = shared.clock.now();
        self.build_snapshot(shared, |mut site| {
            for holding in held.iter().filter(|holding| holding.site == site.name) {
                site.ours.subtract(&holding.resources);
                match &mut site.idle {
                    Some(belief) if holding.is_counted(belief.asked_at, now) => {
                        belief.idle.add(&holding.resources);
                    }
                    _ => site.pending.subtract(&holding.resources),
                }
            }
            site
        })
    }

    /// Makes a snapshot without idle processors and with nothing of ours pending, for components of
    /// jobs that are being claimed.
    pub fn snapshot_for_claims(&mut self, shared: &SharedState) -> GridSnapshot {
        self.build_snapshot(shared, |site| GridSite {
            idle: None,
            pending: Resources::default(),
            ..site
        })
    }

    fn build_snapshot(
        &mut self,
        shared: &SharedState,
        change: impl Fn(GridSite) -> GridSite,
    ) -> GridSnapshot {
        let view = shared.view.load();
        let keeps = shared
            .settings
            .staging
            .values()
            .any(|staging| staging.replicas > Bytes(0));
        self.index_replicas(&view, keeps);
        let now = shared.clock.now();
        let staged = shared.promised.staged_everywhere(&view);
        let sites = shared.sites.keys().map(|name| {
            let report = shared.live.site_report(name).unwrap_or_default();
            let staging_left = staged.room_left_at(name);
            change(GridSite {
                staging_left,
                ..grid_site(shared, &view, name, &report, now)
            })
        });
        let network = shared.links.network();
        let catalogue = self.catalogue.clone();
        GridSnapshot::new(sites, network, catalogue).with_staged(Arc::new(staged))
    }

    /// Indexes where files are; with copies in stores, if such are kept as replicas.
    fn index_replicas(&mut self, view: &CommittedView, keeps: bool) {
        if self.files.ptr_eq(&view.files) && (!keeps || self.copies.ptr_eq(&view.copies)) {
            return;
        }
        let mut index = ReplicaIndex::new();
        for entry in view.files.values().filter_map(|file| file.entry.as_ref()) {
            let sites = index.entry(entry.content.digest).or_default();
            sites.extend(entry.replicas.iter().map(|(site, _)| site.clone()));
        }
        for copy in view.copies.values().filter(|copy| keeps && copy.is_ready()) {
            if let Some(sites) = index.get_mut(&copy.content.digest) {
                sites.insert(copy.site.clone());
            }
        }
        self.files = view.files.clone();
        self.copies = view.copies.clone();
        self.catalogue = Arc::new(index);
    }
}

fn grid_site(
    shared: &SharedState,
    view: &CommittedView,
    name: &SiteName,
    report: &LatestSiteReport,
    now: Timestamp,
) -> GridSite {
    let fresh = SiteRecord::new(name.clone());
    let record = view
        .sites
        .get(name)
        .map_or(&fresh, |record| record.as_ref());
    let asked_at = report.idle.as_ref().map(|(asked_at, _)| *asked_at);
    let (pending, ours, held) = sum_holdings(view.holdings.get(name), asked_at, now);
    let state = site_state(record, report.contact, held, now);
    GridSite {
        name: name.clone(),
        shape: report.shape.clone(),
        acceptance: acceptance_for_claims(state.acceptance(), report),
        idle: believed_idle(shared, name, report, now),
        idle_in: report.idle_in.clone(),
        ebbs: idle_drops_from_now(report, now),
        pending,
        ours,
        quota: shared
            .settings
            .quotas
            .get(name)
            .copied()
            .unwrap_or_default(),
        room: state.probe_room(),
        // Of all sites at once, by who asks for it.
        staging_left: None,
        serves_files: can_serve_files(record, report.contact, now),
        power_per_processor: shared.settings.powers.get(name).copied(),
        waits: report
            .obtainable
            .has_waits()
            .then(|| report.obtainable.clone()),
        bans: record
            .barred_owners(now)
            .map(|(owner, ban)| (owner.clone(), ban))
            .collect(),
    }
}

/// Closes a site that takes components only into its own queue, for all that claim.
fn acceptance_for_claims(
    of_state: PlacementAcceptance,
    report: &LatestSiteReport,
) -> PlacementAcceptance {
    let queues_only = report.shape.as_ref().is_some_and(|shape| shape.queues_only);
    match of_state {
        PlacementAcceptance::Open if queues_only => {
            PlacementAcceptance::Closed(PlacementHindrance::QueueOnly)
        }
        other => other,
    }
}

/// Sums up what jobs have at a site that was asked then: what it does not show yet, all of it, and
/// the number of holdings.
pub(crate) fn sum_holdings(
    holdings: Option<&OrdMap<(JobId, ComponentIndex), Arc<ComponentHolding>>>,
    asked_at: Option<Timestamp>,
    now: Timestamp,
) -> (Resources, Resources, u32) {
    let mut pending = Resources::default();
    let mut ours = Resources::default();
    let mut held = 0;
    for holding in holdings.into_iter().flat_map(|holdings| holdings.values()) {
        ours.add(&holding.resources);
        held += 1;
        // The site's own count includes everything submitted before it was asked.
        if !asked_at.is_some_and(|asked| holding.is_counted(asked, now)) {
            pending.add(&holding.resources);
        }
    }
    (pending, ours, held)
}

/// Returns true if a component that was placed at a site that is tried out after errors may go
/// there: with its whole job, or alone if it was placed anew by itself.
pub(crate) fn may_go_to_probed_site(
    shared: &SharedState,
    job: &Job,
    index: ComponentIndex,
    at: &SiteName,
) -> bool {
    let defaults = &shared.settings.default_policies;
    let view = shared.view.load();
    let now = shared.clock.now();
    let others = shared.sites.keys().filter(|name| *name != at).map(|name| {
        let report = shared.live.site_report(name).unwrap_or_default();
        grid_site(shared, &view, name, &report, now)
    });
    let others: Vec<GridSite> = others.collect();
    let alone = PlacementRequest::of_single_component(job, index, defaults);
    placement::may_try_out_any(&shared.placement_request_of(job), &others)
        || alone.is_some_and(|alone| placement::may_try_out_any(&alone, &others))
}

/// Returns true if a component that its site's batch system refused could be held by another site,
/// as far as is known.
pub(crate) fn fits_another_site(
    shared: &SharedState,
    job: &Job,
    index: ComponentIndex,
    refused_by: &SiteName,
) -> bool {
    let view = shared.view.load();
    let now = shared.clock.now();
    let sites: Vec<GridSite> = shared
        .sites
        .keys()
        .map(|name| {
            let report = shared.live.site_report(name).unwrap_or_default();
            grid_site(shared, &view, name, &report, now)
        })
        .collect();
    let mut refused = Job::clone(job);
    if let Some(component) = refused.components.get_mut(index.0 as usize) {
        component
            .unfit_for
            .insert(refused_by.clone(), Arc::default());
    }
    placement::fits_any_site(&shared.placement_request_of(&refused), index, &sites)
}

/// Returns what a site is believed to have idle: what it reported last, or less if it has refused a
/// claim since. It is asked again once its report expires, and has as long again to answer: a
/// report twice as old as its expiry is no information any more.
pub(crate) fn believed_idle(
    shared: &SharedState,
    site: &SiteName,
    report: &LatestSiteReport,
    now: Timestamp,
) -> Option<LoadReport> {
    let (asked_at, mut idle) = report.idle.clone()?;
    if let Some(most) = shared.live.most_processors_left(site, asked_at) {
        idle.processors = idle.processors.min(most);
    }
    is_report_current(shared, asked_at, now).then_some(LoadReport { idle, asked_at })
}

/// Returns when less is left of the idle processors that a site reported, counted from now on.
pub(crate) fn idle_drops_from_now(report: &LatestSiteReport, now: Timestamp) -> Arc<[IdleDrop]> {
    if report.ebbs.is_empty() {
        return report.ebbs.clone();
    }
    let age = report
        .idle
        .as_ref()
        .map(|(asked_at, _)| now.since(*asked_at))
        .unwrap_or_default();
    report.ebbs.iter().map(|ebb| ebb.aged_by(age)).collect()
}

/// Returns true if a report of that time still counts.
pub(crate) fn is_report_current(shared: &SharedState, asked_at: Timestamp, now: Timestamp) -> bool {
    let expiry = shared.settings.information_expiry;
    now.since(asked_at) <= expiry + expiry
}
