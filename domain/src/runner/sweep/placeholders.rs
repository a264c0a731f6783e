//! Placeholders: `{{name}}` becomes the value of that parameter, `{{{{` becomes `{{`.

use std::cell::Cell;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use super::SweepRow;
use crate::ids::RelPath;
use crate::job::ProgramWordKind;
use crate::job::spec::{
    ComponentSpec, ExecutableSource, FileReference, JobSpec, OutputDestination, PackedProgram,
    ProgramOverride,
};
use crate::runner::RunnerError;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// The longest text once it is filled, in bytes: no job may be longer.
const MOST_BYTES: usize = 2 << 20;
/// The most bytes that the filled texts of all tasks may take together: no two share them.
const MOST_OF_ALL: usize = 32 << 20;

/// Fills the values of one task into the texts of a job.
pub(super) struct TextFiller<'a> {
    pub(super) values: &'a SweepRow,
    pub(super) task: u32,
    /// Bytes taken by the texts filled so far, those of other tasks too.
    pub(super) taken: &'a Cell<usize>,
}

type FillResult<T> = Result<T, RunnerError>;

/// The place of a text, written out only for an error.
type TextLocation<'a> = &'a dyn Display;

impl TextFiller<'_> {
    /// Builds the job of the task. Parts that are the same in every task are shared by all.
    pub(super) fn fill_job(&self, template: &JobSpec) -> FillResult<JobSpec> {
        let mut job = template.clone();
        if let Some(name) = &mut job.name {
            self.fill_text(&"name", name)?;
        }
        for (index, component) in job.components.iter_mut().enumerate() {
            self.fill_component(&format_args!("component[{index}]"), component)?;
        }
        Ok(job)
    }

    fn fill_component(
        &self,
        at: TextLocation<'_>,
        component: &mut ComponentSpec,
    ) -> FillResult<()> {
        self.fill_program(at, &mut component.program)?;
        for (index, input) in component.inputs.iter_mut().enumerate() {
            self.fill_file(&format_args!("{at}.input[{index}]"), &mut input.file)?;
            self.fill_name(&format_args!("{at}.input[{index}].path"), &mut input.path)?;
        }
        for (index, output) in component.outputs.iter_mut().enumerate() {
            self.fill_name(&format_args!("{at}.output[{index}].path"), &mut output.path)?;
            if let OutputDestination::ToSite { register, .. } = &mut output.collect {
                self.fill_name(&format_args!("{at}.output[{index}].register"), register)?;
            }
        }
        for (place, change) in &mut component.at {
            self.fill_override(&format_args!("{at}.at.{place}"), change)?;
        }
        match &mut component.restart {
            Some(change) => self.fill_override(&format_args!("{at}.restart"), change),
            None => Ok(()),
        }
    }

    fn fill_program(&self, at: TextLocation<'_>, program: &mut PackedProgram) -> FillResult<()> {
        self.fill_executable(at, &mut program.executable)?;
        program.replace_words(OPEN, |place, word| match place {
            ProgramWordKind::Argument(index) => self
                .filled_text(&format_args!("{at}.arguments[{index}]"), word)
                .map(Some),
            ProgramWordKind::Value(name) => self
                .filled_text(&format_args!("{at}.environment.{name}"), word)
                .map(Some),
            ProgramWordKind::Directory => {
                let at = format_args!("{at}.directory");
                let filled = self.filled_text(&at, word)?;
                self.parse_filled::<RelPath>(&at, &filled)?;
                Ok(Some(filled))
            }
            ProgramWordKind::Fixed => Ok(None),
        })
    }

    fn fill_override(&self, at: TextLocation<'_>, change: &mut ProgramOverride) -> FillResult<()> {
        if let Some(executable) = &mut change.executable {
            self.fill_executable(at, executable)?;
        }
        let arguments = change.arguments.as_deref_mut().unwrap_or_default();
        for (index, argument) in arguments.iter_mut().enumerate() {
            self.fill_text(&format_args!("{at}.arguments[{index}]"), argument)?;
        }
        for (name, value) in &mut change.environment {
            self.fill_text(&format_args!("{at}.environment.{name}"), value)?;
        }
        match &mut change.directory {
            Some(directory) => self.fill_name(&format_args!("{at}.directory"), directory),
            None => Ok(()),
        }
    }

    fn fill_executable(
        &self,
        at: TextLocation<'_>,
        executable: &mut ExecutableSource,
    ) -> FillResult<()> {
        let at = format_args!("{at}.executable");
        match executable {
            ExecutableSource::AtSite(path) => self.fill_text(&at, path),
            ExecutableSource::Staged(file) => self.fill_file(&at, file),
        }
    }

    fn fill_file(&self, at: TextLocation<'_>, file: &mut FileReference) -> FillResult<()> {
        self.fill_name(&format_args!("{at}.file"), &mut file.name)
    }

    /// Fills a text that must still be a name afterwards.
    fn fill_name<T>(&self, at: TextLocation<'_>, name: &mut T) -> FillResult<()>
    where
        T: AsRef<str> + FromStr<Err: Display>,
    {
        if name.as_ref().contains(OPEN) {
            *name = self.parse_filled(at, &self.filled_text(at, name.as_ref())?)?;
        }
        Ok(())
    }

    fn parse_filled<T: FromStr<Err: Display>>(
        &self,
        at: TextLocation<'_>,
        text: &str,
    ) -> FillResult<T> {
        text.parse().map_err(|problem: T::Err| RunnerError::Filled {
            at: at.to_string(),
            task: self.task,
            problem: problem.to_string(),
        })
    }

    fn fill_text(&self, at: TextLocation<'_>, text: &mut Arc<str>) -> FillResult<()> {
        if text.contains(OPEN) {
            *text = self.filled_text(at, text)?;
        }
        Ok(())
    }

    /// Returns the filled text. A text that is a placeholder and nothing else becomes the value
    /// itself.
    fn filled_text(&self, at: TextLocation<'_>, text: &str) -> FillResult<Arc<str>> {
        let inner = text
            .strip_prefix(OPEN)
            .and_then(|rest| rest.strip_suffix(CLOSE));
        match inner.filter(|name| !name.contains(OPEN) && !name.contains(CLOSE)) {
            Some(name) => self.value_of(at, name.trim()),
            None => self.fill_placeholders(at, text).map(Arc::from),
        }
    }

    fn fill_placeholders(&self, at: TextLocation<'_>, text: &str) -> FillResult<String> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            filled.push_str(before);
            if let Some(after) = after.strip_prefix(OPEN) {
                filled.push_str(OPEN);
                rest = after;
                continue;
            }
            let (name, after) = after
                .split_once(CLOSE)
                .ok_or_else(|| RunnerError::Unclosed { at: at.to_string() })?;
            filled.push_str(&self.value_of(at, name.trim())?);
            if filled.len() > MOST_BYTES {
                let at = at.to_string();
                let task = self.task;
                return Err(RunnerError::FilledTooLong {
                    at,
                    task,
                    max: MOST_BYTES,
                });
            }
            rest = after;
        }
        filled.push_str(rest);
        self.taken
            .set(self.taken.get().saturating_add(filled.len()));
        if self.taken.get() > MOST_OF_ALL {
            let at = at.to_string();
            let task = self.task;
            return Err(RunnerError::FilledTooMuch {
                at,
                task,
                max: MOST_OF_ALL,
            });
        }
        Ok(filled)
    }

    fn value_of(&self, at: TextLocation<'_>, name: &str) -> FillResult<Arc<str>> {
        if name == super::TASK {
            return Ok(self.task.to_string().into());
        }
        self.values
            .get(name)
            .cloned()
            .ok_or_else(|| RunnerError::Placeholder {
                at: at.to_string(),
                name: name.chars().take(80).collect(),
                known: std::iter::once(super::TASK)
                    .chain(self.values.keys().map(AsRef::as_ref))
                    .map(str::to_owned)
                    .collect(),
            })
    }
}
