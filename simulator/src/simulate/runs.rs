//! Several runs, a few at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::world::batch::QueueDiscipline;
use cospan_actors::actor_settings::ActorSettings;
use cospan_domain::ids::PolicyName;
use cospan_domain::reservation::flexco::RescheduleOperations;
use cospan_domain::units::{DurationMs, Timestamp};

use super::grid::Grid;
use super::report::RunRecord;
use super::rival_policies::SubmissionCopies;
use super::single_run::{BEGINS, RunNotes, SimulateError, prepare_run};
use super::workload::WorkloadOptions;

/// The definition of a study.
#[derive(Debug, Clone)]
pub struct SimulationStudy {
    /// The grid.
    pub grid: Grid,
    /// The jobs that users submit; the seed is that of the run.
    pub workload: WorkloadOptions,
    /// The variants to compare; at least one.
    pub variants: Vec<StudyVariant>,
    /// The seeds; each variant is run under each, and the same seed draws the same jobs.
    pub seeds: Vec<u64>,
    /// Longest time from the start of a batch job until its component is ready.
    pub launch_max: DurationMs,
    pub settings: ActorSettings,
    /// Longest time of a simulation; `None` for until the last job has ended, and at most a year
    /// after the last submission.
    pub until: Option<DurationMs>,
    /// Number of runs at once, at least 1.
    pub at_once: usize,
}

/// A variant for comparison with others.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyVariant {
    /// The label; unlike any other.
    pub label: String,
    /// The policy that places jobs.
    pub policy: PolicyName,
    /// The order in which the batch systems of all sites start jobs; `None` as the grid file says.
    pub scheduler: Option<QueueDiscipline>,
    /// Multiplies the load of the workload.
    pub load_scale: f64,
    /// True if jobs are placed again after a site failed under their payloads.
    pub rerunnable: bool,
    /// Number of times that each job is submitted.
    pub copies: SubmissionCopies,
    /// True if the policy may split jobs, if it can.
    pub flexible: bool,
    /// FlexCo's own model in the place of the control plane, with these operations.
    pub flexco: Option<RescheduleOperations>,
}

/// The name of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunName {
    /// The index among all runs, from 0.
    pub index: usize,
    pub label: String,
    pub seed: u64,
}

/// Receives the progress of runs; from several threads at once.
pub trait RunWatcher: Send + Sync {
    /// A run begins.
    fn run_begins(&self, run: &RunName, notes: &RunNotes);
    /// The run has come this far in its simulated time, and this many of its jobs have ended.
    fn run_goes_on(&self, run: &RunName, passed: DurationMs, jobs_ended: usize);
    /// The run has ended.
    fn run_ends(&self, run: &RunName, record: &RunRecord);
}

impl StudyVariant {
    /// The grid of this variant.
    pub(super) fn grid_of_variant(&self, grid: &Grid) -> Grid {
        let mut grid = grid.clone();
        if let Some(discipline) = self.scheduler {
            grid.sites
                .iter_mut()
                .for_each(|site| site.discipline = discipline);
        }
        grid
    }
}

impl SimulationStudy {
    fn list_runs(&self) -> Vec<(RunName, &StudyVariant)> {
        let pairs = self
            .seeds
            .iter()
            .flat_map(|seed| self.variants.iter().map(move |v| (*seed, v)));
        pairs
            .enumerate()
            .map(|(index, (seed, variant)): (usize, (u64, _))| {
                let variant: &StudyVariant = variant;
                (
                    RunName {
                        index,
                        label: variant.label.clone(),
                        seed,
                    },
                    variant,
                )
            })
            .collect()
    }

    /// Describes the study in lines for people.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = vec![self.grid.describe()];
        lines.extend(
            self.grid
                .sites
                .iter()
                .map(super::grid::DescribedSite::describe),
        );
        lines.push(self.workload.describe());
        let labels: Vec<&str> = self.variants.iter().map(|v| v.label.as_str()).collect();
        let seeds = match self.seeds.as_slice() {
            [first, .., last] => format!("seeds {first} to {last}"),
            seeds => format!("seed {}", seeds.first().copied().unwrap_or_default()),
        };
        lines.push(format!("runs: {}; {seeds}", labels.join(" | ")));
        lines
    }
}

/// Runs everything, seed by seed. The records are in the order of the variants, then of the seeds,
/// whatever ended first.
///
/// # Errors
/// The first error of a run; no new run is begun then.
pub fn run_study(
    study: &SimulationStudy,
    watcher: &Arc<dyn RunWatcher>,
) -> Result<Vec<RunRecord>, SimulateError> {
    let runs = study.list_runs();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, RunRecord)>> = Mutex::default();
    let failed: Mutex<Option<SimulateError>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..study.at_once.clamp(1, runs.len().max(1)) {
            scope.spawn(|| {
                while let Some((name, variant)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if lock_shared(&failed).is_some() {
                        return;
                    }
                    match run_one(study, name, variant, watcher) {
                        Ok(record) => lock_shared(&done).push((name.index, record)),
                        Err(error) => drop(lock_shared(&failed).get_or_insert(error)),
                    }
                }
            });
        }
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let variants = study.variants.len().max(1);
    done.sort_by_key(|(index, _)| (index % variants, index / variants));
    Ok(done.into_iter().map(|(_, record)| record).collect())
}

fn run_one(
    study: &SimulationStudy,
    name: &RunName,
    variant: &StudyVariant,
    watcher: &Arc<dyn RunWatcher>,
) -> Result<RunRecord, SimulateError> {
    let ready = prepare_run(study, variant, name.seed)?;
    watcher.run_begins(name, &ready.notes);
    let hearing = watcher.clone();
    let run = name.clone();
    let record = ready.run_until_ended(move |at: Timestamp, ended| {
        hearing.run_goes_on(&run, at.since(BEGINS), ended)
    })?;
    watcher.run_ends(name, &record);
    Ok(record)
}

fn lock_shared<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
