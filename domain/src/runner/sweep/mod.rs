//! The sweep runner: many independent runs of one description, each a job of its own.

mod indices;
mod placeholders;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use indices::SweepIndices;

use super::{AttemptLaunch, JobDescription, Runner, RunnerError};
use crate::ids::JobId;
use crate::job::job_state::Job;
use crate::job::spec::{JobSpec, OutputDestination, is_variable_name};
use crate::units::Bytes;
use placeholders::TextFiller;

/// The placeholder of a task's own number.
const TASK: &str = "task";

/// The parameter that holds the index of an array's task.
const INDEX: &str = "index";

/// The values of a task, by parameter.
pub type SweepRow = BTreeMap<Arc<str>, Arc<str>>;

/// The differences between the runs of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// The values that they get.
    pub over: SweepSource,
    /// The most of them that are placed, held or running at once; `None` for no limit.
    pub at_once: Option<u32>,
}

/// The source of the values of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SweepSource {
    /// Every combination; the last parameter, by name, varies fastest.
    Grid(BTreeMap<Arc<str>, Vec<Arc<str>>>),
    /// A list with a row for each task; all rows name the same parameters.
    List(Vec<SweepRow>),
    /// A list of numbers, as the parameter `index`.
    Array(SweepIndices),
}

/// A run of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepTask {
    /// The job of the first task, which gives the sweep its name. 0 until it is accepted.
    pub group: JobId,
    /// The number of the task in the sweep, from 0.
    pub index: u32,
    /// The number of runs in the sweep.
    pub count: u32,
    /// The most of the sweep that are placed, held or running at once.
    pub at_once: Option<u32>,
    pub values: SweepRow,
}

impl Sweep {
    /// Returns the limit, from either of the two places where it may be given.
    fn run_limit(&self) -> Result<Option<u32>, RunnerError> {
        let with_array = match &self.over {
            SweepSource::Array(indices) => indices.run_limit(),
            SweepSource::Grid(_) | SweepSource::List(_) => None,
        };
        match (self.at_once, with_array) {
            (Some(_), Some(_)) => Err(RunnerError::LimitTwice),
            (Some(0), None) => Err(RunnerError::ZeroLimit),
            (limit, None) | (None, limit) => Ok(limit),
        }
    }
}

impl SweepSource {
    /// Counts the tasks; `u64::MAX` for more than can be counted.
    fn task_count(&self) -> u64 {
        match self {
            SweepSource::Grid(axes) if axes.is_empty() => 0,
            SweepSource::Grid(axes) => {
                let lengths = axes.values().map(|values| values.len() as u64);
                lengths.fold(1, u64::saturating_mul)
            }
            SweepSource::List(rows) => rows.len() as u64,
            SweepSource::Array(indices) => indices.count(),
        }
    }

    /// Lists the values of every task. Check their number before: this allocates them all.
    fn list_rows(&self) -> Vec<SweepRow> {
        match self {
            SweepSource::Grid(axes) => {
                axes.iter()
                    .fold(vec![SweepRow::new()], |rows, (name, values)| {
                        rows.into_iter()
                            .flat_map(|row: SweepRow| {
                                values.iter().map(move |value| {
                                    let mut row = row.clone();
                                    row.insert(name.clone(), value.clone());
                                    row
                                })
                            })
                            .collect()
                    })
            }
            SweepSource::List(rows) => rows.clone(),
            SweepSource::Array(indices) => indices
                .list_indices()
                .map(|index: u64| SweepRow::from([(INDEX.into(), index.to_string().into())]))
                .collect(),
        }
    }

    fn validate_values(&self) -> Result<(), RunnerError> {
        let names: Vec<&Arc<str>> = match self {
            SweepSource::Grid(axes) => axes.keys().collect(),
            SweepSource::List(rows) => rows.first().into_iter().flat_map(SweepRow::keys).collect(),
            SweepSource::Array(_) => Vec::new(),
        };
        if let Some(wrong) = names
            .iter()
            .find(|name| !is_variable_name(name) || name.as_ref() == TASK)
        {
            return Err(RunnerError::ParameterName((*wrong).clone()));
        }
        let SweepSource::List(rows) = self else {
            return Ok(());
        };
        match rows
            .iter()
            .position(|row| !row.keys().eq(names.iter().copied()))
        {
            None => Ok(()),
            Some(row) => {
                let names = names.iter().map(ToString::to_string).collect();
                Err(RunnerError::RowsDiffer { row, names })
            }
        }
    }
}

/// The runner of many independent runs of one description.
pub(super) struct SweepRunner;

impl Runner for SweepRunner {
    fn name(&self) -> &'static str {
        "sweep"
    }

    fn expand_jobs(&self, described: JobDescription) -> Result<Vec<JobSpec>, RunnerError> {
        let sweep = described.sweep.ok_or(RunnerError::NoSweep)?;
        let at_once = sweep.run_limit()?;
        let count = sweep.over.task_count();
        let max = described.max_tasks;
        if count == 0 {
            return Err(RunnerError::NoTasks);
        }
        let tasks = usize::try_from(count).ok().filter(|tasks| *tasks <= max);
        let tasks = tasks.and_then(|tasks| u32::try_from(tasks).ok());
        let tasks = tasks.ok_or(RunnerError::TooManyTasks { count, max })?;
        sweep.over.validate_values()?;
        check_memory(&described.spec, tasks, described.max_bytes)?;
        let rows = sweep.over.list_rows();
        let taken = Cell::new(0);
        let mut jobs = Vec::with_capacity(rows.len());
        for (index, values) in (0..tasks).zip(rows) {
            if let Some((name, _)) = values.iter().find(|(_, value)| value.contains('\0')) {
                return Err(RunnerError::Nul(name.clone()));
            }
            let mut job = TextFiller {
                values: &values,
                task: index,
                taken: &taken,
            }
            .fill_job(&described.spec)?;
            let group = JobId(0);
            job.run.task = Some(SweepTask {
                group,
                index,
                count: tasks,
                at_once,
                values,
            });
            jobs.push(job);
        }
        check_registered_outputs(&jobs)?;
        Ok(jobs)
    }

    fn prepare_launch(&self, job: &Job, launch: &mut AttemptLaunch) {
        let Some(task) = &job.spec.run.task else {
            return;
        };
        launch.set_variable("COSPAN_GROUP", task.group.to_string());
        launch.set_variable("COSPAN_TASK", task.index.to_string());
        launch.set_variable("COSPAN_TASKS", task.count.to_string());
        for (name, value) in &task.values {
            launch.set_variable(&format!("COSPAN_PARAMETER_{name}"), value.clone());
        }
    }
}

/// Checks that the jobs of a sweep take no more memory than their user may have.
fn check_memory(spec: &JobSpec, count: u32, max: Bytes) -> Result<(), RunnerError> {
    let each = spec.memory_footprint();
    if Bytes(each.0.saturating_mul(count.into())) > max {
        Err(RunnerError::TooLarge { count, each, max })
    } else {
        Ok(())
    }
}

/// Checks that no two runs register the same output.
fn check_registered_outputs(jobs: &[JobSpec]) -> Result<(), RunnerError> {
    let mut seen = BTreeMap::new();
    for (task, job) in (0..).zip(jobs) {
        let outputs = job
            .components
            .iter()
            .flat_map(|component| &component.outputs);
        for output in outputs {
            let OutputDestination::ToSite { register, .. } = &output.collect else {
                continue;
            };
            match seen.insert(register, task) {
                Some(first) if first != task => {
                    let name = register.clone();
                    let second = task;
                    return Err(RunnerError::RegisterTwice {
                        name,
                        first,
                        second,
                    });
                }
                Some(_) | None => {}
            }
        }
    }
    Ok(())
}
