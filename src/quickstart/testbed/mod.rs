//! `cospan quickstart --testbed`: the same on two real clusters under Slurm, one of which loses its
//! controller in the middle.

mod testbed_clusters;
mod testbed_job;
mod testbed_steps;

use serde::Serialize;

use super::demo_directory::DemoDirectory;
use super::demo_server::DemoSharedState;
use super::narrator::DemoNarrator;
use super::{DemoEndGuard, QuickstartError, QuickstartOptions, end_on_signals};
use testbed_clusters::SlurmClusters;
use testbed_steps::TestbedRun;

/// The report of the demonstration.
#[derive(Debug, Clone, Serialize)]
pub struct TestbedReport {
    /// True if every component did all of its work.
    pub right: bool,
    /// Directory of all files.
    pub directory: String,
    /// Address of the API.
    pub server: String,
    /// The process of the server, if it still runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_pid: Option<u32>,
    pub job: u64,
    /// Rounds that the job took: one, unless the cluster forgot the job with its controller.
    pub rounds: u32,
    pub components: Vec<TestbedComponentReport>,
    /// Milliseconds between the first and the last start of a component.
    pub spread_ms: u64,
    /// Milliseconds from submission until all had started.
    pub start_ms: u64,
    /// The cluster whose controller was killed.
    pub hurt: String,
}

/// A component.
#[derive(Debug, Clone, Serialize)]
pub struct TestbedComponentReport {
    pub name: String,
    pub processors: u32,
    /// The cluster where it ran.
    pub cluster: String,
    /// True if it printed each of its parts once.
    pub whole: bool,
}

/// Runs the demonstration and describes it. No process is left, unless everything went well and is
/// to be kept.
///
/// # Errors
/// The demonstration could not be done. A component that did not do all of its work is no error,
/// but is in the report.
pub fn run(options: &QuickstartOptions) -> Result<TestbedReport, QuickstartError> {
    let clusters = SlurmClusters::prepare()?;
    let demo = DemoDirectory::prepare(Some(&clusters.create_directory()?))?;
    let shared = DemoSharedState::new(demo.clone(), Box::new(clusters.clone()));
    end_on_signals(shared.clone())?;
    let mut unwatched = DemoEndGuard(Some(shared.clone()));
    let teller = DemoNarrator::new(options.silent);
    let report = TestbedRun {
        demo,
        clusters,
        keep: options.keep,
        teller,
    }
    .run_steps(&shared)?;
    unwatched.0 = None;
    Ok(report)
}

/// Removes all that the demonstration made or installed on this machine.
///
/// # Errors
/// The caller is not root, or something is left.
pub fn remove() -> Result<(), QuickstartError> {
    testbed_clusters::remove_testbed()
}
