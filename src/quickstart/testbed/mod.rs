//! `cospan quickstart --testbed`: the same on two real clusters under Slurm, one of which loses
//! its controller in the middle.

mod clusters;
mod job;
mod story;

use serde::Serialize;

use super::demo_directory::DemoDirectory;
use super::server::DemoShared;
use super::tell::Teller;
use super::{EndOnDrop, QuickstartError, QuickstartOptions, end_on_signals};
use clusters::SlurmClusters;
use story::TestbedStory;

/// What was done and what came of it.
#[derive(Debug, Clone, Serialize)]
pub struct TestbedReport {
    /// Everything was as it must be.
    pub right: bool,
    /// Where everything is.
    pub directory: String,
    /// Address of the API.
    pub server: String,
    /// The server still runs, as this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_pid: Option<u32>,
    /// The job.
    pub job: u64,
    /// Co-allocations that it took: one, unless the cluster forgot the job with its controller.
    pub rounds: u32,
    /// The components.
    pub components: Vec<PartReport>,
    /// Between the first and the last component's beginning.
    pub spread_ms: u64,
    /// From submission until all had begun.
    pub start_ms: u64,
    /// The cluster whose controller was killed.
    pub hurt: String,
}

/// One component.
#[derive(Debug, Clone, Serialize)]
pub struct PartReport {
    /// Its name.
    pub name: String,
    /// Its processors.
    pub processors: u32,
    /// Where it ran.
    pub cluster: String,
    /// It printed each of its parts once.
    pub whole: bool,
}

/// Does it, and tells of it. No process is left, unless everything went well and is to be kept.
///
/// # Errors
/// It could not be done. That a component did not do all of its work is no error, but in the
/// report.
pub fn run(options: &QuickstartOptions) -> Result<TestbedReport, QuickstartError> {
    let clusters = SlurmClusters::prepare()?;
    let demo = DemoDirectory::prepare(Some(&clusters.directory()?))?;
    let shared = DemoShared::new(demo.clone(), Box::new(clusters.clone()));
    end_on_signals(shared.clone())?;
    let mut unwatched = EndOnDrop(Some(shared.clone()));
    let teller = Teller::new(options.silent);
    let report = TestbedStory {
        demo,
        clusters,
        keep: options.keep,
        teller,
    }
    .tell(&shared)?;
    unwatched.0 = None;
    Ok(report)
}

/// Removes all that it made or installed on this machine.
///
/// # Errors
/// The caller is not root, or something is left.
pub fn remove() -> Result<(), QuickstartError> {
    clusters::remove()
}
