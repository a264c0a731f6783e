//! Small grids and requests for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{
    ComponentRequest, GridSite, GridSnapshot, LoadReport, PlacementAcceptance, PlacementContext,
    PlacementPlan, PlacementRefusal, PlacementRequest, RemainingResources, SiteNetwork,
    SitePairHistory, SiteProperties, SiteQuota, VerdictRecorder, try_to_place,
};
use crate::content::Content;
use crate::ids::{Digest, PolicyName, SiteName};
use crate::job::spec::{FlexibleBounds, RequestType};
use crate::resources::Resources;
use crate::units::{BitsPerSecond, Bytes, Timestamp};

pub(crate) const GB: u64 = 1_000_000_000;
pub(crate) const MBIT: u64 = 1_000_000;

pub(crate) fn site_name(text: &str) -> SiteName {
    SiteName::new(text).unwrap()
}

pub(crate) fn worst_fit() -> PolicyName {
    PolicyName::new("worst-fit").unwrap()
}

/// An open site with `total` processors of which `idle` are idle.
pub(crate) fn site_with_resources(name: &str, total: Resources, idle: Resources) -> GridSite {
    GridSite {
        shape: Some(Arc::new(SiteProperties {
            largest_component: total.clone(),
            total,
            labels: BTreeMap::new(),
            queues: false,
            queues_only: false,
            reservations: false,
            lanes: None,
        })),
        acceptance: PlacementAcceptance::Open,
        idle: Some(LoadReport {
            idle,
            asked_at: Timestamp(0),
        }),
        quota: SiteQuota::NONE,
        serves_files: true,
        ..GridSite::never_answered(site_name(name))
    }
}

/// An open site of 1,000 processors of which `idle` are idle.
pub(crate) fn open_site(name: &str, idle: u32) -> GridSite {
    site_with_resources(
        name,
        Resources::processors(1_000),
        Resources::processors(idle),
    )
}

/// Puts a label on a site.
pub(crate) fn with_label(mut site: GridSite, key: &str, value: &str) -> GridSite {
    let mut shape = (**site.shape.as_ref().unwrap()).clone();
    shape
        .labels
        .entry(key.into())
        .or_default()
        .insert(value.into());
    site.shape = Some(Arc::new(shape));
    site
}

/// A file of so many gigabytes, told apart by a number.
pub(crate) fn content_of_gigabytes(number: u8, gigabytes: u64) -> Content {
    Content {
        digest: Digest([number; 32]),
        size: Bytes(gigabytes * GB),
    }
}

/// A grid without files and links.
pub(crate) fn grid(sites: impl IntoIterator<Item = GridSite>) -> GridSnapshot {
    grid_with(sites, &[], &[])
}

/// A grid with replicas (content, site) and links (from, to, Mbit/s).
pub(crate) fn grid_with(
    sites: impl IntoIterator<Item = GridSite>,
    replicas: &[(Content, &str)],
    links: &[(&str, &str, u64)],
) -> GridSnapshot {
    let mut catalogue: BTreeMap<Digest, BTreeSet<SiteName>> = BTreeMap::new();
    for (content, at) in replicas {
        catalogue
            .entry(content.digest)
            .or_default()
            .insert(site_name(at));
    }
    let links = links
        .iter()
        .map(|(from, to, rate)| (site_name(from), site_name(to), BitsPerSecond(rate * MBIT)));
    GridSnapshot::new(
        sites,
        Arc::new(SiteNetwork::from_links(links)),
        Arc::new(catalogue),
    )
}

pub(crate) fn component(processors: u32) -> ComponentRequest {
    ComponentRequest::of_resources(Resources::processors(processors))
}

/// A restartable, non-fixed request under Worst-Fit.
pub(crate) fn request(components: Vec<ComponentRequest>) -> PlacementRequest {
    PlacementRequest::new(worst_fit(), RequestType::NonFixed, true, components)
}

/// The same request under another policy.
pub(crate) fn with_policy(policy: &str, request: &PlacementRequest) -> PlacementRequest {
    let policy = PolicyName::new(policy).unwrap();
    let components = request.components().to_vec();
    let restartable = request.is_restartable();
    PlacementRequest::new(
        policy,
        request.request_type().clone(),
        restartable,
        components,
    )
}

/// A flexible request for this total.
pub(crate) fn flexible_request(
    policy: &str,
    total: u32,
    bounds: FlexibleBounds,
) -> PlacementRequest {
    let policy = PolicyName::new(policy).unwrap();
    PlacementRequest::new(
        policy,
        RequestType::Flexible(bounds),
        true,
        vec![component(total)],
    )
}

/// Sites and shares of a plan for a flexible request.
pub(crate) fn shares_of(plan: &PlacementPlan) -> Vec<(&str, u32)> {
    plan.placements
        .iter()
        .map(|p| (p.site.as_str(), p.share.unwrap()))
        .collect()
}

/// A request for components of these sizes.
pub(crate) fn request_of_sizes(sizes: &[u32]) -> PlacementRequest {
    request(sizes.iter().map(|&size| component(size)).collect())
}

/// Places one request on the whole grid, recording why.
pub(crate) fn place_with_recorder(
    request: &PlacementRequest,
    grid: &GridSnapshot,
) -> (Result<PlacementPlan, PlacementRefusal>, VerdictRecorder) {
    let mut recorder = VerdictRecorder::default();
    let mut remaining = RemainingResources::of_grid(grid);
    let mut context = PlacementContext {
        grid,
        remaining: &mut remaining,
        history: &mut SitePairHistory::All,
        observer: &mut recorder,
    };
    let outcome = try_to_place(request, &mut context);
    (outcome, recorder)
}

/// Places one request on the whole grid.
pub(crate) fn place_on_grid(
    request: &PlacementRequest,
    grid: &GridSnapshot,
) -> Result<PlacementPlan, PlacementRefusal> {
    place_with_recorder(request, grid).0
}

/// Sites of a plan by component.
pub(crate) fn sites_of(plan: &PlacementPlan) -> Vec<&str> {
    plan.placements
        .iter()
        .map(|placement| placement.site.as_str())
        .collect()
}
