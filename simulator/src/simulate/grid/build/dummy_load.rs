//! Local load that dummy jobs keep at a level.

use cospan_domain::units::DurationMs;
use rand::Rng;
use rand_distr::Exp1;

use super::super::{DescribedSite, LoadLevel};
use super::{EVENTS_PER_SITE_MAX, GridBuildError, GridBuildOptions};
use crate::models::GeneratedJob;
use crate::simulate::random_streams::random_stream;
use crate::simulate::workload::RawJob;

/// Shorter times in use or free are raised to this one.
const SHORTEST: DurationMs = DurationMs(1);

/// Draws the dummy jobs by time. One that has to wait for its processors ends later than planned:
/// then the load is above the level for that time.
pub(super) fn level_jobs(
    site: &DescribedSite,
    level: &LoadLevel,
    options: &GridBuildOptions,
) -> Result<Vec<RawJob>, GridBuildError> {
    let processors = f64::from(site.processors());
    let mut jobs = Vec::new();
    let base = (processors * level.least).round() as u32;
    jobs.extend((base > 0).then(|| make_job(DurationMs::ZERO, options.horizon, base)));
    let most = (processors * level.most).round() as u32;
    let nodes = most.saturating_sub(base) / site.processors_per_node;
    for node in 0..nodes {
        for (from, length) in times_in_use(site, node, level.mean_run_time, options) {
            if jobs.len() == EVENTS_PER_SITE_MAX {
                return Err(GridBuildError::TooMany {
                    site: site.name.clone(),
                    what: "local jobs",
                });
            }
            jobs.push(make_job(from, length, site.processors_per_node));
        }
    }
    jobs.sort_by_key(|job| job.submitted);
    Ok((1..)
        .zip(&jobs)
        .map(|(number, job)| RawJob::from_generated(number, job))
        .collect())
}

fn make_job(submitted: DurationMs, run_time: DurationMs, processors: u32) -> GeneratedJob {
    GeneratedJob {
        submitted,
        run_time,
        processors,
        interactive: false,
    }
}

/// Draws the times at which a node is in use, and their lengths; each node draws by itself.
fn times_in_use(
    site: &DescribedSite,
    node: u32,
    mean: DurationMs,
    options: &GridBuildOptions,
) -> impl Iterator<Item = (DurationMs, DurationMs)> {
    let mut rng = random_stream(
        options.seed,
        "local level",
        &format!("{} {node}", site.name),
    );
    let mut in_use: bool = rng.random();
    let mut from = DurationMs::ZERO;
    let turns = std::iter::from_fn(move || {
        let length = (rng.sample::<f64, _>(Exp1) * mean.0 as f64).ceil() as u64;
        let turn = (in_use, from, DurationMs(length).max(SHORTEST));
        from = from + turn.2;
        in_use = !in_use;
        Some(turn)
    });
    let horizon = options.horizon;
    turns
        .take_while(move |(_, from, _)| *from < horizon)
        .filter_map(|(in_use, from, length)| in_use.then_some((from, length)))
}
