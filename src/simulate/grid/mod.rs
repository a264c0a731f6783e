//! The grid that is simulated: sites with their batch systems, local users and
//! failures, and the links between sites.
//!
//! A grid is written in a TOML file ([`Grid::load`]), which is checked as a
//! whole. [`Grid::build`] then draws or reads all that will happen at its sites
//! by itself: what local users submit, and which nodes fail when.
//!
//! Deliberately absent: what users submit to the control plane (see
//! [`crate::simulate::workload`]), and kinds of processors.

mod build;
mod describe;
mod problems;
mod quantity;
mod read;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use cospan_domain::acquire::Scores;
use cospan_domain::ids::{LogicalName, SiteName};
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Mflops};
use thiserror::Error;

use crate::simulate::reservations::ReservationWorkload;
use crate::simulate::workload::Estimates;
use cospan_simulator::world::batch::Discipline;

pub use build::{
    BuildError, BuildOptions, BuiltGrid, BuiltLink, BuiltSite, EVENTS_PER_SITE_MAX, FailureNotes,
    LocalJob, NodeDown, SiteNotes,
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
    /// What holds between sites without a link of their own.
    pub network: NetworkDefaults,
    /// Which jobs are to be promised a start.
    pub reservations: Option<ReservationWorkload>,
}

/// A site.
#[derive(Debug, Clone, PartialEq)]
pub struct DescribedSite {
    /// Its name, unlike that of any other site.
    pub name: SiteName,
    /// Its nodes, 1 to [`NODES_MAX`].
    pub nodes: u32,
    /// Processors of each node, 1 to [`PROCESSORS_PER_NODE_MAX`].
    pub processors_per_node: u32,
    /// How its batch system orders jobs.
    pub discipline: Discipline,
    /// What local users submit to it, past the control plane.
    pub local_load: Option<LocalLoad>,
    /// How its nodes fail.
    pub failures: Option<Failures>,
    /// How often its nodes look idle and fail all that is started on them.
    pub black_holes: Option<BlackHoles>,
    /// Files that lie there from the start.
    pub files: BTreeMap<LogicalName, Bytes>,
    /// Whether components may wait in its queue, where nothing that serves them is idle.
    pub queues: bool,
    /// Whether it grants reservations. Then nothing waits there.
    pub reserves: bool,
    /// What each of its processors does, for jobs that ask for computing power.
    pub power_per_processor: Option<Mflops>,
    /// Its results in benchmarks, for jobs that have sites ranked.
    pub benchmarks: Scores,
    /// What it sends to each other site, where no link says it and that one has a `download`.
    pub upload: Option<BitsPerSecond>,
    /// What it receives from each other site that has an `upload`.
    pub download: Option<BitsPerSecond>,
}

/// What local users submit to a site.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalLoad {
    /// Where the jobs come from.
    pub source: LocalSource,
    /// Where their estimates come from.
    pub estimates: Estimates,
    /// How many times as long all estimates are: above 0.
    pub estimates_times: f64,
}

/// Where local jobs come from.
#[derive(Debug, Clone, PartialEq)]
pub enum LocalSource {
    /// A job log in Standard Workload Format.
    Log {
        /// The log, plain or compressed with gzip or xz.
        path: PathBuf,
        /// How far into the log the simulation begins; what was submitted
        /// before is left out.
        start: DurationMs,
    },
    /// A model, set to a load.
    Model {
        /// The model.
        model: LocalModel,
        /// Processor time that is asked for, as a share of what there is; above
        /// 0, at most 10.
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

/// How local jobs are generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalModel {
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

/// How nodes fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failures {
    /// A failure log in the form of Los Alamos National Laboratory.
    Log {
        /// The log, plain or compressed with gzip or xz.
        path: PathBuf,
        /// Which machine's failures are used.
        system: u32,
        /// How long after that machine's first failure the simulation begins;
        /// what failed before is left out.
        start: DurationMs,
        /// Which node of the log is which of the site: drawn, or the same numbers.
        shuffled: bool,
    },
    /// Each node by itself: up and down for exponential times in turn, up at
    /// first.
    Exponential {
        /// Mean time that a node is up.
        mean_between_failures: DurationMs,
        /// Mean time that a node is down.
        mean_repair: DurationMs,
    },
}

/// Nodes that stay in service, and fail all that is started on them: each for exponential times
/// in turn with those in which it is well, well at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlackHoles {
    /// Mean time that a node is well.
    pub mean_between_failures: DurationMs,
    /// Mean time that it fails everything.
    pub mean_repair: DurationMs,
}

/// A link between two sites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridLink {
    /// Where it begins.
    pub from: SiteName,
    /// Where it ends; another site.
    pub to: SiteName,
    /// What it carries; 0 means nothing at all.
    pub bandwidth: BitsPerSecond,
    /// What the control plane is told that it carries.
    pub believed: BitsPerSecond,
    /// How long the first bit takes.
    pub latency: DurationMs,
    /// Whether there is one like it in the other direction.
    pub both_ways: bool,
}

/// The links between sites for which none is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkDefaults {
    /// What each carries.
    pub bandwidth: BitsPerSecond,
    /// How long the first bit takes.
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

/// Why there is no grid.
#[derive(Debug, Error)]
pub enum GridError {
    /// The file cannot be read.
    #[error("cannot read the grid file {file}: {cause}; check its path")]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Its content is wrong; all problems at once.
    #[error("{0}")]
    Wrong(GridProblems),
}

impl DescribedSite {
    /// All its processors.
    pub fn processors(&self) -> u32 {
        self.nodes.saturating_mul(self.processors_per_node)
    }
}

impl Grid {
    /// Reads and checks a grid file. Logs that it names are looked for in its
    /// own directory, and not read yet.
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
        read::grid(file, text)
    }

    /// The processors of each site, in the order of the sites.
    pub fn processors_by_site(&self) -> Vec<u32> {
        self.sites.iter().map(DescribedSite::processors).collect()
    }

    /// All processors.
    pub fn processors(&self) -> u64 {
        self.sites
            .iter()
            .map(|site| u64::from(site.processors()))
            .sum()
    }
}
