//! `cospan-bench`: the speed of Cospan on this machine, next to what the machine can do at
//! all. Every figure comes with its floors from the same run.

mod args;
pub mod command;
mod fairness;
mod forged_store;
mod interrupt;
mod load;
mod machine_limits;
mod measured_program;
mod placement;
mod recover;
mod report;
mod reservations;
mod run;
mod server;
mod simulate;
mod sites;
mod submit;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub use forged_store::forge_store;
pub use machine_limits::serve_floor;
pub use report::{BenchFigure, BenchReport};
pub use sites::{CallBenchSettings, CallFigures, measure_calls};

/// The bench to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BenchKind {
    /// Durable submissions over HTTP.
    Submit,
    /// The time of one submission while another user asks for as much as possible.
    Crowd,
    /// The time from kill -9 to the first placement.
    Recover,
    /// Local components, from start to finish.
    Run,
    /// Decisions, scans, and placements through the actors.
    Place,
    /// Reservations: timelines, the search for a co-allocation, reserved starts through the actors,
    /// and the growth of fits with the jobs of a log.
    Reserve(Option<ClusterLog>),
    /// Jobs through the control plane under virtual time; also the jobs of a log, if one is given.
    Simulate(Option<ClusterLog>),
    /// Clusters under Slurm, in full or in short.
    Sites {
        /// True for the full extent.
        full: bool,
    },
}

/// A job log and the cluster that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterLog {
    /// The log in Standard Workload Format, plain or compressed.
    pub file: PathBuf,
    /// Processors of the cluster.
    pub processors: u32,
}

/// The settings of a run of a bench.
#[derive(Debug, Clone)]
pub struct BenchSettings {
    pub bench: BenchKind,
    /// Directory for the files of the bench: on a disk, created and removed by the bench.
    pub directory: PathBuf,
    /// Does a tenth of the work, to check that the bench runs; the figures mean little.
    pub quick: bool,
}

/// Prints the progress of long work on standard error.
pub(crate) fn print_progress(text: &str) {
    cospan_printing::terminal::print_error(&format!("{text} ...\n"));
}

/// Runs a bench; progress goes to standard error.
///
/// # Errors
/// Something that the bench needs could not be started, or did not do its work.
pub fn run(plan: &BenchSettings) -> Result<BenchReport> {
    match &plan.bench {
        BenchKind::Submit => run_on_disk(plan, submit::bench),
        BenchKind::Crowd => run_on_disk(plan, fairness::bench),
        BenchKind::Recover => run_on_disk(plan, recover::bench),
        BenchKind::Run => run_on_disk(plan, run::bench),
        BenchKind::Place => run_on_disk(plan, placement::bench),
        BenchKind::Reserve(log) => run_on_disk(plan, |place, quick| {
            reservations::bench(place, quick, log.as_ref())
        }),
        BenchKind::Simulate(log) => simulate::bench(plan.quick, log.as_ref()),
        BenchKind::Sites { full } => sites::bench(*full),
    }
}

/// Runs a bench that writes, in its own directory.
fn run_on_disk(
    plan: &BenchSettings,
    bench: impl FnOnce(&Path, bool) -> Result<BenchReport>,
) -> Result<BenchReport> {
    let directory = tempfile::Builder::new()
        .prefix("cospan-bench-")
        .tempdir_in(&plan.directory)
        .with_context(|| format!("no directory can be made in {}", plan.directory.display()))?;
    let place = directory.path();
    let kind = machine_limits::file_system(place)?;
    if kind == "tmpfs" {
        bail!(
            "{} is in memory (tmpfs), where fsync costs nothing; name another --directory",
            place.display()
        );
    }
    let mut report = bench(place, plan.quick)?;
    report.machine.insert("file_system".into(), kind);
    Ok(report)
}
