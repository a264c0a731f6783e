//! Descriptions of jobs as users write them, sound ones and such that somebody got wrong.

use std::sync::Arc;

use anyhow::Result;
use cospan_domain::content::Content;
use cospan_domain::ids::{ComponentName, LogicalName, RelPath, RunnerName, SiteName};
use cospan_domain::job::spec::{
    Collect, ComponentSpec, Executable, Feed, FileRef, Flexible, Input, JobSpec, Output, Override,
    Request, Where,
};
use cospan_domain::runner::{RestartScope, Signal, Warning};
use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::super::records::{content, site};
use crate::laboratory::jobs::job;

/// Wall times are about this long.
const WALL_TIME: u64 = 10;

fn one<'a>(chance: &mut StdRng, of: &[&'a str]) -> &'a str {
    of.choose(chance).copied().unwrap_or("")
}

fn bound(chance: &mut StdRng) -> Option<Content> {
    let number = chance.random_range(1..=4);
    (number < 4).then(|| content(number))
}

/// A logical file, with what it means or without.
pub(super) fn file(chance: &mut StdRng) -> Result<FileRef> {
    let name = format!("file-{}", chance.random_range(0..3));
    Ok(FileRef { name: LogicalName::new(&name)?, bound: bound(chance) })
}

fn executable(chance: &mut StdRng) -> Result<Executable> {
    Ok(match chance.random_bool(0.5) {
        true => Executable::Staged(file(chance)?),
        false => Executable::AtSite(one(chance, &["/opt/one", "two"]).into()),
    })
}

fn texts(chance: &mut StdRng, of: &[&str]) -> Vec<Arc<str>> {
    (0..chance.random_range(0..3)).map(|_| one(chance, of).into()).collect()
}

/// What differs somewhere: anything may stay as it is.
pub(super) fn change(chance: &mut StdRng) -> Result<Override> {
    let names = ["KIND", "_x9", "MORE"];
    let variables = (0..chance.random_range(0..3)).map(|_| {
        let (name, value) = (one(chance, &names), one(chance, &["", "1", "two words"]));
        (name.into(), value.into())
    });
    let environment = variables.collect();
    let directory = RelPath::new(one(chance, &["here", "there/below"]))?;
    Ok(Override {
        executable: chance.random_bool(0.4).then(|| executable(chance)).transpose()?,
        arguments: chance.random_bool(0.5).then(|| texts(chance, &["", "--fast", "7"])),
        environment,
        setup: texts(chance, &["module load gcc", "ulimit -c 0"]),
        directory: chance.random_bool(0.4).then_some(directory),
        lrm_options: texts(chance, &["--exclusive", "--partition=arm"]),
    })
}

fn place(chance: &mut StdRng) -> Result<Where> {
    let (key, value) = (one(chance, &["arch", "mpi"]), one(chance, &["a", "b"]));
    Ok(match chance.random_bool(0.5) {
        true => Where::Site(site(chance)?),
        false => Where::Label(key.into(), value.into()),
    })
}

fn fill(chance: &mut StdRng, c: &mut ComponentSpec) -> Result<()> {
    let program = change(chance)?;
    c.program.executable = executable(chance)?;
    c.program.arguments = program.arguments.unwrap_or_default();
    c.program.environment = program.environment;
    c.program.setup = program.setup;
    c.program.directory = program.directory;
    for number in 0..chance.random_range(0..3) {
        let path = RelPath::new(&format!("in-{number}"))?;
        let feed = if chance.random_bool(0.5) { Feed::Whole } else { Feed::Chunk };
        c.inputs.push(Input { file: file(chance)?, path, feed });
    }
    for number in 0..chance.random_range(0..3) {
        let path = RelPath::new(&format!("out-{number}"))?;
        c.outputs.push(Output { path, collect: Collect::Fetch });
    }
    for _ in 0..chance.random_range(0..4) {
        c.at.insert(place(chance)?, change(chance)?);
    }
    c.restart = chance.random_bool(0.3).then(|| change(chance)).transpose()?;
    Ok(())
}

/// A sound description.
///
/// # Errors
/// Never: all names are valid.
pub(super) fn described(chance: &mut StdRng) -> Result<JobSpec> {
    let count = [1, 1, 2, 3][chance.random_range(0..4)];
    let sizes: Vec<u32> = (0..count).map(|_| chance.random_range(1..=6)).collect();
    let mut spec = job(&sizes, DurationMs(WALL_TIME), DurationMs(WALL_TIME), 0)?;
    for c in &mut spec.components {
        fill(chance, c)?;
    }
    spec.request = match chance.random_range(0..4) {
        0 => Request::Fixed,
        1 | 2 if sizes.len() == 1 => Request::Flexible(flexible(chance, sizes[0])),
        _ => Request::NonFixed,
    };
    if spec.request == Request::Fixed {
        for c in &mut spec.components {
            c.site = Some(site(chance)?);
        }
    }
    let signal = Signal::Usr1;
    let warning = Warning { signal, before: DurationMs(chance.random_range(1..WALL_TIME)) };
    spec.run.warning = chance.random_bool(0.3).then_some(warning);
    let runner = one(chance, &["default", "parallel", "sweep"]);
    spec.run.runner = chance.random_bool(0.7).then(|| RunnerName::new(runner)).transpose()?;
    let alone = runner != "parallel" && chance.random_bool(0.4);
    spec.run.restart_scope = if alone { RestartScope::Component } else { RestartScope::Job };
    let once = !alone && spec.components.iter().all(|c| c.restart.is_none());
    spec.rerunnable = !once || chance.random_bool(0.5);
    Ok(spec)
}

fn flexible(chance: &mut StdRng, total: u32) -> Flexible {
    let first = chance.random_range(1..=total);
    let halves: Vec<u32> = [first, total - first].into_iter().filter(|size| *size > 0).collect();
    let splits = [vec![], vec![halves.clone()], vec![vec![total], halves]];
    let splits = splits[chance.random_range(0..3)].clone();
    // Where splits are listed, the bounds do not count.
    let most = if splits.is_empty() { total } else { 9 };
    let min_component_size = chance.random_range(1..=most);
    let max_components = chance.random_bool(0.5).then(|| chance.random_range(1..4));
    Flexible { min_component_size, max_components, splits }
}

/// Changes something in a description, after which it may be wrong.
///
/// # Errors
/// Never: all names are valid.
pub(super) fn spoil(chance: &mut StdRng, spec: &mut JobSpec) -> Result<()> {
    let bounds = |request: &JobSpec| match &request.request {
        Request::Flexible(bounds) => bounds.clone(),
        _ => Flexible::default(),
    };
    match chance.random_range(0..16) {
        0 => spec.components.clear(),
        1 => spec.wall_time = DurationMs(chance.random_range(0..3)),
        2 => spec.request = [Request::Fixed, Request::NonFixed][chance.random_range(0..2)].clone(),
        3 => {
            let mut bounds = bounds(spec);
            let total = spec.components.first().map_or(0, |c| c.resources.processors);
            bounds.min_component_size = [0, total, total + 1][chance.random_range(0..3)];
            spec.request = Request::Flexible(bounds);
        }
        4 => {
            let mut bounds = bounds(spec);
            bounds.max_components = Some(chance.random_range(0..2));
            spec.request = Request::Flexible(bounds);
        }
        5 => {
            let mut bounds = bounds(spec);
            let size = |chance: &mut StdRng| chance.random_range(0..4);
            bounds.splits.push((0..chance.random_range(0..3)).map(|_| size(chance)).collect());
            spec.request = Request::Flexible(bounds);
        }
        6 => {
            let before = DurationMs(chance.random_range(0..=WALL_TIME + 1));
            spec.run.warning = Some(Warning { signal: Signal::Term, before });
        }
        7 => spec.rerunnable = false,
        8 => spec.run.restart_scope = RestartScope::Component,
        9 => {
            let runner = one(chance, &["parallel", "unheard-of", "default"]);
            spec.run.runner = Some(RunnerName::new(runner)?);
        }
        _ => {
            let count = spec.components.len();
            if count > 0 {
                let at = chance.random_range(0..count);
                spoil_component(chance, &mut spec.components[at])?;
            }
        }
    }
    Ok(())
}

fn spoil_component(chance: &mut StdRng, c: &mut ComponentSpec) -> Result<()> {
    match chance.random_range(0..9) {
        0 => c.name = ComponentName::new("part-0")?,
        1 => c.resources.processors = 0,
        2 => c.site = chance.random_bool(0.5).then(|| SiteName::new("site-0")).transpose()?,
        3 => {
            let path = RelPath::new(one(chance, &["in-0", "in-1", "in-2"]))?;
            c.inputs.push(Input { file: file(chance)?, path, feed: Feed::Whole });
        }
        4 => {
            let path = RelPath::new(one(chance, &["out-0", "out-1", "out-2"]))?;
            let register = LogicalName::new("result")?;
            let to_site = Collect::ToSite { site: site(chance)?, register };
            let collect = if chance.random_bool(0.5) { Collect::Fetch } else { to_site };
            c.outputs.push(Output { path, collect });
        }
        _ => spoil_program(chance, c),
    }
    Ok(())
}

/// In the program itself, or in what replaces it.
fn spoil_program(chance: &mut StdRng, c: &mut ComponentSpec) {
    let path = one(chance, &["", "/a\0b", "/sound"]);
    let argument: Arc<str> = one(chance, &["\0", "", "sound"]).into();
    let name = one(chance, &["", "1A", "_", "A1", "_1", "A-B", "a b", "\u{e9}", "Z_9"]);
    let value: Arc<str> = one(chance, &["a\0", "sound", "sound"]).into();
    let kind = chance.random_range(0..3);
    let change = c.at.values_mut().chain(&mut c.restart).next_back();
    match (change.filter(|_| chance.random_bool(0.5)), kind) {
        (Some(change), 0) => change.executable = Some(Executable::AtSite(path.into())),
        (Some(change), 1) => change.arguments = Some(vec![argument]),
        (Some(change), _) => _ = change.environment.insert(name.into(), value),
        (None, 0) => c.program.executable = Executable::AtSite(path.into()),
        (None, 1) => c.program.arguments.push(argument),
        (None, _) => _ = c.program.environment.insert(name.into(), value),
    }
}
