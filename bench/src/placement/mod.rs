//! Placement: the cost of a decision and of a scan, and the rate at which the actors place.

mod bids;
mod decisions;
mod memory_site;
mod placement_run;
mod reserving_site;

use std::path::Path;

use anyhow::Result;

use super::machine_limits;
use super::report::BenchReport;
pub(super) use memory_site::{NAME_LABEL, PROCESSORS};
pub(super) use placement_run::{BenchControlPlane, plain_job, run_granting_scene};

pub(super) fn bench(place: &Path, quick: bool) -> Result<BenchReport> {
    let mut report = BenchReport::new("place");
    report.add_floor(
        "floor_fdatasync_per_s",
        machine_limits::fdatasync_per_s(place)?,
        "1/s",
    );
    crate::print_progress("decisions and scans");
    decisions::bench_decisions(&mut report, quick)?;
    decisions::bench_scans(&mut report, if quick { 10_000 } else { 100_000 })?;
    placement_run::bench(&mut report, place, quick)?;
    bids::bench(&mut report, place, quick)?;
    Ok(report)
}
