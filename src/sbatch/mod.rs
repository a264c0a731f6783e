//! Batch scripts of Slurm as job documents.
//!
//! A translator at the edge: what `sbatch` would do with a script is said in the words of job
//! files, and whatever cannot be said is refused by name, with its line. Nothing behind the
//! command line knows of it. The script's text travels as an argument of a small launcher
//! (`launch.sh`), which puts it beside the work directory and becomes it, so that the kernel
//! reads its first line as it always does.

mod arity;
mod demands;
mod launch;
mod lines;
mod options;
mod table;
#[cfg(test)]
mod tests;
mod values;
mod whole;

use cospan_domain::units::DurationMs;

use crate::api::v1::{JobDocument, JobFormat};

/// A script, and where it is from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script<'a> {
    /// Its file's name, without folders.
    pub(crate) name: &'a str,
    /// Its text.
    pub(crate) text: &'a str,
    /// What it is called with.
    pub(crate) arguments: &'a [String],
}

/// What a script asks for.
#[derive(Debug, Clone)]
pub(crate) struct Translated {
    /// As a job document.
    pub(crate) job: JobDocument,
    /// What its user should know, each with the line that it is about.
    pub(crate) notes: Vec<(usize, String)>,
}

/// A time, and the partition and site whose it is.
pub(crate) type TimeOfPartition = (DurationMs, String);

/// What a script may be told that it does not say.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    /// What is exported to this process, for `--export=NAME`.
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    /// How long what gives no time may run in these partitions, or in those that jobs go to which
    /// name none; with the partition, and its site.
    pub(crate) default_time: &'a dyn Fn(Option<&str>) -> Option<TimeOfPartition>,
}

/// Why a script is no job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScriptError {
    /// The line, from 1, where it is about one.
    pub(crate) line: Option<usize>,
    /// What is wrong.
    pub(crate) problem: String,
    /// What to do about it.
    pub(crate) remedy: String,
}

impl ScriptError {
    fn at(line: usize, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }

    fn whole(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            line: None,
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }
}

/// Whether a file is a script, and not a job file: it begins as scripts do, and its name does
/// not say otherwise.
pub(crate) fn is_script(file: &str, text: &str) -> bool {
    text.starts_with("#!") && JobFormat::of_file_name(file).is_none()
}

/// Reads a script as `sbatch` does.
///
/// # Errors
/// What it asks for cannot be had here, or cannot be read.
pub(crate) fn read(script: &Script<'_>, around: Around<'_>) -> Result<Translated, ScriptError> {
    launch::check(script)?;
    lines::check_foreign(script.text)?;
    let (components, mut notes) = options::of_script(script.text)?;
    let whole = whole::read(script, &components, around, &mut notes)?;
    let mut job = whole.document;
    let count = components.len();
    for (index, options) in components.iter().enumerate() {
        let demands = demands::of(options)?;
        let name = if count == 1 {
            "batch".to_owned()
        } else {
            format!("het-{index}")
        };
        let arguments = launch::of(script, &whole.start, &demands, count);
        job.component
            .push(demands.component(&name, &whole.start, arguments)?);
    }
    notes.sort();
    Ok(Translated { job, notes })
}
