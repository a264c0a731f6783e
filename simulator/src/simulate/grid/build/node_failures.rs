//! The failures of a site's nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand_distr::Exp1;

use super::super::{BlackHoleNodes, DescribedSite, FailureSource, NODES_MAX};
use super::{EVENTS_PER_SITE_MAX, GridBuildError, GridBuildOptions, NodeOutage};
use crate::simulate::random_streams::random_stream;
use crate::simulate::workload::{JobSourceError, open_log, reading_for};
use cospan_languages::logs::{FailureLogReader, LogComplaints, LoggedFailure};

/// A node that fails is down for some time, even where a log says otherwise.
const SHORTEST_REPAIR: DurationMs = DurationMs(1);

/// Notes about a failure log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailureLogNotes {
    /// Complaints about the log, if there was one.
    pub log: Option<LogComplaints>,
    /// Failures left out because the log has them before the chosen start.
    pub before_start: u64,
    /// Failures left out because the log has them after the end of the
    /// simulation.
    pub after_end: u64,
    /// Failures left out because the site has no node of that number.
    pub unknown_nodes: u64,
    /// Failures of nodes that were down already; only their repair counts, if it
    /// comes later.
    pub while_down: u64,
    /// Failures repaired at once; the node is then down for 1 ms.
    pub repairs_raised: u64,
}

impl FailureLogNotes {
    fn counted_kinds(&self) -> [(u64, &'static str); 5] {
        [
            (self.before_start, "before the start, left out"),
            (self.after_end, "after the end, left out"),
            (
                self.unknown_nodes,
                "of nodes that the site does not have, left out",
            ),
            (self.while_down, "of nodes that were down already, joined"),
            (self.repairs_raised, "repaired at once, taken to last 1 ms"),
        ]
    }

    /// Returns true if all failures were used as they are.
    pub fn is_empty(&self) -> bool {
        let counted = self.counted_kinds().iter().all(|(count, _)| *count == 0);
        counted && self.log.as_ref().is_none_or(LogComplaints::is_empty)
    }
}

impl fmt::Display for FailureLogNotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = self.log.as_ref().map(LogComplaints::to_string);
        let counted = self
            .counted_kinds()
            .into_iter()
            .filter(|(count, _)| *count > 0);
        let counted = counted.map(|(count, what)| format!("{count} {what}"));
        let parts: Vec<String> = log.into_iter().chain(counted).collect();
        f.write_str(&parts.join("; "))
    }
}

/// The failures by time and node, with notes about them.
pub(super) fn node_failures(
    site: &DescribedSite,
    options: &GridBuildOptions,
) -> Result<(Vec<NodeOutage>, FailureLogNotes), GridBuildError> {
    let mut notes = FailureLogNotes::default();
    let mut failures = match &site.failures {
        None => Vec::new(),
        Some(FailureSource::Log {
            path,
            system,
            start,
            shuffled,
        }) => {
            let mut logged = read_log(path, *system, options, &mut notes).map_err(|cause| {
                GridBuildError::Source {
                    site: site.name.clone(),
                    cause,
                }
            })?;
            if *shuffled {
                shuffle_nodes(&mut logged, site, options.seed);
            }
            place_failures(&logged, *start, site.nodes, options, &mut notes)
        }
        Some(FailureSource::Exponential {
            mean_between_failures,
            mean_repair,
        }) => draw_failures(
            site,
            "node failures",
            *mean_between_failures,
            *mean_repair,
            options,
        )?,
    };
    failures.sort();
    Ok((failures, notes))
}

/// The times at which nodes fail all that is started on them, by time and node.
pub(super) fn black_holes(
    site: &DescribedSite,
    options: &GridBuildOptions,
) -> Result<Vec<NodeOutage>, GridBuildError> {
    let Some(BlackHoleNodes {
        mean_between_failures,
        mean_repair,
    }) = site.black_holes
    else {
        return Ok(Vec::new());
    };
    let mut holes = draw_failures(
        site,
        "black holes",
        mean_between_failures,
        mean_repair,
        options,
    )?;
    holes.sort();
    Ok(holes)
}

/// Reads the failures of one machine, by time.
fn read_log(
    path: &Path,
    system: u32,
    options: &GridBuildOptions,
    notes: &mut FailureLogNotes,
) -> Result<Vec<LoggedFailure>, JobSourceError> {
    let mut reader = FailureLogReader::new(
        open_log(path)?,
        reading_for(path, options.on_bad),
        Some(system),
    )?;
    let mut failures = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    notes.log = Some(reader.complaints().clone());
    failures.sort_by_key(|failure| failure.started);
    Ok(failures)
}

/// Permutes the node numbers of the log, including those above the nodes of the site, so that a
/// part of a larger machine is a random part of it.
fn shuffle_nodes(logged: &mut [LoggedFailure], site: &DescribedSite, seed: u64) {
    let known = logged
        .iter()
        .map(|failure| failure.node)
        .filter(|node| *node < NODES_MAX);
    let count = known.max().map_or(0, |last| last + 1).max(site.nodes);
    let mut numbers: Vec<u32> = (0..count).collect();
    numbers.shuffle(&mut random_stream(
        seed,
        "nodes of the failure log",
        site.name.as_str(),
    ));
    for failure in logged {
        failure.node = numbers
            .get(failure.node as usize)
            .copied()
            .unwrap_or(failure.node);
    }
}

/// Moves logged failures to the time and the nodes of the simulation.
fn place_failures(
    logged: &[LoggedFailure],
    start: DurationMs,
    nodes: u32,
    options: &GridBuildOptions,
    notes: &mut FailureLogNotes,
) -> Vec<NodeOutage> {
    let origin = logged.first().map_or(Timestamp(0), |first| first.started) + start;
    let mut of_node: BTreeMap<u32, Vec<NodeOutage>> = BTreeMap::new();
    for failure in logged {
        let LoggedFailure {
            node,
            started,
            repaired,
            ..
        } = *failure;
        let since = started.since(origin);
        if started < origin {
            notes.before_start += 1;
        } else if since >= options.horizon {
            notes.after_end += 1;
        } else if node >= nodes {
            notes.unknown_nodes += 1;
        } else {
            let length = repaired.since(started);
            notes.repairs_raised += u64::from(length < SHORTEST_REPAIR);
            let repair = length.max(SHORTEST_REPAIR);
            let down = NodeOutage {
                at: options.begin + since,
                node,
                repair,
            };
            notes.while_down += u64::from(join_failure(of_node.entry(node).or_default(), down));
        }
    }
    of_node.into_values().flatten().collect()
}

/// Adds the next failure of a node; returns true if the node was still down.
fn join_failure(earlier: &mut Vec<NodeOutage>, next: NodeOutage) -> bool {
    match earlier
        .last_mut()
        .filter(|last| next.at <= last.at + last.repair)
    {
        None => {
            earlier.push(next);
            false
        }
        Some(last) => {
            let end = (next.at + next.repair).max(last.at + last.repair);
            last.repair = end.since(last.at);
            true
        }
    }
}

/// Draws failures. Each node has its own stream, so that neither the number of nodes nor the
/// horizon changes the failures of the others.
fn draw_failures(
    site: &DescribedSite,
    what: &'static str,
    mean_up: DurationMs,
    mean_down: DurationMs,
    options: &GridBuildOptions,
) -> Result<Vec<NodeOutage>, GridBuildError> {
    let mut failures = Vec::new();
    for node in 0..site.nodes {
        let place = format!("{} {node}", site.name);
        let mut rng = random_stream(options.seed, what, &place);
        let mut since = draw_exponential(mean_up, &mut rng);
        while since < options.horizon {
            if failures.len() == EVENTS_PER_SITE_MAX {
                let site = site.name.clone();
                return Err(GridBuildError::TooMany { site, what });
            }
            let repair = draw_exponential(mean_down, &mut rng);
            failures.push(NodeOutage {
                at: options.begin + since,
                node,
                repair,
            });
            since = since + repair + draw_exponential(mean_up, &mut rng);
        }
    }
    Ok(failures)
}

/// Draws a time with this mean, at least 1 ms.
fn draw_exponential(mean: DurationMs, rng: &mut StdRng) -> DurationMs {
    let length: f64 = rng.sample(Exp1);
    DurationMs((length * mean.0 as f64).ceil() as u64).max(SHORTEST_REPAIR)
}
