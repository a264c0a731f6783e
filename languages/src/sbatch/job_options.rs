//! Settings that a script gives for its job as a whole, in the options of whichever component.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::ids::RelPath;
use cospan_domain::runner::SweepIndices;
use cospan_domain::units::DurationMs;

use super::getopt::{ComponentOptions, GivenOption};
use super::{BatchScript, ScriptError, launch, values};
use crate::job_language::JobFileContext;
use cospan_api::v1::runner::{SweepDocument, WarningDocument};
use cospan_api::v1::{JobDocument, Length};

/// Values that mean no limit, as zero does.
const NO_LIMIT: [&str; 3] = ["-1", "UNLIMITED", "INFINITE"];

/// Slurm counts limits in whole minutes.
const MINUTE_MS: u64 = 60_000;

/// The remedy for a missing time.
const SAY_TIME: &str = "say how long it runs at most, like #SBATCH --time=1:00:00";

/// Letters behind `%` in the names of files that are known at a site.
const PATTERN: &str = "AabjJNnstux%";

/// A job without components, and the common start of all of them.
#[derive(Debug)]
pub(super) struct ScriptJob {
    pub(super) document: JobDocument,
    pub(super) start: ScriptStart,
}

/// The common start of all components of a script.
#[derive(Debug, Clone, Default)]
pub(super) struct ScriptStart {
    /// Words of the launcher.
    pub(super) words: Vec<String>,
    pub(super) environment: BTreeMap<Arc<str>, Arc<str>>,
    /// Directory below the work directory.
    pub(super) directory: Option<RelPath>,
    /// True for an array: its runs fill in the text between double braces.
    is_array: bool,
}

impl ScriptStart {
    /// Escapes a text so that it comes out unchanged.
    pub(super) fn escape(&self, text: String) -> Arc<str> {
        if self.is_array {
            text.replace("{{", "{{{{").into()
        } else {
            text.into()
        }
    }

    fn set_variable(&mut self, name: &str, value: String) {
        let value = self.escape(value);
        self.environment.insert(name.into(), value);
    }
}

/// All options of a script, for settings that can only be given once.
struct AllOptions<'a>(&'a [ComponentOptions]);

impl AllOptions<'_> {
    /// The last of these options.
    fn last_of(&self, names: &[&str]) -> Option<&GivenOption> {
        let mut given = self.0.iter().flat_map(|options| &options.given);
        given.rfind(|given| names.contains(&given.known.name))
    }
}

/// Reads the settings of the whole job.
pub(super) fn read_job_options(
    script: &BatchScript<'_>,
    components: &[ComponentOptions],
    around: JobFileContext<'_>,
    notes: &mut Vec<(usize, String)>,
) -> Result<ScriptJob, ScriptError> {
    let all = AllOptions(components);
    let array = all.last_of(&["array"]).map(parse_indices).transpose()?;
    let mut start = ScriptStart {
        is_array: array.is_some(),
        ..ScriptStart::default()
    };
    let name = all
        .last_of(&["job-name"])
        .map_or(script.name, GivenOption::value_text)
        .to_owned();
    start.set_variable("SLURM_JOB_NAME", name.clone());
    if let Some(indices) = &array {
        add_array_variables(indices, &mut start);
    }
    add_exports(&all, script.text, around.variable, &mut start, notes)?;
    let folder = set_directory(&all, &mut start)?;
    set_output_files(&all, folder, &mut start, notes)?;
    if components.len() > 1 {
        let note = "a heterogeneous job: each of its components runs the script, and COSPAN_RANK \
                    says which one it is";
        notes.push((1, note.to_owned()));
    }
    let sweep = array.map(|indices| SweepDocument {
        array: Some(indices.to_string().into()),
        ..SweepDocument::default()
    });
    let document = JobDocument {
        name: Some(start.escape(name)),
        rerunnable: all
            .last_of(&["requeue", "no-requeue"])
            .is_none_or(|g| g.known.name == "requeue"),
        sweep,
        warning: all.last_of(&["signal"]).map(parse_warning).transpose()?,
        ..JobDocument::bare(Length(wall_time(components, around, notes)?))
    };
    Ok(ScriptJob { document, start })
}

/// The longest time of any component, as they run together. If none gives a time, the limits of
/// their partitions.
fn wall_time(
    components: &[ComponentOptions],
    around: JobFileContext<'_>,
    notes: &mut Vec<(usize, String)>,
) -> Result<DurationMs, ScriptError> {
    let given = components
        .iter()
        .filter_map(|options| options.last_given("time"));
    let is_no_limit = |text: &str| NO_LIMIT.iter().any(|word| word.eq_ignore_ascii_case(text));
    let times = given.map(|given| match values::parse_time(given.value_text()) {
        Some(time) if time > DurationMs::ZERO => Ok(DurationMs(
            time.0.div_ceil(MINUTE_MS).saturating_mul(MINUTE_MS),
        )),
        None if !is_no_limit(given.value_text()) => {
            Err(given.wrong_value_error("write it as minutes, as 1:30:00, or as 2-12:00:00"))
        }
        _ => Err(ScriptError::at_line(
            given.line,
            "--time gives no limit",
            SAY_TIME,
        )),
    });
    let longest = times.collect::<Result<Vec<_>, _>>()?.into_iter().max();
    let Some(longest) = longest else {
        return default_time(components, around, notes);
    };
    Ok(longest)
}

/// The longest default time of the partitions of its components.
fn default_time(
    components: &[ComponentOptions],
    around: JobFileContext<'_>,
    notes: &mut Vec<(usize, String)>,
) -> Result<DurationMs, ScriptError> {
    let mut longest = None;
    for options in components {
        let partition = options.last_given("partition").map(GivenOption::value_text);
        let known = (around.default_time)(partition).ok_or_else(|| {
            let of = partition
                .map(|names| format!(" of {names}"))
                .unwrap_or_default();
            let problem = format!("it gives no --time, and no site reports a default time{of}");
            ScriptError::without_line(problem, SAY_TIME)
        })?;
        longest = longest.max(Some(known));
    }
    let (time, whose) =
        longest.ok_or_else(|| ScriptError::without_line("it gives no --time", SAY_TIME))?;
    notes.push((
        1,
        format!(
            "no --time: it may run for {}, the default of {whose}",
            Length(time)
        ),
    ));
    Ok(time)
}

fn parse_indices(given: &GivenOption) -> Result<SweepIndices, ScriptError> {
    let text = given.value_text();
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(text).parse().map_err(|error| {
        let problem = format!("--array: {error}");
        ScriptError::at_line(
            given.line,
            problem,
            "write it as 0-99, 1,3,5-8, 0-100:10 or 0-99%4",
        )
    })
}

fn add_array_variables(indices: &SweepIndices, start: &mut ScriptStart) {
    let (first, last) = indices.bounds();
    for (name, number) in [
        ("SLURM_ARRAY_TASK_COUNT", indices.count()),
        ("SLURM_ARRAY_TASK_MIN", first),
        ("SLURM_ARRAY_TASK_MAX", last),
        ("SLURM_ARRAY_TASK_STEP", indices.step()),
    ] {
        start.set_variable(name, number.to_string());
    }
    // Each run fills in its own index.
    start
        .environment
        .insert("SLURM_ARRAY_TASK_ID".into(), "{{index}}".into());
}

/// Variables that the script gets, and whether it gets a login environment.
fn add_exports(
    all: &AllOptions<'_>,
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
    start: &mut ScriptStart,
    notes: &mut Vec<(usize, String)>,
) -> Result<(), ScriptError> {
    let mut logs_in = true;
    if let Some(given) = all.last_of(&["export"]) {
        let mut items = values::parse_export(given.value_text()).ok_or_else(|| {
            given.wrong_value_error("write it as ALL, NONE, NIL or NAME=VALUE,NAME=VALUE")
        })?;
        let first = items[0]
            .1
            .is_none()
            .then(|| items[0].0.to_ascii_uppercase());
        logs_in = matches!(first.as_deref(), Some("ALL" | "NONE"));
        if logs_in || first.as_deref() == Some("NIL") {
            items.remove(0);
        }
        for (name, value) in items {
            match value.or_else(|| variable(&name)) {
                Some(value) => start.set_variable(&name, value),
                // So does sbatch, and says nothing.
                None => notes.push((
                    given.line,
                    format!("--export: {name} is not exported here, so it is left out"),
                )),
            }
        }
    }
    if logs_in && !launch::is_login_shell(text) {
        start.words.push("login".to_owned());
    }
    Ok(())
}

/// Sets the directory of the start; returns it if it is an absolute path at the site.
fn set_directory<'a>(
    all: &'a AllOptions<'_>,
    start: &mut ScriptStart,
) -> Result<Option<&'a str>, ScriptError> {
    let Some(given) = all.last_of(&["chdir"]) else {
        return Ok(None);
    };
    let path = given.value_text();
    if path.starts_with('/') {
        start.words.push(format!("cd={path}"));
        return Ok(Some(path));
    }
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !["", "."].contains(part))
        .collect();
    if parts.is_empty() {
        return Ok(None);
    }
    let below = RelPath::new(parts.join("/").as_str());
    let remedy = "give an absolute path at the site, or one below the work directory";
    start.directory = Some(below.map_err(|_| given.wrong_value_error(remedy))?);
    Ok(None)
}

/// Sets the files for output: files of the site only; all other output is kept, and shown by
/// `cospan logs`.
fn set_output_files(
    all: &AllOptions<'_>,
    folder: Option<&str>,
    start: &mut ScriptStart,
    notes: &mut Vec<(usize, String)>,
) -> Result<(), ScriptError> {
    for name in ["output", "error"] {
        let Some(given) = all.last_of(&[name]) else {
            continue;
        };
        let path = given.value_text();
        check_pattern(given)?;
        match folder {
            _ if path.starts_with('/') => start.words.push(format!("{name}={path}")),
            Some(folder) => start.words.push(format!("{name}={folder}/{path}")),
            None => notes.push((
                given.line,
                format!(
                    "--{name}={path} is not written, as it is no absolute path: `cospan logs` \
                     shows the output"
                ),
            )),
        }
    }
    match all
        .last_of(&["open-mode"])
        .map(|given| (given, given.value_text()))
    {
        // Steps open their files in the same way.
        Some((_, "append")) => {
            start.words.push("append".to_owned());
            start.set_variable("SLURM_OPEN_MODE", "a".to_owned());
        }
        Some((_, "truncate")) => start.set_variable("SLURM_OPEN_MODE", "t".to_owned()),
        None => {}
        Some((given, _)) => return Err(given.wrong_value_error("give append or truncate")),
    }
    Ok(())
}

fn check_pattern(given: &GivenOption) -> Result<(), ScriptError> {
    let mut rest = given.value_text();
    while let Some((_, after)) = rest.split_once('%') {
        // A number is filled up with zeros to this many digits.
        let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
        let letter = after
            .chars()
            .next()
            .filter(|letter| PATTERN.contains(*letter));
        let letter = letter
            .ok_or_else(|| given.wrong_value_error("of % only %A %a %j %N %u %x are known"))?;
        rest = &after[letter.len_utf8()..];
    }
    Ok(())
}

fn parse_warning(given: &GivenOption) -> Result<WarningDocument, ScriptError> {
    let remedy = "write it as USR1@120; signals are USR1, USR2, TERM, INT and HUP";
    let (signal, seconds, to) =
        values::parse_signal(given.value_text()).ok_or_else(|| given.wrong_value_error(remedy))?;
    Ok(WarningDocument {
        signal,
        before: Length(DurationMs(seconds.saturating_mul(1_000))),
        to,
    })
}
