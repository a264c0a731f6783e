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

use cospan_api::v1::{JobDocument, JobFormat, ParseError};

use crate::job_language::{JobFile, JobFileContent, JobFileContext, JobFileMistakes, JobLanguage};

/// A script, and its origin.
#[derive(Debug, Clone, Copy)]
struct BatchScript<'a> {
    /// Name of its file, without folders.
    name: &'a str,
    text: &'a str,
    /// The arguments of the script.
    arguments: &'a [String],
}

/// The translation of a script.
#[derive(Debug, Clone)]
struct TranslatedScript {
    job: JobDocument,
    /// Notes for the user, each with its line.
    notes: Vec<(usize, String)>,
}

/// The reason why a script cannot be a job.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ScriptError {
    /// The line, from 1, if the problem lies in one.
    line: Option<usize>,
    problem: String,
    remedy: String,
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

/// Batch scripts of Slurm.
pub struct SbatchScripts;

impl JobLanguage for SbatchScripts {
    /// A script begins as scripts do, and its name does not contradict.
    fn recognises(&self, file: &JobFile<'_>) -> bool {
        file.text.starts_with("#!") && JobFormat::of_file_name(file.shown).is_none()
    }

    fn takes_arguments(&self) -> bool {
        true
    }

    fn read_jobs(
        &self,
        file: &JobFile<'_>,
        around: JobFileContext<'_>,
    ) -> Result<JobFileContent, JobFileMistakes> {
        let script = BatchScript {
            name: file.name.unwrap_or("sbatch"),
            text: file.text,
            arguments: file.arguments,
        };
        let translated = translate_script(&script, around).map_err(|error| JobFileMistakes {
            mistakes: vec![ParseError {
                line: error.line.map(|line| line as u64),
                problem: error.problem,
                ..ParseError::default()
            }],
            remedy: Some(error.remedy),
        })?;
        Ok(JobFileContent {
            jobs: vec![translated.job],
            notes: translated.notes,
        })
    }
}

/// Reads a script as `sbatch` does.
///
/// # Errors
/// Some request of the script is not available here, or cannot be read.
fn translate_script(
    script: &BatchScript<'_>,
    around: JobFileContext<'_>,
) -> Result<TranslatedScript, ScriptError> {
    launch::check_script(script)?;
    lines::refuse_foreign_script(script.text)?;
    let (components, mut notes) = options::parse_script_options(script.text)?;
    let whole = job_options::read_job_options(script, &components, around, &mut notes)?;
    let mut job = whole.document;
    let count = components.len();
    for (index, options) in components.iter().enumerate() {
        let demands = component_demands::parse_demands(options, around, &mut notes)?;
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
