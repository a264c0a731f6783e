//! Placement: the cost of a decision and of a scan, and the rate at which the actors place.

mod bids;
mod core;
mod granting;
mod plane;
mod stub;

use std::path::Path;

use anyhow::Result;

use super::floors;
use super::report::BenchReport;
pub(super) use plane::{PlaneScene, granting_scene, job};
pub(super) use stub::{NAME_LABEL, PROCESSORS};

pub(super) fn bench(place: &Path, quick: bool) -> Result<BenchReport> {
    let mut report = BenchReport::new("place");
    report.floor(
        "floor_fdatasync_per_s",
        floors::fdatasync_per_s(place)?,
        "1/s",
    );
    crate::cli::progress("decisions and scans");
    core::decisions(&mut report, quick)?;
    core::scans(&mut report, if quick { 10_000 } else { 100_000 })?;
    plane::bench(&mut report, place, quick)?;
    bids::bench(&mut report, place, quick)?;
    Ok(report)
}
