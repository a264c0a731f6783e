//! From options to jobs.

use cospan_domain::job::spec::Priority;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::fit::fit_together;
use super::job_source::{lublin_jobs, poisson_jobs};
use super::{
    JOBS_MAX, JobSourceNotes, LOAD_SCALE_MAX, RawJob, RunTimeAndEstimate, UnplaceableJob, Workload,
    WorkloadComplaints, WorkloadError, WorkloadJob, WorkloadOptions, WorkloadSource, WorkloadSplit,
    log_jobs, settle_times, stretch_estimates,
};
use crate::simulate::random_streams::random_stream;
use cospan_languages::logs::BadLineTreatment;

/// The whole of a log.
const ALWAYS: (DurationMs, DurationMs) = (DurationMs::ZERO, DurationMs(u64::MAX));

/// A job that can be placed, with its components.
struct PlaceableJob {
    job: RawJob,
    components: Vec<u32>,
}

impl WorkloadOptions {
    /// Reads or draws all jobs. `sites` are the processors of each site; times
    /// count from `begin`.
    ///
    /// # Errors
    /// An option is out of range, the log cannot be read, a job is bad and bad jobs are refused, or
    /// no job is left.
    pub fn plan_workload(
        &self,
        sites: &[u32],
        begin: Timestamp,
    ) -> Result<Workload, WorkloadError> {
        self.check_options()?;
        let processors: u64 = sites.iter().map(|site| u64::from(*site)).sum();
        let processors = u32::try_from(processors).unwrap_or(u32::MAX);
        let (raw, source) = self.raw_jobs(processors)?;
        let mut complaints = WorkloadComplaints {
            source,
            ..WorkloadComplaints::default()
        };
        let placeable = self.split_placeable(raw, sites, &mut complaints)?;
        if placeable.is_empty() {
            return Err(WorkloadError::NoJobs(complaints));
        }
        let jobs = self.plan_placeable(placeable, &mut complaints.source, begin)?;
        Ok(Workload { jobs, complaints })
    }

    fn random_stream(&self, purpose: &str) -> StdRng {
        random_stream(self.seed, purpose, "workload")
    }

    fn raw_jobs(&self, processors: u32) -> Result<(Vec<RawJob>, JobSourceNotes), WorkloadError> {
        let mut rng = self.random_stream("jobs");
        let raw = match &self.source {
            WorkloadSource::Log(file) => {
                return Ok(log_jobs(file, self.on_bad, processors, ALWAYS)?);
            }
            WorkloadSource::Lublin { jobs } => lublin_jobs(*jobs, processors, &mut rng)?,
            WorkloadSource::Poisson { .. } => poisson_jobs(&self.source, &mut rng)?,
        };
        Ok((raw, JobSourceNotes::default()))
    }

    /// Splits jobs, and leaves out or refuses those that do not fit.
    fn split_placeable(
        &self,
        raw: Vec<RawJob>,
        sites: &[u32],
        complaints: &mut WorkloadComplaints,
    ) -> Result<Vec<PlaceableJob>, WorkloadError> {
        let mut rng = self.random_stream("split");
        let most = self.jobs_max.unwrap_or(usize::MAX);
        let mut placeable = Vec::new();
        for job in raw {
            if placeable.len() == most {
                break;
            }
            let split = job.components.map_or(self.split, WorkloadSplit::Into);
            let components = split.split_processors(job.processors, &mut rng);
            if fit_together(&components, sites) {
                placeable.push(PlaceableJob { job, components });
                continue;
            }
            let unplaceable = UnplaceableJob::new(&job, components);
            let BadLineTreatment::Skip { kept_per_kind_max } = self.on_bad else {
                return Err(WorkloadError::Unplaceable(unplaceable));
            };
            complaints.unplaceable += 1;
            if complaints.unplaceable_kept.len() < kept_per_kind_max {
                complaints.unplaceable_kept.push(unplaceable);
            }
        }
        Ok(placeable)
    }

    fn plan_placeable(
        &self,
        placeable: Vec<PlaceableJob>,
        notes: &mut JobSourceNotes,
        begin: Timestamp,
    ) -> Result<Vec<WorkloadJob>, WorkloadError> {
        let jobs = placeable.iter().map(|placeable| &placeable.job);
        let times = settle_times(
            jobs,
            self.estimates,
            notes,
            &mut self.random_stream("estimates"),
        )?;
        let times = stretch_estimates(times, self.estimates_times);
        let mut inputs = self.random_stream("inputs");
        let mut priorities = self.random_stream("priorities");
        Ok(placeable
            .into_iter()
            .zip(times)
            .map(
                |(PlaceableJob { job, components }, times): (PlaceableJob, RunTimeAndEstimate)| {
                    WorkloadJob {
                        at: begin + scale_time(job.submitted, self.load_scale),
                        components,
                        run_time: times.run_time,
                        estimate: times.estimate,
                        name: job.number.to_string(),
                        input: draw_choice(&self.inputs, &mut inputs).cloned(),
                        priority: draw_choice(&self.priorities, &mut priorities)
                            .map_or(Priority::default(), |priority| *priority),
                    }
                },
            )
            .collect())
    }

    fn check_options(&self) -> Result<(), WorkloadError> {
        let scale = self.load_scale;
        let is_scale = (1.0 / LOAD_SCALE_MAX..=LOAD_SCALE_MAX).contains(&scale);
        check_option(
            is_scale,
            "the load scale",
            &scale,
            "give a number from 0.001 to 1000",
        )?;
        if let WorkloadSplit::Into(0) | WorkloadSplit::LargerThan(0) = self.split {
            check_option(false, "the split", &0, "give a number above 0")?;
        }
        let jobs_range = format!("give a number from 1 to {JOBS_MAX}");
        match &self.source {
            WorkloadSource::Log(_) => Ok(()),
            WorkloadSource::Lublin { jobs } => check_option(
                (1..=JOBS_MAX).contains(jobs),
                "the number of jobs",
                jobs,
                &jobs_range,
            ),
            WorkloadSource::Poisson {
                jobs,
                sizes,
                shortest,
                longest,
                ..
            } => {
                check_option(
                    (1..=JOBS_MAX).contains(jobs),
                    "the number of jobs",
                    jobs,
                    &jobs_range,
                )?;
                let remedy = "name at least one, each above 0";
                check_option(
                    !sizes.is_empty(),
                    "the number of job sizes",
                    &sizes.len(),
                    remedy,
                )?;
                let none = sizes.iter().any(|size| size.processors() == 0);
                check_option(!none, "a job size", &0, remedy)?;
                let remedy = "give a longest one that is not below the shortest";
                check_option(shortest <= longest, "the longest run time", longest, remedy)
            }
        }
    }
}

/// Scales a time: later for less load, earlier for more.
fn scale_time(submitted: DurationMs, load_scale: f64) -> DurationMs {
    if load_scale == 1.0 {
        return submitted;
    }
    DurationMs((submitted.0 as f64 / load_scale).round() as u64)
}

fn draw_choice<'c, T>(choices: &'c [T], rng: &mut StdRng) -> Option<&'c T> {
    (!choices.is_empty()).then(|| &choices[rng.random_range(0..choices.len())])
}

fn check_option(
    is_allowed: bool,
    option: &'static str,
    value: &dyn std::fmt::Display,
    remedy: &str,
) -> Result<(), WorkloadError> {
    if is_allowed {
        return Ok(());
    }
    Err(WorkloadError::Option {
        option,
        value: value.to_string(),
        remedy: remedy.into(),
    })
}
