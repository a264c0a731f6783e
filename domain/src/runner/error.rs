//! Errors in the options that say how a job runs.

use std::sync::Arc;

use thiserror::Error;

use crate::ids::{ComponentName, LogicalName};
use crate::units::{Bytes, DurationMs};

/// An error in the options that say how a job runs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum RunnerError {
    #[error("no runner is called {name:?}; there are: {}", known.join(", "))]
    Unknown {
        name: String,
        known: Vec<&'static str>,
    },
    #[error(
        "the warning is to come {before} before the end of a wall time of {wall_time}; it must be above 0 and shorter"
    )]
    Warning {
        before: DurationMs,
        wall_time: DurationMs,
    },
    #[error(
        "component {0:?} says how it is restarted, but the job must not run twice; set rerunnable = true or drop `restart`"
    )]
    RestartForbidden(ComponentName),
    #[error(
        "components of runner {runner:?} know each other, so none can be restarted alone; set restart_scope = \"job\" or another runner"
    )]
    ScopeWithRunner { runner: &'static str },
    #[error(
        "components are to be restarted, but the job must not run twice; set rerunnable = true or drop `restart_scope`"
    )]
    ScopeForbidden,
    #[error(
        "runner {runner:?} makes one job of a description; set runner = \"sweep\" or drop [sweep]"
    )]
    SweepElsewhere { runner: &'static str },
    #[error("there is nothing to sweep over; add [sweep] with grid, list or array")]
    NoSweep,
    #[error("the sweep has no tasks; give every parameter at least one value")]
    NoTasks,
    #[error(
        "the sweep has {count} tasks; at most {max} are allowed here (limits.max_sweep_tasks): cut it up"
    )]
    TooManyTasks { count: u64, max: usize },
    #[error(
        "the {count} runs would take about {each} of memory each, together more than the {max} \
         that a key may have for its jobs; put what is long into an input file, make fewer runs at \
         once, or ask for a higher limits.max_job_memory_per_key"
    )]
    TooLarge { count: u32, each: Bytes, max: Bytes },
    #[error(
        "task {task}: it has more than {max} bytes once it is filled; put what is long into an input file"
    )]
    FilledTooLong { at: String, task: u32, max: usize },
    #[error(
        "with task {task}, what is filled for each run anew takes more than {max} bytes in all; keep long texts apart from placeholders, in words of their own, or put them into an input file"
    )]
    FilledTooMuch { at: String, task: u32, max: usize },
    #[error("at_once is 0: no run could ever start; give at least 1, or leave it out for no limit")]
    ZeroLimit,
    #[error("the limit is given twice, as at_once and after % in array; give it once")]
    LimitTwice,
    #[error(
        "{text:?} is no list of indices: {problem}; write them like 0-99, 1,3,5-8 or 0-100:10, with %4 at the end for at most 4 at once"
    )]
    Indices { text: String, problem: &'static str },
    #[error(
        "row {row} does not name the same parameters as row 0 ({}); give each row all of them", names.join(", ")
    )]
    RowsDiffer { row: usize, names: Vec<String> },
    #[error(
        "{0:?} cannot name a parameter; use letters, digits and _, no digit first, and not `task`"
    )]
    ParameterName(Arc<str>),
    #[error("a value of {0:?} has a NUL character; programs cannot receive one")]
    Nul(Arc<str>),
    #[error("{{{{{name}}}}} names no parameter of the sweep; there are: {}", known.join(", "))]
    Placeholder {
        at: String,
        name: String,
        known: Vec<String>,
    },
    #[error(
        "a placeholder begins with {{{{ and does not end; write {{{{{{{{ for braces themselves"
    )]
    Unclosed { at: String },
    #[error("task {task}: {problem}")]
    Filled {
        at: String,
        task: u32,
        problem: String,
    },
    #[error(
        "tasks {first} and {second} would both register {name}; put a placeholder like {{{{task}}}} into it"
    )]
    RegisterTwice {
        name: LogicalName,
        first: u32,
        second: u32,
    },
}

impl RunnerError {
    /// The key of the job file that it is about.
    pub fn job_file_key(&self) -> &str {
        match self {
            RunnerError::Unknown { .. } => "runner",
            RunnerError::Warning { .. } => "warning.before",
            RunnerError::ScopeWithRunner { .. } | RunnerError::ScopeForbidden => "restart_scope",
            RunnerError::RestartForbidden(_) => "component.restart",
            RunnerError::SweepElsewhere { .. }
            | RunnerError::NoSweep
            | RunnerError::NoTasks
            | RunnerError::TooManyTasks { .. }
            | RunnerError::TooLarge { .. } => "sweep",
            RunnerError::ZeroLimit | RunnerError::LimitTwice => "sweep.at_once",
            RunnerError::Indices { .. } => "sweep.array",
            RunnerError::RowsDiffer { .. } => "sweep.list",
            RunnerError::ParameterName(_) | RunnerError::Nul(_) => "sweep",
            RunnerError::Placeholder { at, .. }
            | RunnerError::Unclosed { at }
            | RunnerError::Filled { at, .. }
            | RunnerError::FilledTooLong { at, .. }
            | RunnerError::FilledTooMuch { at, .. } => at,
            RunnerError::RegisterTwice { .. } => "component.output.register",
        }
    }
}
