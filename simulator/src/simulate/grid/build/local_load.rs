//! Jobs that local users submit to a site.

use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;
use rand_distr::Exp1;

use super::super::{DescribedSite, LocalJobModel, LocalJobSource};
use super::{EVENTS_PER_SITE_MAX, GridBuildError, GridBuildOptions, LocalJob, dummy_load};
use crate::models::lublin::{LublinGenerator, LublinParameters};
use crate::models::poisson::PoissonArrivals;
use crate::models::{GeneratedJob, ModelParameterError};
use crate::simulate::random_streams::random_stream;
use crate::simulate::workload::{
    JobSourceNotes, RawJob, RunTimeAndEstimate, log_jobs, settle_times, stretch_estimates,
};

/// Jobs drawn to find the load that the Lublin-Feitelson model gives by itself.
const PILOT_JOBS: usize = 50_000;
/// The pilot is the same for all simulations: its load does not depend on their seeds.
const PILOT_SEED: u64 = 0;

/// Requested processor time, relative to the time available between the first and the last
/// submission. Exact, as run times grow with sizes.
fn exact_load(jobs: &[GeneratedJob], processors: u32) -> f64 {
    let asked: f64 = jobs
        .iter()
        .map(|job: &GeneratedJob| f64::from(job.processors) * job.run_time.0 as f64)
        .sum();
    let last = jobs
        .last()
        .map_or(DurationMs(1), |job| job.submitted.max(DurationMs(1)));
    asked / (f64::from(processors) * last.0 as f64)
}

/// The jobs by time, with notes about them.
pub(super) fn local_jobs(
    site: &DescribedSite,
    options: &GridBuildOptions,
) -> Result<(Vec<LocalJob>, JobSourceNotes), GridBuildError> {
    let Some(load) = &site.local_load else {
        return Ok((Vec::new(), JobSourceNotes::default()));
    };
    let (raw, mut notes) = match &load.source {
        LocalJobSource::Log { path, start } => {
            let part = (
                *start,
                DurationMs(start.0.saturating_add(options.horizon.0)),
            );
            log_jobs(path, options.on_bad, site.processors(), part).map_err(|cause| {
                GridBuildError::Source {
                    site: site.name.clone(),
                    cause,
                }
            })?
        }
        LocalJobSource::Model { model, utilization } => (
            generate_jobs(site, model, *utilization, options)?,
            JobSourceNotes::default(),
        ),
        LocalJobSource::Level(held) => (
            dummy_load::level_jobs(site, held, options)?,
            JobSourceNotes::default(),
        ),
    };
    let mut rng = random_stream(options.seed, "local estimates", site.name.as_str());
    let times =
        settle_times(raw.iter(), load.estimates, &mut notes, &mut rng).map_err(|cause| {
            GridBuildError::Estimates {
                site: site.name.clone(),
                cause,
            }
        })?;
    let times = stretch_estimates(times, load.estimates_times);
    Ok((
        raw.iter()
            .zip(times)
            .map(|(job, times): (&RawJob, RunTimeAndEstimate)| LocalJob {
                at: options.begin + job.submitted,
                processors: job.processors,
                run_time: times.run_time,
                estimate: times.estimate,
            })
            .collect(),
        notes,
    ))
}

fn generate_jobs(
    site: &DescribedSite,
    model: &LocalJobModel,
    utilization: f64,
    options: &GridBuildOptions,
) -> Result<Vec<RawJob>, GridBuildError> {
    let mut rng = random_stream(options.seed, "local load", site.name.as_str());
    let generator = match model {
        LocalJobModel::Lublin => LocalJobGenerator::lublin_model(site.processors(), utilization),
        LocalJobModel::Poisson {
            mean_run_time,
            sizes,
        } => {
            LocalJobGenerator::poisson_model(site.processors(), utilization, *mean_run_time, sizes)
        }
    };
    let mut generator = generator.map_err(|cause| GridBuildError::Model {
        site: site.name.clone(),
        cause,
    })?;
    let mut jobs = Vec::new();
    loop {
        let job = generator.next_job(&mut rng);
        if job.submitted >= options.horizon {
            return Ok(jobs);
        }
        if jobs.len() == EVENTS_PER_SITE_MAX {
            return Err(GridBuildError::TooMany {
                site: site.name.clone(),
                what: "local jobs",
            });
        }
        jobs.push(RawJob::from_generated(jobs.len() as u64 + 1, &job));
    }
}

enum LocalJobGenerator<'m> {
    Lublin {
        jobs: Box<LublinGenerator>,
        stretch: f64,
    },
    Poisson {
        arrivals: PoissonArrivals,
        mean_run_time: DurationMs,
        sizes: &'m [u32],
    },
}

impl<'m> LocalJobGenerator<'m> {
    /// The model for this many processors, with gaps stretched to the load.
    fn lublin_model(processors: u32, utilization: f64) -> Result<Self, ModelParameterError> {
        let parameters = LublinParameters::default().for_system(processors);
        let jobs = Box::new(LublinGenerator::new(&parameters)?);
        let mut rng = random_stream(PILOT_SEED, "pilot of the Lublin-Feitelson model", "");
        let pilot = jobs.clone().jobs(PILOT_JOBS, &mut rng);
        let natural = exact_load(&pilot, processors);
        Ok(Self::Lublin {
            jobs,
            stretch: natural / utilization,
        })
    }

    /// The Poisson model, whose gap follows from load, size and run time.
    fn poisson_model(
        processors: u32,
        utilization: f64,
        mean_run_time: DurationMs,
        sizes: &'m [u32],
    ) -> Result<Self, ModelParameterError> {
        let sum: f64 = sizes.iter().map(|size| f64::from(*size)).sum();
        let mean_work = sum / sizes.len() as f64 * mean_run_time.0 as f64;
        let mean_gap = mean_work / (utilization * f64::from(processors));
        let arrivals = PoissonArrivals::new(DurationMs(mean_gap.round() as u64))?;
        Ok(Self::Poisson {
            arrivals,
            mean_run_time,
            sizes,
        })
    }

    fn next_job(&mut self, rng: &mut StdRng) -> GeneratedJob {
        match self {
            Self::Lublin { jobs, stretch } => {
                let job = jobs.next_job(rng);
                let submitted = DurationMs((job.submitted.0 as f64 * *stretch).round() as u64);
                GeneratedJob { submitted, ..job }
            }
            Self::Poisson {
                arrivals,
                mean_run_time,
                sizes,
            } => {
                let run_time = rng.sample::<f64, _>(Exp1) * mean_run_time.0 as f64;
                GeneratedJob {
                    submitted: arrivals.next_arrival(rng),
                    run_time: DurationMs(run_time.ceil() as u64),
                    processors: sizes[rng.random_range(0..sizes.len())],
                    interactive: false,
                }
            }
        }
    }
}
