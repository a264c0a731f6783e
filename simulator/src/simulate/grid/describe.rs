//! Descriptions of grids for reports, in a line each.

use cospan_domain::units::{BitsPerSecond, Mflops};

use super::{
    BlackHoleNodes, DescribedSite, FailureSource, Grid, LoadLevel, LocalJobModel, LocalJobSource,
    LocalLoad,
};
use crate::world::batch::QueueDiscipline;

impl Grid {
    /// Describes the grid in a line: numbers of sites, nodes, processors and links.
    pub fn describe(&self) -> String {
        let nodes: u64 = self.sites.iter().map(|site| u64::from(site.nodes)).sum();
        let network = &self.network;
        format!(
            "{}, {nodes} nodes, {} processors; {} given, others {} and {}",
            count_noun(self.sites.len(), "site"),
            self.processors(),
            count_noun(self.links.len(), "link"),
            format_rate(network.bandwidth),
            network.latency,
        )
    }
}

impl DescribedSite {
    /// Describes the site in a line: size, scheduler, local load, failures, files.
    pub fn describe(&self) -> String {
        let mut parts = vec![format!(
            "{}: {} x {} processors, {}",
            self.name,
            self.nodes,
            self.processors_per_node,
            discipline_name(self.discipline),
        )];
        parts.extend(
            self.queues
                .then(|| "components may wait in its queue".to_owned()),
        );
        parts.extend(self.reserves.then(|| "grants reservations".to_owned()));
        parts.extend(
            self.power_per_processor
                .map(|power: Mflops| format!("{} GFLOPS each processor", power.0 as f64 / 1e3)),
        );
        parts.extend(self.local_load.as_ref().map(LocalLoad::describe));
        parts.extend(self.failures.as_ref().map(FailureSource::describe));
        parts.extend(self.black_holes.as_ref().map(BlackHoleNodes::describe));
        if !self.files.is_empty() {
            parts.push(count_noun(self.files.len(), "file"));
        }
        parts.join("; ")
    }
}

impl LocalLoad {
    /// Describes the source of local jobs and their estimates, as part of a line.
    pub fn describe(&self) -> String {
        let source = match &self.source {
            LocalJobSource::Log { path, start } => {
                format!("log {} from {start} on", path.display())
            }
            LocalJobSource::Model { model, utilization } => {
                format!("{} at {:.1} %", model.name(), utilization * 100.0)
            }
            LocalJobSource::Level(LoadLevel { least, most, .. }) => {
                format!("held at {:.1} to {:.1} %", least * 100.0, most * 100.0)
            }
        };
        format!(
            "local load: {source}, estimates {}",
            self.estimates.describe_times(self.estimates_times)
        )
    }
}

impl LocalJobModel {
    /// The name in grid files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Lublin => "lublin",
            Self::Poisson { .. } => "poisson",
        }
    }
}

impl FailureSource {
    /// Describes the failures of nodes, as part of a line.
    pub fn describe(&self) -> String {
        match self {
            Self::Log {
                path,
                system,
                start,
                shuffled,
            } => {
                let nodes = if *shuffled { ", nodes shuffled" } else { "" };
                let path = path.display();
                format!("failures: log {path} of system {system} from {start} on{nodes}")
            }
            Self::Exponential {
                mean_between_failures,
                mean_repair,
            } => {
                format!("failures: each node every {mean_between_failures}, for {mean_repair}")
            }
        }
    }
}

impl BlackHoleNodes {
    /// Describes the black holes, as part of a line.
    pub fn describe(&self) -> String {
        let Self {
            mean_between_failures,
            mean_repair,
        } = self;
        format!("black holes: each node every {mean_between_failures}, for {mean_repair}")
    }
}

/// The name of a discipline in grid files.
pub(super) fn discipline_name(discipline: QueueDiscipline) -> &'static str {
    match discipline {
        QueueDiscipline::Fcfs => "fcfs",
        QueueDiscipline::Easy => "easy",
        QueueDiscipline::Conservative => "conservative",
    }
}

fn count_noun(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

fn format_rate(bandwidth: BitsPerSecond) -> String {
    const UNITS: [(u64, &str); 3] = [
        (1_000_000_000, "Gbit/s"),
        (1_000_000, "Mbit/s"),
        (1_000, "kbit/s"),
    ];
    match UNITS.iter().find(|(unit, _)| bandwidth.0 >= *unit) {
        Some((unit, name)) => format!("{} {name}", bandwidth.0 as f64 / *unit as f64),
        None => format!("{} bit/s", bandwidth.0),
    }
}
