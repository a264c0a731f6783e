//! All events at the sites that the control plane does not cause, read or drawn beforehand.

mod dummy_load;
mod local_load;
mod node_failures;

use std::collections::BTreeMap;
use std::fmt;

pub use crate::world::world_site::LocalJob;
use cospan_domain::ids::{LogicalName, SiteName};
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Mflops, Timestamp};
use thiserror::Error;

use super::{DescribedSite, Grid};
use crate::models::ModelParameterError;
use crate::models::tsafrir::EstimateError;
use crate::simulate::workload::{JobSourceError, JobSourceNotes};
use crate::world::batch::QueueDiscipline;
use cospan_languages::logs::BadLineTreatment;

pub use node_failures::FailureLogNotes;

/// The largest number of local jobs, and of node failures, of one site; more would not fit into
/// memory.
pub const EVENTS_PER_SITE_MAX: usize = 1_000_000;

/// The part of time to build, and the options for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GridBuildOptions {
    /// Begin of the simulation.
    pub begin: Timestamp,
    /// Length of the simulation; later events are left out.
    pub horizon: DurationMs,
    /// Decides everything that is drawn. Each site and purpose draws by itself: a change at one
    /// site changes nothing at another.
    pub seed: u64,
    /// The treatment of unusable lines of a log.
    pub on_bad: BadLineTreatment,
}

/// A grid with all events at its sites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltGrid {
    /// The sites in the order of the file.
    pub sites: Vec<BuiltSite>,
    /// A link for every ordered pair of sites.
    pub links: Vec<BuiltLink>,
    /// Notes about logs; only for sites that have any, in the order of the file.
    pub complaints: Vec<SiteLogNotes>,
}

/// A site with all its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltSite {
    pub name: SiteName,
    pub nodes: u32,
    /// Processors of each node.
    pub processors_per_node: u32,
    /// The order in which its batch system starts jobs.
    pub discipline: QueueDiscipline,
    /// Jobs of its local users, by time.
    pub local_jobs: Vec<LocalJob>,
    /// Failures of its nodes, by time, then by node. A node fails only while it is up.
    pub node_failures: Vec<NodeOutage>,
    /// Times at which its nodes are in service and fail all that is started on them, in the same
    /// order.
    pub black_holes: Vec<NodeOutage>,
    /// Files that lie there from the start.
    pub files: BTreeMap<LogicalName, Bytes>,
    /// True if components may wait in its queue.
    pub queues: bool,
    /// True if it grants reservations.
    pub reserves: bool,
    /// Computing power of each of its processors, if it is given.
    pub power_per_processor: Option<Mflops>,
}

/// A failure of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeOutage {
    /// Time of the failure.
    pub at: Timestamp,
    /// The number of the node, from 0.
    pub node: u32,
    /// Time for which it is down; above zero. It may come back after the horizon.
    pub repair: DurationMs,
}

/// A link in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltLink {
    /// The site where it begins.
    pub from: SiteName,
    /// The site where it ends.
    pub to: SiteName,
    /// The bandwidth; 0 means that nothing can be copied.
    pub bandwidth: BitsPerSecond,
    /// The bandwidth that the control plane is given.
    pub believed: BitsPerSecond,
    /// The bandwidth that it is given for sending from the first site, if that is more.
    pub upload: Option<BitsPerSecond>,
    /// Time until the first bit arrives.
    pub latency: DurationMs,
}

/// Notes about the logs of a site. The `Display` is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteLogNotes {
    pub site: SiteName,
    /// Notes about its local load, if any.
    pub local_load: Option<JobSourceNotes>,
    /// Notes about its failures, if any.
    pub failures: Option<FailureLogNotes>,
}

impl fmt::Display for SiteLogNotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = self
            .local_load
            .as_ref()
            .map(|notes| format!("; local load: {notes}"));
        let failures = self
            .failures
            .as_ref()
            .map(|notes| format!("; failures: {notes}"));
        let parts: String = load.into_iter().chain(failures).collect();
        write!(f, "site {}{parts}", self.site)
    }
}

/// The reason why a grid cannot be built.
#[derive(Debug, Error)]
pub enum GridBuildError {
    /// A log cannot be read.
    #[error("site {site}: {cause}")]
    Source {
        site: SiteName,
        cause: JobSourceError,
    },
    /// A model's parameter is outside its range.
    #[error("site {site}: local load: {cause}; change the utilization or the mean run time")]
    Model {
        site: SiteName,
        /// The parameter.
        cause: ModelParameterError,
    },
    /// No estimates could be drawn.
    #[error("site {site}: cannot draw estimates: {cause}; set estimates = \"exact\" instead")]
    Estimates {
        site: SiteName,
        cause: EstimateError,
    },
    /// More than [`EVENTS_PER_SITE_MAX`] jobs or failures.
    #[error(
        "site {site} has more than {EVENTS_PER_SITE_MAX} {what}; simulate a shorter time, or make \
         them less frequent"
    )]
    TooMany {
        site: SiteName,
        /// Local jobs or node failures.
        what: &'static str,
    },
}

impl Grid {
    /// Reads logs and draws the rest.
    ///
    /// # Errors
    /// A log cannot be read, has a bad line and such lines are refused, or there are more events
    /// than can be simulated.
    pub fn build(&self, options: &GridBuildOptions) -> Result<BuiltGrid, GridBuildError> {
        let mut sites = Vec::with_capacity(self.sites.len());
        let mut complaints = Vec::new();
        for site in &self.sites {
            let (local_jobs, load) = local_load::local_jobs(site, options)?;
            let (node_failures, failures) = node_failures::node_failures(site, options)?;
            let black_holes = node_failures::black_holes(site, options)?;
            let local_load = Some(load).filter(|notes| !notes.is_empty());
            let failures = Some(failures).filter(|notes| !notes.is_empty());
            if local_load.is_some() || failures.is_some() {
                complaints.push(SiteLogNotes {
                    site: site.name.clone(),
                    local_load,
                    failures,
                });
            }
            sites.push(BuiltSite {
                local_jobs,
                node_failures,
                black_holes,
                ..eventless_site(site)
            });
        }
        Ok(BuiltGrid {
            sites,
            links: self.every_link(),
            complaints,
        })
    }

    /// The link of every ordered pair of sites, as given or by default.
    fn every_link(&self) -> Vec<BuiltLink> {
        let mut given = BTreeMap::new();
        for link in &self.links {
            let kind = (link.bandwidth, link.believed, link.latency);
            given.insert((&link.from, &link.to), kind);
            if link.both_ways {
                given.insert((&link.to, &link.from), kind);
            }
        }
        let common = &self.network;
        let default = (common.bandwidth, common.bandwidth, common.latency);
        let pairs = self
            .sites
            .iter()
            .flat_map(|from| self.sites.iter().map(move |to| (from, to)));
        let other = pairs.filter(|(from, to)| from.name != to.name);
        other
            .map(|(from, to): (&DescribedSite, &DescribedSite)| {
                let known = given.get(&(&from.name, &to.name)).copied();
                let ends = from.upload.zip(to.download).filter(|_| known.is_none());
                let of_ends = ends.map(|(up, down)| (up.min(down), up.min(down), common.latency));
                let (bandwidth, believed, latency) = known.or(of_ends).unwrap_or(default);
                let upload = ends.map(|(up, _)| up);
                let from = from.name.clone();
                let to = to.name.clone();
                BuiltLink {
                    from,
                    to,
                    bandwidth,
                    believed,
                    upload,
                    latency,
                }
            })
            .collect()
    }
}

/// A site without any event.
fn eventless_site(site: &DescribedSite) -> BuiltSite {
    BuiltSite {
        name: site.name.clone(),
        nodes: site.nodes,
        processors_per_node: site.processors_per_node,
        discipline: site.discipline,
        local_jobs: Vec::new(),
        node_failures: Vec::new(),
        black_holes: Vec::new(),
        files: site.files.clone(),
        queues: site.queues,
        reserves: site.reserves,
        power_per_processor: site.power_per_processor,
    }
}
