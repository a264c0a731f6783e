//! Jobs that are promised a start, through the actors and a store on disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use cospan_domain::acquire::ReservationWish;
use cospan_domain::job::spec::JobSpec;
use cospan_domain::job::state::PhaseKind;
use cospan_domain::reserve::StartWindow;
use cospan_domain::units::DurationMs;

use crate::bench::place::{Scene, granting_scene, job};
use crate::bench::report::Report;

const HOUR: DurationMs = DurationMs::from_secs(3_600);
const DAY: DurationMs = DurationMs::from_secs(86_400);

pub(super) fn bench(report: &mut Report, place: &Path, quick: bool) -> Result<()> {
    let share = move |count: usize| if quick { count / 10 } else { count };
    crate::cli::progress("jobs with one reservation each at one site");
    let rate = granting_scene(&place.join("one"), 1, move |s| promised(s, share(10_000), &[1]))?;
    report.figure("reserve_jobs_per_min", rate * 60.0, "1/min", ">= 30000");
    crate::cli::progress("co-allocations of three components");
    let parts = &[1, 1, 1];
    let rate = granting_scene(&place.join("three"), 3, move |s| promised(s, share(2_000), parts))?;
    report.figure("coalloc_per_s", rate, "1/s", ">= 300");
    Ok(())
}

/// Jobs a second, from their submission until all that they need is confirmed.
async fn promised(scene: Scene, jobs: usize, components: &'static [u32]) -> Result<f64> {
    let earliest = scene.plane.now() + HOUR;
    let wish = |number: usize| {
        let earliest = earliest + DurationMs(number as u64 * 1_000);
        let window = StartWindow::new(earliest, earliest + DAY);
        ReservationWish { window, tolerance: DurationMs::ZERO }
    };
    let begun = Instant::now();
    scene
        .fill(jobs, |number| {
            let mut spec = JobSpec::clone(&*job(components)?);
            spec.run.reservation = Some(wish(number));
            Ok(Arc::new(spec))
        })
        .await?;
    scene.until("all are promised a start", |p| Scene::count(p, PhaseKind::Placed) == jobs).await?;
    Ok(jobs as f64 / begun.elapsed().as_secs_f64())
}
