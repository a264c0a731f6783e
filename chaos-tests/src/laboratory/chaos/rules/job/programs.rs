//! What runs at a site: the program with what differs there, what a restart and the runner add,
//! which contents must be there, and which chunk of a file each component reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Result, ensure};
use cospan_domain::content::{Chunk, Content};
use cospan_domain::ids::{Attempt, ComponentIndex, JobId, SiteName};
use cospan_domain::job::spec::{
    ComponentSpec, Executable, Feed, Input, JobSpec, Override, ProgramAtSite, Request, Where,
};
use cospan_domain::job::state::{Began, Component, Job};
use cospan_domain::labels::Labels;
use cospan_domain::placed::Placement;
use cospan_domain::runner::{Launch, Task, find_runner, runner_of};
use cospan_domain::units::{Bytes, DurationMs};
use rand::Rng;
use rand::rngs::StdRng;

use super::super::records::{content, drawn, moment, site};
use super::descriptions::described;

/// The table of runners, and whether each lets its components go on without each other.
const RUNNERS: [(&str, bool); 3] = [("default", true), ("parallel", false), ("sweep", true)];

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let checks = [launched(chance), shared(chance)];
    checks.into_iter().filter_map(Result::err).map(|problem| format!("{problem:#}")).collect()
}

fn labels(chance: &mut StdRng) -> Labels {
    let mut labels = Labels::new();
    for key in ["arch", "mpi"] {
        let values: BTreeSet<Arc<str>> =
            ["a", "b"].iter().filter(|_| chance.random_bool(0.5)).map(|v| Arc::from(*v)).collect();
        if !values.is_empty() {
            labels.insert(key.into(), values);
        }
    }
    labels
}

/// A described job some of whose payloads have begun.
fn begun(chance: &mut StdRng) -> Result<Job> {
    let mut job = drawn(chance, 1)?;
    let mut spec = described(chance)?;
    let values = [("b".into(), "two".into()), ("a".into(), "1".into())];
    let task = Task {
        group: JobId(chance.random_range(1..99)),
        index: chance.random_range(0..9),
        count: 9,
        at_once: None,
        values: values.into_iter().take(chance.random_range(0..3)).collect(),
    };
    spec.run.task = chance.random_bool(0.6).then_some(task);
    let often = chance.random_bool(0.7);
    let count = if chance.random_bool(0.1) { 0 } else { spec.components.len() };
    let components = (0..count).map(|_| -> Result<Component> {
        let began = Began { site: site(chance)?, attempt: Attempt(chance.random_range(1..9)) };
        let began = chance.random_bool(if often { 0.9 } else { 0.3 }).then_some(began);
        Ok(Component { began, attempt: Attempt(9), ..Component::default() })
    });
    job.components = components.collect::<Result<_>>()?;
    job.instants.started = chance.random_bool(0.2).then(|| moment(chance));
    job.spec = spec.into();
    Ok(job)
}

/// What differs at a site: for its labels, then for the site by name.
fn changes<'a>(
    c: &'a ComponentSpec,
    at: &SiteName,
    labels: &Labels,
) -> impl Iterator<Item = &'a Override> {
    let by_label = c.at.iter().filter(|(place, _)| {
        matches!(place, Where::Label(key, value)
            if labels.iter().any(|(known, values)| known == key && values.contains(value)))
    });
    let by_name = c.at.iter().filter(|(place, _)| **place == Where::Site(at.clone()));
    by_label.chain(by_name).map(|(_, change)| change).collect::<Vec<_>>().into_iter()
}

/// The last that says something counts; variables and lines are added.
fn after<'a>(c: &ComponentSpec, changes: impl Iterator<Item = &'a Override>) -> ProgramAtSite {
    let (mut program, mut lrm_options) = (c.program.clone(), Vec::new());
    for change in changes {
        program.executable = change.executable.clone().unwrap_or(program.executable);
        program.arguments = change.arguments.clone().unwrap_or(program.arguments);
        program.directory = change.directory.clone().or(program.directory);
        for (name, value) in &change.environment {
            program.environment.insert(name.clone(), value.clone());
        }
        program.setup = [program.setup, change.setup.clone()].concat();
        lrm_options = [lrm_options, change.lrm_options.clone()].concat();
    }
    ProgramAtSite { program, lrm_options }
}

/// A start is a restart for all components or for none, and only then what `restart` says
/// holds. A sweep tells its values, and components of a parallel program find a list of hosts.
fn launched(chance: &mut StdRng) -> Result<()> {
    let (job, at, labels) = (begun(chance)?, site(chance)?, labels(chance));
    named(&job.spec)?;
    let all = !job.components.is_empty() && job.components.iter().all(|c| c.began.is_some());
    let again = all || job.instants.started.is_some();
    ensure!(job.is_restarted() == again, "it is restarted: {}: {job:?}", !again);
    let index = ComponentIndex(chance.random_range(0..3));
    let flexible = matches!(job.spec.request, Request::Flexible(_));
    let c = job.spec.components.get(if flexible { 0 } else { index.0 as usize });
    let is = Launch::of(&job, index, &at, &labels);
    let Some(c) = c else {
        ensure!(is.is_none(), "there is no component {index}: {is:?} of {job:?}");
        return Ok(());
    };
    let restart = c.restart.iter().filter(|_| again);
    let mut at_site = after(c, changes(c, &at, &labels).chain(restart));
    let mut told = told(&job);
    told.extend(again.then(|| ("COSPAN_RESTART".to_owned(), "1".to_owned())));
    let told = told.into_iter().map(|(name, value)| (name.into(), value.into()));
    at_site.program.environment.extend(told);
    let before = job.components.get(index.0 as usize).and_then(|c| c.began.as_ref());
    let earlier = before.filter(|began| again && began.site == at).map(|began| began.attempt);
    let lists_hosts = job.spec.run.runner.as_ref().is_some_and(|r| r.as_str() == "parallel");
    let ought = Launch { at_site, earlier, lists_hosts };
    ensure!(is.as_ref() == Some(&ought), "{index} starts at {at} with {is:?}, not {ought:?}");
    let plain = Launch::plain(c);
    let nothing = (&plain.at_site, plain.earlier, plain.lists_hosts);
    ensure!(nothing == (&after(c, std::iter::empty()), None, false), "{c:?} starts {plain:?}");
    brought(c, &at, &labels)
}

fn told(job: &Job) -> Vec<(String, String)> {
    let sweeps = job.spec.run.runner.as_ref().is_some_and(|runner| runner.as_str() == "sweep");
    let Some(task) = job.spec.run.task.as_ref().filter(|_| sweeps) else { return Vec::new() };
    let number = |name: &str, number: String| (format!("COSPAN_{name}"), number);
    let mut told = vec![
        number("GROUP", task.group.0.to_string()),
        number("TASK", task.index.to_string()),
        number("TASKS", task.count.to_string()),
    ];
    told.extend(
        task.values
            .iter()
            .map(|(name, value)| (format!("COSPAN_PARAMETER_{name}"), value.to_string())),
    );
    told
}

/// What must be there before it starts: what it reads, and the executable that runs there
/// first or when it is restarted, if that is brought.
fn brought(c: &ComponentSpec, at: &SiteName, labels: &Labels) -> Result<()> {
    let there = after(c, changes(c, at, labels));
    ensure!(c.program_at(at, labels) == there, "at {at} it is {there:?}: {c:?}");
    let restart = c.restart.as_ref().and_then(|change| change.executable.clone());
    let files = c.inputs.iter().map(|input| input.file.bound);
    let staged = [Some(there.program.executable), restart].into_iter().flatten();
    let staged = staged.map(|executable| match executable {
        Executable::Staged(file) => file.bound,
        Executable::AtSite(_) => None,
    });
    let ought: BTreeSet<Content> = files.chain(staged).flatten().collect();
    let is = c.contents_at(at, labels);
    ensure!(is == ought, "at {at} must be {is:?}, not {ought:?}: {c:?}");
    Ok(())
}

/// Who reads a file in chunks shares it out by processors, in the order of the components; the
/// parts of a flexible job by their shares. Equal chunks have the same name, others do not.
fn shared(chance: &mut StdRng) -> Result<()> {
    let mut job = begun(chance)?;
    let flexible = matches!(job.spec.request, Request::Flexible(_));
    let placements = (0..chance.random_range(1..4)).map(|_| -> Result<Placement> {
        let share = (flexible && chance.random_bool(0.9)).then(|| chance.random_range(1..9));
        let (sources, transfer_time) = (Vec::new(), DurationMs(0));
        Ok(Placement { site: site(chance)?, sources, transfer_time, share })
    });
    let placements = placements.collect::<Result<Vec<_>>>()?;
    if flexible {
        let placed = |placement: &Placement| Some(placement.clone());
        let whole = |p: &Placement| Component { placement: placed(p), ..Component::default() };
        job.components = placements.iter().map(whole).collect();
    }
    let mut names: BTreeMap<_, Chunk> = BTreeMap::new();
    let size = Bytes(chance.random_range(0..99));
    for (index, c) in job.spec.components.iter().enumerate() {
        for input in &c.inputs {
            let mut input = input.clone();
            if let Some(bound) = input.file.bound.as_mut().filter(|_| flexible) {
                bound.size = size;
            }
            let is = job.spec.chunk(index, &input, &placements);
            let ought = chunk(&job, index, &input, &placements);
            ensure!(is == ought, "{index} reads {is:?}, not {ought:?} of {input:?}: {job:?}");
            let Some(is) = is else { continue };
            let of = job.part_of(ComponentIndex(index as u32), is.of);
            if !flexible || placements.iter().all(|placement| placement.share.is_some()) {
                let again = Chunk::of_part(is.of, of);
                ensure!(again == is, "{index} reads {again:?}, not {is:?}: {job:?}");
            }
            let copied = is.content();
            let whole = is.length == is.of.size;
            ensure!(copied.size == is.length && (copied == is.of) == whole, "{is:?}: {copied:?}");
            let known = *names.entry(copied).or_insert(is);
            ensure!(known == is, "{known:?} is called like {is:?}");
        }
    }
    apart(chance)
}

fn chunk(job: &Job, index: usize, input: &Input, placements: &[Placement]) -> Option<Chunk> {
    let of = input.file.bound?;
    if input.feed != Feed::Chunk {
        return None;
    }
    let sizes: Vec<u64> = match job.spec.request {
        Request::Flexible(_) => {
            placements.iter().map(|placement| placement.share.unwrap_or(0).into()).collect()
        }
        _ => {
            let reads = |c: &ComponentSpec| {
                c.inputs.iter().any(|i| i.file.bound == Some(of) && i.feed == Feed::Chunk)
            };
            let size = |c: &ComponentSpec| {
                if reads(c) { u64::from(c.resources.processors) } else { 0 }
            };
            job.spec.components.iter().map(size).collect()
        }
    };
    let all: u64 = sizes.iter().sum();
    let cut = |count: usize| {
        let before: u64 = sizes.iter().take(count).sum();
        (of.size.0 * before).checked_div(all).unwrap_or(0)
    };
    let (begin, end) = (cut(index), cut(index + 1));
    Some(Chunk { of, offset: Bytes(begin), length: Bytes(end - begin) })
}

/// Chunks are taken for each other only if they are the same bytes of the same file.
fn apart(chance: &mut StdRng) -> Result<()> {
    let mut draw = || {
        let of = content(chance.random_range(1..3));
        let (offset, length) = (chance.random_range(0..3), chance.random_range(0..3));
        Chunk { of, offset: Bytes(offset), length: Bytes(length) }
    };
    let (one, other) = (draw(), draw());
    let same = one.content() == other.content();
    ensure!(same == (one == other), "{one:?} and {other:?} are called the same: {same}");
    Ok(())
}

/// Every runner of the guide is there under its name, and no other.
fn named(spec: &JobSpec) -> Result<()> {
    for (name, alone) in RUNNERS {
        let runner = find_runner(name).map_err(|problem| anyhow::anyhow!("{name}: {problem}"))?;
        let right = runner.name() == name && runner.components_are_independent() == alone;
        ensure!(right, "{name} is {}", runner.name());
    }
    ensure!(find_runner("").is_err() && find_runner("Default").is_err(), "any name is a runner");
    let ought = spec.run.runner.as_ref().map_or("default", |runner| runner.as_str());
    let is = runner_of(spec).map(|runner| runner.name());
    ensure!(is == Ok(ought), "{spec:?} is run by {is:?}");
    Ok(())
}
