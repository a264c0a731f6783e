//! Power cuts under load: of a new server and of one at work.

mod clients;
mod judge;
pub mod machine;
mod report;
mod series;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use signal_hook::consts::{SIGINT, SIGTERM};

pub use self::report::{CutResult, PowerRunResult};
use self::series::Series;
use crate::parallel::at_once;

/// The work under way when the power is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PowerStage {
    /// A new server starts for the first time.
    FirstStart,
    Submissions,
    Keys,
    Uploads,
    Exports,
}

impl PowerStage {
    /// In this order on each disk.
    const ALL: [PowerStage; 5] = [
        PowerStage::FirstStart,
        PowerStage::Submissions,
        PowerStage::Keys,
        PowerStage::Uploads,
        PowerStage::Exports,
    ];
}

impl fmt::Display for PowerStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PowerStage::FirstStart => "first start",
            PowerStage::Submissions => "submissions",
            PowerStage::Keys => "key changes",
            PowerStage::Uploads => "uploads",
            PowerStage::Exports => "exports",
        })
    }
}

/// The options of a run.
#[derive(Debug, Clone)]
pub struct PowerOptions {
    pub binary: PathBuf,
    /// Where images are made; on a disk.
    pub base: PathBuf,
    /// Number of power cuts.
    pub cuts: u32,
    /// Number of disks at the same time.
    pub at_once: usize,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Keep the directories even if all went well.
    pub keep: bool,
}

/// Prints a line for the user.
pub type Show<'a> = &'a (dyn Fn(&str) + Sync);

/// Cuts the power as often as asked, a few times on each disk, and judges.
///
/// # Errors
/// It was interrupted.
pub fn run(options: &PowerOptions, show: Show<'_>) -> Result<PowerRunResult> {
    let begun = Instant::now();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let each = PowerStage::ALL.len() as u32;
    let series: Vec<(u32, u32)> = (0..options.cuts)
        .step_by(PowerStage::ALL.len())
        .map(|first| (first, each.min(options.cuts - first)))
        .collect();
    let mut outcome = PowerRunResult::default();
    at_once(
        &series,
        options.at_once,
        |(first, cuts): &(u32, u32)| Series::run(options, *first, *cuts, &stop, show),
        |_, series| outcome.add(series),
    );
    ensure!(
        !stop.load(Ordering::Relaxed),
        "interrupted; nothing was left behind"
    );
    outcome.took = begun.elapsed();
    Ok(outcome)
}
