//! Texts with placeholders, as they are written and as they read once they are filled, and a
//! description that has one wherever the guide lets it be.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use cospan_domain::ids::{LogicalName, RelPath, SiteName};
use cospan_domain::job::spec::{
    Collect, Executable, Feed, FileRef, Input, JobSpec, Output, Override, Where,
};
use cospan_domain::runner::Row;
use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;

use crate::laboratory::jobs::job;

/// Shell lines and options, which nothing is put into.
const UNTOUCHED: &str = "echo {{task}}";

/// A part of a text.
#[derive(Debug, Clone)]
enum Part {
    Plain(&'static str),
    Value(Arc<str>, bool),
    Task,
    Braces,
}

/// Which text is where.
#[derive(Debug)]
pub(super) struct Texts {
    names: Vec<Arc<str>>,
    of: BTreeMap<String, Vec<Part>>,
}

impl Texts {
    pub(super) fn new(names: Vec<Arc<str>>) -> Self {
        Self { names, of: BTreeMap::new() }
    }

    /// Draws what is there, as it is written. It begins like a name.
    pub(super) fn drawn(&mut self, chance: &mut StdRng, key: &str) -> String {
        let mut parts = vec![Part::Plain("n")];
        for _ in 0..chance.random_range(0..4) {
            parts.push(match chance.random_range(0..5) {
                0 => Part::Plain(["x", "}}", "-y z"][chance.random_range(0..3)]),
                1 => Part::Task,
                2 => Part::Braces,
                _ => {
                    let name = self.names[chance.random_range(0..self.names.len())].clone();
                    Part::Value(name, chance.random_bool(0.5))
                }
            });
        }
        if key.ends_with(".register") && chance.random_bool(0.8) {
            parts.push(Part::Task);
        }
        self.of.insert(key.to_owned(), parts);
        self.written(key)
    }

    pub(super) fn written(&self, key: &str) -> String {
        let part = |part: &Part| match part {
            Part::Plain(text) => (*text).to_owned(),
            Part::Value(name, true) => format!("{{{{ {name} }}}}"),
            Part::Value(name, false) => format!("{{{{{name}}}}}"),
            Part::Task => "{{task}}".to_owned(),
            Part::Braces => "{{{{".to_owned(),
        };
        self.of.get(key).into_iter().flatten().map(part).collect()
    }

    pub(super) fn filled(&self, key: &str, values: &Row, task: u32) -> String {
        let part = |part: &Part| match part {
            Part::Plain(text) => (*text).to_owned(),
            Part::Value(name, _) => values.get(name).map(ToString::to_string).unwrap_or_default(),
            Part::Task => task.to_string(),
            Part::Braces => "{{".to_owned(),
        };
        self.of.get(key).into_iter().flatten().map(part).collect()
    }

    /// One of the places; a path, if asked for.
    pub(super) fn any(&self, chance: &mut StdRng, path: bool) -> String {
        let is_path = |key: &&String| key.ends_with(".path") || key.ends_with(".directory");
        let keys: Vec<_> = self.of.keys().filter(|key| !path || is_path(key)).collect();
        keys[chance.random_range(0..keys.len())].clone()
    }
}

fn staged(name: &str) -> Result<Executable> {
    Ok(Executable::Staged(FileRef { name: LogicalName::new(name)?, bound: None }))
}

fn change(at: &str, brought: bool, text: &mut impl FnMut(&str) -> String) -> Result<Override> {
    let mut of = |key: &str| text(&format!("{at}.{key}"));
    let executable = match brought {
        true => staged(&of("executable.file"))?,
        false => Executable::AtSite(of("executable").into()),
    };
    let arguments = vec![of("arguments[0]").into(), of("arguments[1]").into()];
    Ok(Override {
        executable: Some(executable),
        arguments: Some(arguments),
        environment: [("KIND".into(), of("environment.KIND").into())].into(),
        setup: vec![UNTOUCHED.into()],
        directory: Some(RelPath::new(&of("directory"))?),
        lrm_options: vec![UNTOUCHED.into()],
    })
}

/// A description whose texts are asked for by their keys.
///
/// # Errors
/// A text that must be a name is none.
pub(super) fn template(text: &mut impl FnMut(&str) -> String) -> Result<JobSpec> {
    let mut spec = job(&[2, 1], DurationMs(1), DurationMs(10), 0)?;
    spec.name = Some(text("name").into());
    for (index, c) in spec.components.iter_mut().enumerate() {
        let at = format!("component[{index}]");
        let program = change(&at, index == 0, text)?;
        c.program.executable = program.executable.unwrap_or(c.program.executable.clone());
        c.program.arguments = program.arguments.unwrap_or_default();
        (c.program.environment, c.program.setup) = (program.environment, program.setup);
        c.program.directory = program.directory;
        let file =
            FileRef { name: LogicalName::new(&text(&format!("{at}.input[0].file")))?, bound: None };
        let path = RelPath::new(&text(&format!("{at}.input[0].path")))?;
        c.inputs.push(Input { file, path, feed: Feed::Whole });
        let path = RelPath::new(&text(&format!("{at}.output[0].path")))?;
        c.outputs.push(Output { path, collect: Collect::Fetch });
        let path = RelPath::new(&text(&format!("{at}.output[1].path")))?;
        let register = LogicalName::new(&text(&format!("{at}.output[1].register")))?;
        let site = SiteName::new("delft")?;
        c.outputs.push(Output { path, collect: Collect::ToSite { site, register } });
    }
    let c = &mut spec.components[1];
    let places = [
        ("delft", Where::Site(SiteName::new("delft")?)),
        ("arch=arm", Where::Label("arch".into(), "arm".into())),
    ];
    for (name, place) in places {
        c.at.insert(place, change(&format!("component[1].at.{name}"), name == "delft", text)?);
    }
    c.restart = Some(change("component[1].restart", false, text)?);
    Ok(spec)
}
