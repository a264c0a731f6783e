//! All that will happen at the sites by itself, read or drawn beforehand.

mod failures;
mod level;
mod local_load;

use std::collections::BTreeMap;
use std::fmt;

use cospan_domain::ids::{LogicalName, SiteName};
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Mflops, Timestamp};
pub use cospan_simulator::world::cluster::LocalJob;
use thiserror::Error;

use super::{DescribedSite, Grid};
use crate::simulate::workload::{SourceError, SourceNotes};
use cospan_simulator::logs::OnBad;
use cospan_simulator::models::ModelParameterError;
use cospan_simulator::models::tsafrir::EstimateError;
use cospan_simulator::world::batch::Discipline;

pub use failures::FailureNotes;

/// The largest number of local jobs, and of node failures, of one site; more
/// would not fit into memory.
pub const EVENTS_PER_SITE_MAX: usize = 1_000_000;

/// Which part of time is built, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildOptions {
    /// When the simulation begins.
    pub begin: Timestamp,
    /// How long it lasts; what would come later is left out.
    pub horizon: DurationMs,
    /// Decides everything that is drawn. Each site and purpose draws by itself:
    /// what changes at one site changes nothing at another.
    pub seed: u64,
    /// What to do with a line of a log that cannot be used.
    pub on_bad: OnBad,
}

/// A grid with everything that happens to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltGrid {
    /// The sites in the order of the file.
    pub sites: Vec<BuiltSite>,
    /// A link for every ordered pair of sites.
    pub links: Vec<BuiltLink>,
    /// What there is to say about logs; only of sites that have any, in the
    /// order of the file.
    pub complaints: Vec<SiteNotes>,
}

/// A site with everything that happens to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltSite {
    /// Its name.
    pub name: SiteName,
    /// Its nodes.
    pub nodes: u32,
    /// Processors of each node.
    pub processors_per_node: u32,
    /// How its batch system orders jobs.
    pub discipline: Discipline,
    /// What its local users submit, by time.
    pub local_jobs: Vec<LocalJob>,
    /// When its nodes fail, by time, then by node. A node fails only while it
    /// is up.
    pub node_failures: Vec<NodeDown>,
    /// When its nodes are in service and fail all that is started on them, in the same order.
    pub black_holes: Vec<NodeDown>,
    /// Files that lie there from the start.
    pub files: BTreeMap<LogicalName, Bytes>,
    /// Whether components may wait in its queue.
    pub queues: bool,
    /// Whether it grants reservations.
    pub reserves: bool,
    /// What each of its processors does, if anybody said.
    pub power_per_processor: Option<Mflops>,
}

/// A failure of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeDown {
    /// When it fails.
    pub at: Timestamp,
    /// Its number, from 0.
    pub node: u32,
    /// How long it is down; above zero. It may come back after the horizon.
    pub repair: DurationMs,
}

/// A link in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltLink {
    /// Where it begins.
    pub from: SiteName,
    /// Where it ends.
    pub to: SiteName,
    /// What it carries; 0 means nothing at all.
    pub bandwidth: BitsPerSecond,
    /// What the control plane is told that it carries.
    pub believed: BitsPerSecond,
    /// What it is told that the site where it begins sends, where that is more.
    pub upload: Option<BitsPerSecond>,
    /// How long the first bit takes.
    pub latency: DurationMs,
}

/// What there is to say about the logs of a site. Its `Display` is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteNotes {
    /// The site.
    pub site: SiteName,
    /// About its local load; `None` if there is nothing to say.
    pub local_load: Option<SourceNotes>,
    /// About its failures; `None` if there is nothing to say.
    pub failures: Option<FailureNotes>,
}

impl fmt::Display for SiteNotes {
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

/// Why a grid cannot be built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// A log cannot be read.
    #[error("site {site}: {cause}")]
    Source {
        /// The site.
        site: SiteName,
        /// Why.
        cause: SourceError,
    },
    /// A model's parameter is outside its range.
    #[error("site {site}: local load: {cause}; change the utilization or the mean run time")]
    Model {
        /// The site.
        site: SiteName,
        /// Which one.
        cause: ModelParameterError,
    },
    /// No estimates could be drawn.
    #[error("site {site}: cannot draw estimates: {cause}; or set estimates = \"exact\"")]
    Estimates {
        /// The site.
        site: SiteName,
        /// Why.
        cause: EstimateError,
    },
    /// More than [`EVENTS_PER_SITE_MAX`] jobs or failures.
    #[error(
        "site {site} has more than {EVENTS_PER_SITE_MAX} {what}; simulate a shorter time, or make \
         them less frequent"
    )]
    TooMany {
        /// The site.
        site: SiteName,
        /// Local jobs or node failures.
        what: &'static str,
    },
}

impl Grid {
    /// Reads logs and draws the rest.
    ///
    /// # Errors
    /// A log cannot be read, has a bad line and such lines are refused, or there
    /// is more than can be simulated.
    pub fn build(&self, options: &BuildOptions) -> Result<BuiltGrid, BuildError> {
        let mut sites = Vec::with_capacity(self.sites.len());
        let mut complaints = Vec::new();
        for site in &self.sites {
            let (local_jobs, load) = local_load::jobs(site, options)?;
            let (node_failures, failures) = failures::failures(site, options)?;
            let black_holes = failures::black_holes(site, options)?;
            let local_load = Some(load).filter(|notes| !notes.is_empty());
            let failures = Some(failures).filter(|notes| !notes.is_empty());
            if local_load.is_some() || failures.is_some() {
                complaints.push(SiteNotes {
                    site: site.name.clone(),
                    local_load,
                    failures,
                });
            }
            sites.push(BuiltSite {
                local_jobs,
                node_failures,
                black_holes,
                ..quiet(site)
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
        let sites = || self.sites.iter();
        let pairs = sites().flat_map(|from| sites().map(move |to| (from, to)));
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

/// A site at which nothing happens.
fn quiet(site: &DescribedSite) -> BuiltSite {
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
