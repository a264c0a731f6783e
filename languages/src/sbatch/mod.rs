//! Batch scripts of Slurm as job documents.
//!
//! A translator at the edge: what `sbatch` would do with a script is expressed in the words of job
//! files, and whatever cannot be expressed is refused by name, with its line. Nothing behind the
//! command line knows of it. The script's text travels as an argument of a small launcher
//! (`launch.sh`), which puts it beside the work directory and replaces itself by it, so that the
//! kernel reads its first line as always.

mod component_demands;
mod foreign_lines;
mod getopt;
mod job_options;
mod launch;
mod lines;
mod option_table;
mod options;
#[cfg(test)]
mod right_values_tests;
#[cfg(test)]
mod tests;
mod values;

use cospan_domain::units::DurationMs;

use cospan_api::v1::{JobDocument, JobFormat};

pub use launch::decode_text;

/// A script, and its origin.
#[derive(Debug, Clone, Copy)]
pub struct BatchScript<'a> {
    /// Name of its file, without folders.
    pub name: &'a str,
    pub text: &'a str,
    /// The arguments of the script.
    pub arguments: &'a [String],
}

/// The translation of a script.
#[derive(Debug, Clone)]
pub struct TranslatedScript {
    pub job: JobDocument,
    /// Notes for the user, each with its line.
    pub notes: Vec<(usize, String)>,
}

/// A time, with the partition and site that set it.
pub type PartitionDefaultTime = (DurationMs, String);

/// Context of a script that it does not contain.
#[derive(Clone, Copy)]
pub struct ScriptContext<'a> {
    /// Reads an exported variable of this process, for `--export=NAME`.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Finds the time limit that these partitions, or those of jobs that name none, give a job
    /// without a time; with the partition, and its site.
    pub default_time: &'a dyn Fn(Option<&str>) -> Option<PartitionDefaultTime>,
}

/// The reason why a script cannot be a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// The line, from 1, if the problem lies in one.
    pub line: Option<usize>,
    pub problem: String,
    pub remedy: String,
}

impl ScriptError {
    fn at_line(line: usize, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }

    fn without_line(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            line: None,
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }
}

/// Returns true if a file is a script, and not a job file: it begins as scripts do, and its name
/// does not contradict.
pub fn is_script(file: &str, text: &str) -> bool {
    text.starts_with("#!") && JobFormat::of_file_name(file).is_none()
}

/// Reads a script as `sbatch` does.
///
/// # Errors
/// Some request of the script is not available here, or cannot be read.
pub fn translate_script(
    script: &BatchScript<'_>,
    around: ScriptContext<'_>,
) -> Result<TranslatedScript, ScriptError> {
    launch::check_script(script)?;
    lines::refuse_foreign_script(script.text)?;
    let (components, mut notes) = options::parse_script_options(script.text)?;
    let whole = job_options::read_job_options(script, &components, around, &mut notes)?;
    let mut job = whole.document;
    let count = components.len();
    for (index, options) in components.iter().enumerate() {
        let demands = component_demands::parse_demands(options)?;
        let name = if count == 1 {
            "batch".to_owned()
        } else {
            format!("het-{index}")
        };
        let arguments = launch::launcher_arguments(script, &whole.start, &demands, count);
        job.component
            .push(demands.into_component(&name, &whole.start, arguments)?);
    }
    notes.sort();
    Ok(TranslatedScript { job, notes })
}
