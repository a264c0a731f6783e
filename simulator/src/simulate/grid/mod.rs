//! The simulated grid: sites with their batch systems, local users and failures, and the links
//! between sites.
//!
//! A grid is written in a TOML file ([`Grid::load`]), which is checked as a whole. [`Grid::build`]
//! then draws or reads all events at its sites that the control plane does not cause: the jobs of
//! local users, and the failures of nodes.
//!
//! Deliberately absent: the jobs that users submit to the control plane (see
//! [`crate::simulate::workload`]), and kinds of processors.

mod build;
mod describe;
mod grid_quantity;
mod grid_table;
mod problems;
mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use cospan_domain::acquisition::BenchmarkScores;
use cospan_domain::ids::{LogicalName, SiteName};
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Mflops};
use thiserror::Error;

use crate::simulate::reserving_jobs::ReservationWorkload;
use crate::simulate::workload::EstimateSource;
use crate::world::batch::QueueDiscipline;

pub use build::{
    BuiltGrid, BuiltLink, BuiltSite, EVENTS_PER_SITE_MAX, FailureLogNotes, GridBuildError,
    GridBuildOptions, LocalJob, NodeOutage, SiteLogNotes,
};
pub use problems::{GridProblem, GridProblems};

/// The largest number of sites in a grid; each pair of them has links.
pub const SITES_MAX: usize = 1000;
/// The largest number of nodes of a site.
pub const NODES_MAX: u32 = 1_000_000;
/// The largest number of processors of a node.
pub const PROCESSORS_PER_NODE_MAX: u32 = 1024;

/// A grid as its file describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// The sites, at least one, in the order of the file.
    pub sites: Vec<DescribedSite>,
    /// The links that are given, in the order of the file.
    pub links: Vec<GridLink>,
    /// Properties of the links between sites that have no link of their own.
    pub network: NetworkDefaults,
    /// The jobs that want reservations.
    pub reservations: Option<ReservationWorkload>,
}

/// A site.
#[derive(Debug, Clone, PartialEq)]
pub struct DescribedSite {
    /// The name, unlike that of any other site.
    pub name: SiteName,
    /// The number of nodes, 1 to [`NODES_MAX`].
    pub nodes: u32,
    /// Processors of each node, 1 to [`PROCESSORS_PER_NODE_MAX`].
    pub processors_per_node: u32,
    /// The order in which its batch system starts jobs.
    pub discipline: QueueDiscipline,
    /// Jobs of its local users, which do not pass through the control plane.
    pub local_load: Option<LocalLoad>,
    /// The failures of its nodes.
    pub failures: Option<FailureSource>,
    /// The rate at which its nodes look idle and fail all that is started on them.
    pub black_holes: Option<BlackHoleNodes>,
    /// Files that lie there from the start.
    pub files: BTreeMap<LogicalName, Bytes>,
    /// True if components may wait in its queue when no suitable processors are idle.
    pub queues: bool,
    /// True if it grants reservations. Then nothing waits there.
    pub reserves: bool,
    /// Computing power of each of its processors, for jobs that ask for it.
    pub power_per_processor: Option<Mflops>,
    /// Results of its benchmarks, for jobs that have sites ranked.
    pub benchmarks: BenchmarkScores,
    /// Bandwidth for sending to each other site that has a `download`, where no link gives it.
    pub upload: Option<BitsPerSecond>,
    /// Bandwidth for receiving from each other site that has an `upload`.
    pub download: Option<BitsPerSecond>,
}

/// The jobs of local users at a site.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalLoad {
    /// The source of the jobs.
    pub source: LocalJobSource,
    /// The source of their estimates.
    pub estimates: EstimateSource,
    /// Factor of all estimates: above 0.
    pub estimates_times: f64,
}

/// A source of local jobs.
#[derive(Debug, Clone, PartialEq)]
pub enum LocalJobSource {
    /// A job log in Standard Workload Format.
    Log {
        /// The log, plain or compressed with gzip or xz.
        path: PathBuf,
        /// Time in the log at which the simulation begins; earlier jobs are left out.
        start: DurationMs,
    },
    /// A model, set to a load.
    Model {
        /// The model.
        model: LocalJobModel,
        /// Requested processor time, as a share of the available one; above 0, at most 10.
        utilization: f64,
    },
    /// Dummy jobs that hold the load of the site at a level.
    Level(LoadLevel),
}

/// A level of local load: `least` of the processors are in use all the time; of those
/// between `least` and `most` each node is, in turn, in use and free.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadLevel {
    /// Share of the processors, 0 to 1.
    pub least: f64,
    /// Share of the processors, from `least` to 1.
    pub most: f64,
    /// Mean time that such a node is in use, and that it is free; exponential.
    pub mean_run_time: DurationMs,
}

/// A model that generates local jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalJobModel {
    /// Lublin and Feitelson's model for a machine of this size, its times
    /// between arrivals stretched or shrunk to give the load. So its daily
    /// cycle is stretched or shrunk too.
    Lublin,
    /// Poisson arrivals and exponential run times.
    Poisson {
        /// The mean run time.
        mean_run_time: DurationMs,
        /// Processors of a job: each entry is equally likely.
        sizes: Vec<u32>,
    },
}

/// A source of node failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureSource {
    /// A failure log in the form of Los Alamos National Laboratory.
    Log {
        /// The log, plain or compressed with gzip or xz.
        path: PathBuf,
        /// The machine of the log whose failures are used.
        system: u32,
        /// Time from that machine's first failure to the begin of the simulation; earlier failures
        /// are left out.
        start: DurationMs,
        /// True if the nodes of the log are permuted by chance; otherwise they keep their numbers.
        shuffled: bool,
    },
    /// Each node by itself: up and down in turn for exponential times, up at first.
    Exponential {
        /// Mean time that a node is up.
        mean_between_failures: DurationMs,
        /// Mean time that a node is down.
        mean_repair: DurationMs,
    },
}

/// Nodes that stay in service, and fail all that is started on them: in turn with times in which
/// they are well, both exponential, well at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlackHoleNodes {
    /// Mean time that a node is well.
    pub mean_between_failures: DurationMs,
    /// Mean time that it fails everything.
    pub mean_repair: DurationMs,
}

/// A link between two sites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridLink {
    /// The site where it begins.
    pub from: SiteName,
    /// The site where it ends; another one.
    pub to: SiteName,
    /// The bandwidth; 0 means that nothing can be copied.
    pub bandwidth: BitsPerSecond,
    /// The bandwidth that the control plane is given.
    pub believed: BitsPerSecond,
    /// Time until the first bit arrives.
    pub latency: DurationMs,
    /// True if there is an equal link in the other direction.
    pub both_ways: bool,
}

/// The links between sites for which none is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkDefaults {
    /// The bandwidth of each.
    pub bandwidth: BitsPerSecond,
    /// Time until the first bit arrives.
    pub latency: DurationMs,
}

impl Default for NetworkDefaults {
    /// 1 Gbit/s and 1 ms.
    fn default() -> Self {
        Self {
            bandwidth: BitsPerSecond(1_000_000_000),
            latency: DurationMs(1),
        }
    }
}

/// The reason why there is no grid.
#[derive(Debug, Error)]
pub enum GridError {
    /// The file cannot be read.
    #[error("cannot read the grid file {file}: {cause}; check its path")]
    Unreadable { file: PathBuf, cause: io::Error },
    /// The content is invalid; all problems at once.
    #[error("{0}")]
    Wrong(GridProblems),
}

impl DescribedSite {
    pub fn processors(&self) -> u32 {
        self.nodes.saturating_mul(self.processors_per_node)
    }
}

impl Grid {
    /// Reads and checks a grid file. Logs that it names are resolved relative to its own directory,
    /// and not read yet.
    ///
    /// # Errors
    /// The file cannot be read, or anything in it is wrong.
    pub fn load(file: &Path) -> Result<Self, GridError> {
        let text = std::fs::read_to_string(file).map_err(|cause| GridError::Unreadable {
            file: file.into(),
            cause,
        })?;
        Self::parse(file, &text).map_err(GridError::Wrong)
    }

    /// Reads and checks the text of a grid file; `file` is for messages and
    /// for the directory of the logs.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn parse(file: &Path, text: &str) -> Result<Self, GridProblems> {
        read::parse_grid(file, text)
    }

    /// The processors of each site, in the order of the sites.
    pub fn processors_by_site(&self) -> Vec<u32> {
        self.sites.iter().map(DescribedSite::processors).collect()
    }

    pub fn processors(&self) -> u64 {
        self.sites
            .iter()
            .map(|site| u64::from(site.processors()))
            .sum()
    }
}
