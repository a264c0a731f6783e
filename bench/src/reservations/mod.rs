//! Reservations: the cost of a query of a timeline, the search for a co-allocation, rescheduling,
//! and jobs with a reserved start through the actors.

mod flexco;
mod reservation_run;
mod search;
mod timelines;

use std::path::Path;

use anyhow::Result;

use super::ClusterLog;
use super::report::BenchReport;

pub(super) fn bench(place: &Path, quick: bool, log: Option<&ClusterLog>) -> Result<BenchReport> {
    let mut report = BenchReport::new("reserve");
    timelines::bench(&mut report, quick, log)?;
    search::bench(&mut report, quick)?;
    flexco::bench(&mut report, quick)?;
    reservation_run::bench(&mut report, place, quick)?;
    Ok(report)
}

/// The value below which this share of the values lies.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(((values.len() as f64 - 1.0) * share).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}
