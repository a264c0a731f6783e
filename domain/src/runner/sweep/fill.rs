//! Placeholders: `{{name}}` becomes the value of that parameter, `{{{{` becomes `{{`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use super::Row;
use crate::job::spec::{
    Collect, ComponentSpec, Executable, FileRef, JobSpec, Override, PackedProgram, Program,
};
use crate::runner::RunnerError;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// Puts the values of one task into the texts of a job.
pub(super) struct Filler<'a> {
    /// By parameter.
    pub(super) values: &'a Row,
    /// Which task.
    pub(super) task: u32,
}

type Filled<T> = Result<T, RunnerError>;

impl Filler<'_> {
    /// The job of the task.
    pub(super) fn job(&self, template: &JobSpec) -> Filled<JobSpec> {
        let mut job = template.clone();
        if let Some(name) = &mut job.name {
            self.text("name", name)?;
        }
        for (index, component) in job.components.iter_mut().enumerate() {
            self.component(&format!("component[{index}]"), component)?;
        }
        Ok(job)
    }

    fn component(&self, at: &str, component: &mut ComponentSpec) -> Filled<()> {
        self.program(at, &mut component.program)?;
        for (index, input) in component.inputs.iter_mut().enumerate() {
            let at = format!("{at}.input[{index}]");
            self.file(&at, &mut input.file)?;
            self.name(&format!("{at}.path"), &mut input.path)?;
        }
        for (index, output) in component.outputs.iter_mut().enumerate() {
            let at = format!("{at}.output[{index}]");
            self.name(&format!("{at}.path"), &mut output.path)?;
            if let Collect::ToSite { register, .. } = &mut output.collect {
                self.name(&format!("{at}.register"), register)?;
            }
        }
        for (place, change) in &mut component.at {
            self.change(&format!("{at}.at.{place}"), change)?;
        }
        match &mut component.restart {
            Some(change) => self.change(&format!("{at}.restart"), change),
            None => Ok(()),
        }
    }

    /// What is the same in every task stays in one piece for all.
    fn program(&self, at: &str, packed: &mut PackedProgram) -> Filled<()> {
        let mut program = packed.open();
        self.opened(at, &mut program)?;
        let filled = PackedProgram::from(program);
        if filled != *packed {
            *packed = filled;
        }
        Ok(())
    }

    fn opened(&self, at: &str, program: &mut Program) -> Filled<()> {
        self.executable(at, &mut program.executable)?;
        self.texts(at, &mut program.arguments, &mut program.environment)?;
        match &mut program.directory {
            Some(directory) => self.name(&format!("{at}.directory"), directory),
            None => Ok(()),
        }
    }

    fn change(&self, at: &str, change: &mut Override) -> Filled<()> {
        if let Some(executable) = &mut change.executable {
            self.executable(at, executable)?;
        }
        let arguments = change.arguments.as_deref_mut().unwrap_or_default();
        self.texts(at, arguments, &mut change.environment)?;
        match &mut change.directory {
            Some(directory) => self.name(&format!("{at}.directory"), directory),
            None => Ok(()),
        }
    }

    fn texts(
        &self,
        at: &str,
        arguments: &mut [Arc<str>],
        environment: &mut BTreeMap<Arc<str>, Arc<str>>,
    ) -> Filled<()> {
        for (index, argument) in arguments.iter_mut().enumerate() {
            self.text(&format!("{at}.arguments[{index}]"), argument)?;
        }
        for (name, value) in environment {
            self.text(&format!("{at}.environment.{name}"), value)?;
        }
        Ok(())
    }

    fn executable(&self, at: &str, executable: &mut Executable) -> Filled<()> {
        match executable {
            Executable::AtSite(path) => self.text(&format!("{at}.executable"), path),
            Executable::Staged(file) => self.file(&format!("{at}.executable"), file),
        }
    }

    fn file(&self, at: &str, file: &mut FileRef) -> Filled<()> {
        self.name(&format!("{at}.file"), &mut file.name)
    }

    /// A text that must still be a name once it is filled.
    fn name<T>(&self, at: &str, name: &mut T) -> Filled<()>
    where
        T: Display + FromStr<Err: Display>,
    {
        let mut text: Arc<str> = name.to_string().into();
        if !text.contains(OPEN) {
            return Ok(());
        }
        self.text(at, &mut text)?;
        *name = text.parse().map_err(|problem: T::Err| RunnerError::Filled {
            at: at.to_owned(),
            task: self.task,
            problem: problem.to_string(),
        })?;
        Ok(())
    }

    fn text(&self, at: &str, text: &mut Arc<str>) -> Filled<()> {
        if text.contains(OPEN) {
            *text = self.filled(at, text)?.into();
        }
        Ok(())
    }

    fn filled(&self, at: &str, text: &str) -> Filled<String> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            filled.push_str(before);
            if let Some(after) = after.strip_prefix(OPEN) {
                filled.push_str(OPEN);
                rest = after;
                continue;
            }
            let unclosed = || RunnerError::Unclosed { at: at.to_owned() };
            let (name, after) = after.split_once(CLOSE).ok_or_else(unclosed)?;
            filled.push_str(&self.value(at, name.trim())?);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn value(&self, at: &str, name: &str) -> Filled<Arc<str>> {
        if name == super::TASK {
            return Ok(self.task.to_string().into());
        }
        self.values.get(name).cloned().ok_or_else(|| RunnerError::Placeholder {
            at: at.to_owned(),
            name: name.chars().take(80).collect(),
            known: std::iter::once(super::TASK)
                .chain(self.values.keys().map(AsRef::as_ref))
                .map(str::to_owned)
                .collect(),
        })
    }
}
