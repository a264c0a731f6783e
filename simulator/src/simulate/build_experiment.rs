//! From a built grid and planned jobs to the world and the jobs of an experiment.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::experiment::{NodeFailure, NodeFailureMode, TimedSubmission};
use crate::jobs;
use crate::world::world_site::ClusterSpec;
use crate::world::{LinkSpec, SimulatedWorld, WrapperDelays};
use cospan_domain::acquisition::{BenchmarkScores, RankingPreferences, ReservationTerms};
use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, IdentifierError, LogicalName, RelPath, SiteName};
use cospan_domain::job::spec::{
    FileReference, FlexibleBounds, InputSpec, JobSpec, Program, RequestType, UnreachableAction,
};
use cospan_domain::placement::policy_for;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Mflops, Timestamp};

use super::grid::{BuiltGrid, BuiltSite, Grid, NodeOutage};
use super::runs::StudyVariant;
use super::workload;

/// The path at which components find their input.
const INPUT: &str = "input";

/// The world at `begins`.
pub(super) fn build_world(
    grid: &BuiltGrid,
    pace: WrapperDelays,
    seed: u64,
    begins: Timestamp,
) -> Result<SimulatedWorld, IdentifierError> {
    let sites = grid
        .sites
        .iter()
        .map(cluster_spec)
        .collect::<Result<_, _>>()?;
    let links: Vec<LinkSpec> = grid
        .links
        .iter()
        .map(|link: &super::grid::BuiltLink| LinkSpec {
            from: link.from.clone(),
            to: link.to.clone(),
            bandwidth: link.bandwidth,
            latency: link.latency,
        })
        .collect();
    Ok(SimulatedWorld::new(sites, &links, pace, seed, begins))
}

fn cluster_spec(site: &BuiltSite) -> Result<ClusterSpec, IdentifierError> {
    Ok(ClusterSpec {
        name: site.name.clone(),
        nodes: site.nodes,
        processors_per_node: site.processors_per_node,
        discipline: site.discipline,
        local_jobs: site.local_jobs.clone(),
        queues: site.queues,
        reserves: site.reserves,
        files: site
            .files
            .iter()
            .map(|(name, size): (&LogicalName, &Bytes)| {
                Ok((replica_path(name)?, file_content(name, *size)))
            })
            .collect::<Result<_, IdentifierError>>()?,
    })
}

/// Bandwidths of the links that the control plane is given, as an operator would write them.
pub(super) fn link_bandwidths(grid: &BuiltGrid) -> BTreeMap<(SiteName, SiteName), BitsPerSecond> {
    let links = grid.links.iter();
    links
        .map(|link| ((link.from.clone(), link.to.clone()), link.believed))
        .collect()
}

/// Bandwidths at which sites send and that others cannot receive.
pub(super) fn upload_limits(grid: &BuiltGrid) -> BTreeMap<(SiteName, SiteName), BitsPerSecond> {
    let links = grid.links.iter();
    links
        .filter_map(|link| Some(((link.from.clone(), link.to.clone()), link.upload?)))
        .collect()
}

/// Latencies of the links.
pub(super) fn link_latencies(grid: &BuiltGrid) -> BTreeMap<(SiteName, SiteName), DurationMs> {
    let links = grid.links.iter();
    links
        .map(|link| ((link.from.clone(), link.to.clone()), link.latency))
        .collect()
}

/// Computing power of each processor of a site, where the grid file has it.
pub(super) fn site_powers(grid: &BuiltGrid) -> BTreeMap<SiteName, Mflops> {
    let sites = grid.sites.iter();
    sites
        .filter_map(|site| Some((site.name.clone(), site.power_per_processor?)))
        .collect()
}

/// Results of the sites in benchmarks, where the grid file has them.
pub(super) fn site_scores(grid: &Grid) -> BTreeMap<SiteName, BenchmarkScores> {
    grid.sites
        .iter()
        .map(|site| (site.name.clone(), site.benchmarks.clone()))
        .collect()
}

/// Every replica of every file: its name, its site and its place there.
pub(super) fn all_replicas(
    grid: &BuiltGrid,
) -> Result<Vec<(LogicalName, SiteName, RelPath)>, IdentifierError> {
    let replicas = grid
        .sites
        .iter()
        .flat_map(|site| site.files.keys().map(move |name| (name, site)));
    replicas
        .map(|(name, site)| Ok((name.clone(), site.name.clone(), replica_path(name)?)))
        .collect()
}

/// Failures of nodes at all sites.
pub(super) fn node_failures_of(grid: &BuiltGrid) -> Vec<NodeFailure> {
    let mut failures = Vec::new();
    for site in &grid.sites {
        let down = site
            .node_failures
            .iter()
            .map(|down| (NodeFailureMode::Down, down));
        let holes = site.black_holes.iter();
        let holes = holes.map(|hole| (NodeFailureMode::BlackHole, hole));
        for (how, down) in down.chain(holes) {
            let NodeOutage { at, node, repair } = *down;
            failures.push(NodeFailure {
                how,
                at,
                site: site.name.clone(),
                node,
                repair,
            });
        }
    }
    failures.sort_by_key(|failure: &NodeFailure| failure.at);
    failures
}

/// The slowdown of jobs over several sites.
#[derive(Debug, Clone, Copy)]
pub(super) struct MultiSiteSlowdown {
    per_mille: u64,
    /// Over all sites of the grid and its slowest link.
    worst_per_mille: u64,
}

impl MultiSiteSlowdown {
    /// `per_mille` for each further site, over links as fast as the fastest.
    pub(super) fn new(per_mille: u64, grid: &BuiltGrid) -> Self {
        let rates = grid.links.iter().map(|link| link.bandwidth.0);
        let fastest = rates.clone().max().unwrap_or(1);
        let slowest = rates.min().unwrap_or(1);
        let further = grid.sites.len().saturating_sub(1) as u64;
        let slower = fastest.div_ceil(slowest.max(1));
        let worst_per_mille = per_mille.saturating_mul(further).saturating_mul(slower);
        Self {
            per_mille,
            worst_per_mille,
        }
    }

    /// The longest time of a job with this estimate: users know the possible cost of co-allocation,
    /// and ask for as much time.
    fn worst_run_time(self, estimate: DurationMs) -> DurationMs {
        let extra = estimate.0.saturating_mul(self.worst_per_mille) / 1_000;
        DurationMs(estimate.0.saturating_add(extra))
    }
}

/// A job as the control plane receives it. Its user's estimate is its wall time.
pub(super) fn job_submission(
    job: &workload::WorkloadJob,
    variant: &StudyVariant,
    slowdown: MultiSiteSlowdown,
    wish: Option<(ReservationTerms, Option<RankingPreferences>)>,
) -> anyhow::Result<TimedSubmission> {
    let wall_time = slowdown.worst_run_time(job.estimate);
    let mut spec = jobs::build_job(&job.components, job.run_time, wall_time, 0)?;
    if slowdown.per_mille > 0 {
        let word: Arc<str> = slowdown.per_mille.to_string().into();
        spec.components.iter_mut().for_each(|component| {
            component
                .program
                .change_program(|program: &mut Program| program.arguments.push(word.clone()))
        });
    }
    spec.name = Some(job.name.as_str().into());
    spec.priority = job.priority;
    spec.policy = Some(variant.policy.clone());
    let flexible = RequestType::Flexible(FlexibleBounds::default());
    let splits = variant.flexible && policy_for(&variant.policy, &flexible).is_ok();
    if splits || policy_for(&variant.policy, &RequestType::NonFixed).is_err() {
        merge_components(&mut spec);
    }
    // A job that a policy divides is claimed: if it had reservations, FlexCo would divide it.
    if let Some((wish, preferences)) = wish.filter(|_| spec.request == RequestType::NonFixed) {
        spec.run.reservation = Some(wish);
        spec.run.preferences = preferences;
    }
    if !variant.rerunnable {
        spec.rerunnable = false;
        spec.on_unreachable = UnreachableAction::Wait;
    }
    if let Some(name) = &job.input {
        let path = RelPath::new(INPUT)?;
        for component in &mut spec.components {
            let file = FileReference {
                name: name.clone(),
                bound: None,
            };
            component.inputs.push(InputSpec {
                file,
                path: path.clone(),
                feed: Default::default(),
            });
        }
    }
    Ok(TimedSubmission {
        at: job.at,
        spec: Arc::new(spec),
    })
}

/// Merges the processors into one component, for a policy that splits jobs itself.
fn merge_components(spec: &mut JobSpec) {
    let total = spec.total_resources();
    spec.components.truncate(1);
    spec.components
        .iter_mut()
        .for_each(|component| component.resources = total.clone());
    spec.request = RequestType::Flexible(FlexibleBounds::default());
}

/// A path that any name can have.
fn replica_path(name: &LogicalName) -> Result<RelPath, IdentifierError> {
    RelPath::new(&name_digest(name).to_string())
}

/// All replicas of a file have one content, which follows from its name.
fn file_content(name: &LogicalName, size: Bytes) -> Content {
    Content {
        digest: name_digest(name),
        size,
    }
}

fn name_digest(name: &LogicalName) -> Digest {
    Digest(*blake3::hash(name.as_str().as_bytes()).as_bytes())
}
