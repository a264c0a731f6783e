//! A single run: one variant under one seed.

use std::rc::Rc;

use crate::call_faults::{CallFaultModel, FaultRates};
use crate::experiment::{ExperimentInput, ExperimentSurroundings, run_experiment};
use crate::world::WrapperDelays;
use cospan_domain::ids::LogicalName;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use thiserror::Error;

use super::grid::{BuiltGrid, Grid, GridBuildError, GridBuildOptions, SiteLogNotes};
use super::random_streams::random_stream;
use super::report::RunRecord;
use super::reserving_jobs::ReservingJobDraws;
use super::rival_policies::SubmissionCopies;
use super::runs::{SimulationStudy, StudyVariant};
use super::workload::{
    OwnReplica, Workload, WorkloadComplaints, WorkloadError, WorkloadOptions, offered_load,
};
use super::{build_experiment, flexco_study, run_record};

/// Begin of every simulation: midnight of 1 January 2000, UTC.
pub(super) const BEGINS: Timestamp = Timestamp(946_684_800_000);
/// Longest time of a call to a site, and of its answer, on the way.
const WAY_MAX: DurationMs = DurationMs(50);
/// Time after the last submission during which local users still submit and nodes still fail.
const AFTERMATH: DurationMs = DurationMs::from_secs(30 * 86_400);
/// Longest time of a simulation after the last submission.
const PATIENCE: DurationMs = DurationMs::from_secs(366 * 86_400);

/// The reason why a simulation has no result.
#[derive(Debug, Error)]
pub enum SimulateError {
    /// Jobs need a file that lies nowhere.
    #[error("no site of the grid has the file {name}; {remedy}")]
    NoSuchFile {
        name: LogicalName,
        /// The remedy.
        remedy: String,
    },
    /// The jobs could not be read or drawn.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The events at the sites could not be read or drawn.
    #[error(transparent)]
    Grid(#[from] GridBuildError),
    /// The run itself broke off.
    #[error("the run of {name} broke off: {cause:#}; this is a bug in Cospan: please report it")]
    Run {
        /// The run.
        name: String,
        cause: anyhow::Error,
    },
}

/// Notes to print before a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunNotes {
    /// The source of the jobs.
    pub source: String,
    /// Jobs that will be submitted.
    pub jobs: usize,
    /// Jobs that were left out of the workload, or changed.
    pub workload: WorkloadComplaints,
    /// Notes about each site.
    pub sites: Vec<SiteLogNotes>,
    /// Processor time that jobs ask for, as a share of what the grid has.
    pub load: Option<f64>,
}

/// The engine of a run.
enum RunEngine {
    /// The control plane, over a simulated world.
    Plane(Box<(ExperimentInput, ExperimentSurroundings)>),
    /// FlexCo's own model.
    FlexCo(flexco_study::FlexCoModel),
}

/// A run that is ready to begin.
pub(super) struct ReadyRun {
    name: String,
    engine: RunEngine,
    label: String,
    seed: u64,
    pub(super) notes: RunNotes,
}

/// Reads and draws everything that a run needs.
pub(super) fn prepare_run(
    study: &SimulationStudy,
    variant: &StudyVariant,
    seed: u64,
) -> Result<ReadyRun, SimulateError> {
    let mut grid = variant.grid_of_variant(&study.grid);
    let options = WorkloadOptions {
        load_scale: study.workload.load_scale * variant.load_scale,
        seed,
        ..study.workload.clone()
    };
    check_inputs(&options.inputs, &grid)?;
    let mut workload = options.plan_workload(&grid.processors_by_site(), BEGINS)?;
    let name = format!("{} under seed {seed}", variant.label);
    let broken = |cause| SimulateError::Run {
        name: name.clone(),
        cause,
    };
    if let Some(own) = &options.own_files {
        let replicas = own.assign_files(&mut workload.jobs, grid.sites.len(), seed);
        for OwnReplica { name, size, site } in replicas.map_err(|error| broken(error.into()))? {
            grid.sites[site].files.insert(name, size);
        }
    }
    workload.jobs = variant.copies.copy_jobs(workload.jobs);
    let span = workload
        .jobs
        .last()
        .map_or(DurationMs::ZERO, |job| job.at.since(BEGINS));
    let until = study.until.unwrap_or(span + PATIENCE);
    let horizon = until.min(span + AFTERMATH);
    let on_bad = options.on_bad;
    let built = grid.build(&GridBuildOptions {
        begin: BEGINS,
        horizon,
        seed,
        on_bad,
    })?;
    let notes = RunNotes {
        source: options.source.describe(),
        jobs: workload.jobs.len(),
        load: offered_load(&workload.jobs, grid.processors()),
        workload: workload.complaints.clone(),
        sites: built.complaints.clone(),
    };
    let engine = match variant.flexco {
        Some(allowed) => {
            let model =
                flexco_study::FlexCoModel::new(&built, &workload.jobs, allowed, seed, BEGINS);
            RunEngine::FlexCo(model.map_err(broken)?)
        }
        None => {
            let ready = build_experiment(study, variant, seed, workload, &built);
            let (experiment, mut surroundings) = ready.map_err(broken)?;
            surroundings.until = Some(BEGINS + until);
            RunEngine::Plane(Box::new((experiment, surroundings)))
        }
    };
    Ok(ReadyRun {
        name,
        engine,
        label: variant.label.clone(),
        seed,
        notes,
    })
}

fn build_experiment(
    study: &SimulationStudy,
    variant: &StudyVariant,
    seed: u64,
    workload: Workload,
    grid: &BuiltGrid,
) -> anyhow::Result<(ExperimentInput, ExperimentSurroundings)> {
    let mut settings = study.settings.clone();
    settings.links = build_experiment::link_bandwidths(grid);
    settings.powers = build_experiment::site_powers(grid);
    settings.scores = build_experiment::site_scores(&study.grid);
    settings.network.latencies = build_experiment::link_latencies(grid);
    settings.network.uploads = build_experiment::upload_limits(grid);
    let variant = variant.clone();
    let count = workload.jobs.len();
    let variant_copies = variant.copies;
    let slowdown =
        build_experiment::MultiSiteSlowdown::new(study.workload.slowdown_per_mille, grid);
    let mut wishes = ReservingJobDraws::new(study.grid.reservations, &study.grid.sites, seed);
    let jobs = workload.jobs.into_iter().map(move |job| {
        let wish = wishes
            .draw_terms(job.at)
            .map(|wish| (wish, wishes.preferences_for(job.estimate)));
        build_experiment::job_submission(&job, &variant, slowdown, wish)
    });
    let pace = WrapperDelays {
        launch_max: study.launch_max,
        ..WrapperDelays::default()
    };
    let fault_rates = FaultRates {
        way_max: WAY_MAX,
        ..FaultRates::default()
    };
    let experiment = ExperimentInput {
        world: build_experiment::build_world(grid, pace, draw_seed(seed, "world"), BEGINS)?,
        settings,
        jobs: Box::new(jobs),
        count,
        begins: BEGINS,
        seed: draw_seed(seed, "control plane"),
        call_faults: CallFaultModel::new(fault_rates, draw_seed(seed, "calls")),
    };
    let failures = build_experiment::node_failures_of(grid);
    let files = build_experiment::all_replicas(grid)?;
    let first_counts = variant_copies == SubmissionCopies::TwoUntilFirst;
    Ok((
        experiment,
        ExperimentSurroundings {
            failures,
            files,
            until: None,
            first_counts,
        },
    ))
}

fn draw_seed(seed: u64, purpose: &str) -> u64 {
    random_stream(seed, purpose, "").random::<u64>()
}

impl ReadyRun {
    /// Runs to the end; `progress` gets the simulated time and the number of jobs that ended.
    pub(super) fn run_until_ended(
        self,
        progress: impl Fn(Timestamp, usize) + 'static,
    ) -> Result<RunRecord, SimulateError> {
        let Self {
            name,
            engine,
            label,
            seed,
            notes,
        } = self;
        let record = match engine {
            RunEngine::Plane(ready) => {
                let (experiment, surroundings) = *ready;
                run_experiment(
                    experiment,
                    surroundings,
                    run_record::keep_facts,
                    Rc::new(progress),
                )
                .map(|outcome| run_record::run_record(&label, seed, BEGINS, outcome))
            }
            RunEngine::FlexCo(model) => model.run(&label, seed).map_err(Into::into),
        };
        let mut record = record.map_err(|cause| SimulateError::Run { name, cause })?;
        record.counters.extend(notes.counters());
        Ok(record)
    }
}

impl RunNotes {
    /// Counters of what was left out or changed, by its kind.
    fn counters(&self) -> impl Iterator<Item = (String, u64)> {
        let log = self.workload.source.log.as_ref();
        let skipped = log.map_or(0, cospan_languages::logs::LogComplaints::lines_skipped);
        let source = &self.workload.source;
        let counted = [
            ("log lines left out", skipped),
            (
                "jobs left out that no empty grid has room for",
                self.workload.unplaceable,
            ),
            (
                "jobs without an estimate in the log",
                source.estimates_missing,
            ),
            (
                "jobs longer than their estimate in the log",
                source.estimates_too_short,
            ),
        ];
        let noted = counted.into_iter().filter(|(_, count)| *count > 0);
        noted.map(|(what, count)| (what.to_owned(), count))
    }

    /// All notes, in lines for people.
    pub fn to_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.workload.is_empty() {
            lines.push(format!("{}: {}", self.source, self.workload));
        }
        let kept = self
            .workload
            .source
            .log
            .iter()
            .flat_map(|log| log.kept_in_full());
        lines.extend(kept.map(|complaint| format!("  {complaint}")));
        lines.extend(self.sites.iter().map(SiteLogNotes::to_string));
        if let Some(load) = self.load.filter(|load| *load > 1.0) {
            lines.push(format!(
                "the jobs need {load:.2} times what the grid has, so the queue grows until the \
                 last submission; a --load-scale below 1 spreads them out"
            ));
        }
        lines
    }
}

fn check_inputs(inputs: &[LogicalName], grid: &Grid) -> Result<(), SimulateError> {
    let known: std::collections::BTreeSet<&LogicalName> = grid
        .sites
        .iter()
        .flat_map(|site| site.files.keys())
        .collect();
    let Some(name) = inputs.iter().find(|name| !known.contains(name)) else {
        return Ok(());
    };
    let known: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
    let remedy = if known.is_empty() {
        "list it under [site.files] of a site".to_owned()
    } else {
        format!("there are {}", known.join(", "))
    };
    Err(SimulateError::NoSuchFile {
        name: name.clone(),
        remedy,
    })
}
