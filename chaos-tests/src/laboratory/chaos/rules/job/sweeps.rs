//! What a description becomes: one job, or a job for each run of a sweep with its own values in
//! its texts; and which descriptions are refused, with the key that is wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, ensure};
use cospan_domain::ids::{JobId, RunnerName};
use cospan_domain::job::spec::{Collect, JobSpec};
use cospan_domain::runner::{Described, Indices, Over, Row, RunnerError, Sweep, Task};
use rand::Rng;
use rand::rngs::StdRng;

use super::descriptions::described;
use super::placeholders::{Texts, template};

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    // A whole description is much to fill, and what is wrong with it is of many kinds.
    let checked = match chance.random_range(0..8) {
        0 | 1 => swept(chance),
        2 | 3 => refused(chance),
        4 => alone(chance),
        _ => indices(chance).and_then(|()| odd_indices(chance)),
    };
    checked.err().into_iter().map(|problem| format!("{problem:#}")).collect()
}

/// Indices are those that batch systems mean by them, in the order given.
fn indices(chance: &mut StdRng) -> Result<()> {
    let (mut parts, mut each) = (Vec::new(), Vec::new());
    for _ in 0..chance.random_range(1..4) {
        let (first, more) = (chance.random_range(0..20_u64), chance.random_range(0..9));
        let step = chance.random_range(1..5_usize);
        let (part, last) = match chance.random_range(0..3) {
            0 => (format!("{first}"), first),
            1 => (format!("{first}-{}", first + more), first + more),
            _ => (format!(" {first} - {}:{step} ", first + more), first + more),
        };
        let step = if part.contains(':') { step } else { 1 };
        each.extend((first..=last).step_by(step));
        parts.push(part);
    }
    let at_once = chance.random_bool(0.4).then(|| chance.random_range(1..9));
    let text = parts.join(",") + &at_once.map_or(String::new(), |limit| format!("%{limit}"));
    let read: Indices = text.parse()?;
    let right = read.each().collect::<Vec<_>>() == each
        && read.count() == each.len() as u64
        && read.at_once() == at_once
        && read.to_string() == text;
    ensure!(right, "{text:?} are {read:?}, not {each:?}");
    Ok(())
}

/// What is no list of indices is refused with its text; the largest of them can be counted.
fn odd_indices(chance: &mut StdRng) -> Result<()> {
    let most = (1_u64 << 53) - 1;
    let odd =
        ["", "a", "1,", "3-1", "1-2-3", "0-9:0", "-1", "1%x", "1%", "1:", "+1", "1%4294967296"];
    let odd = match chance.random_range(0..=odd.len()) {
        at if at < odd.len() => odd[at].to_owned(),
        _ => (most + 1).to_string(),
    };
    let RunnerError::Indices { text, problem } = refusal(odd.parse::<Indices>())? else {
        anyhow::bail!("{odd:?} is refused for something else");
    };
    ensure!(text == odd && !problem.is_empty(), "{odd:?} is {text:?}: {problem}");
    let none = refusal("0-9%0".parse::<Indices>())?;
    ensure!(none == RunnerError::ZeroLimit, "none at once is {none:?}");
    let all: Indices = format!("0-{most},{most},7-8%4294967295").parse()?;
    let right = all.count() == most + 4 && all.at_once() == Some(u32::MAX);
    ensure!(right, "{all:?} are {}", all.count());
    Ok(())
}

fn refusal<T: std::fmt::Debug>(result: Result<T, RunnerError>) -> Result<RunnerError> {
    match result {
        Ok(taken) => anyhow::bail!("{taken:?} is taken"),
        Err(problem) => Ok(problem),
    }
}

fn value(chance: &mut StdRng) -> Arc<str> {
    ["0", "1.5", "two", "{{"][chance.random_range(0..4)].into()
}

/// Values, and the rows that they come to.
fn over(chance: &mut StdRng) -> Result<(Over, Vec<Row>)> {
    let names: Vec<Arc<str>> = ["_a", "b2"].map(Into::into)[..chance.random_range(1..=2)].to_vec();
    Ok(match chance.random_range(0..3) {
        0 => {
            let mut values = || (0..chance.random_range(1..4)).map(|_| value(chance)).collect();
            let axes: BTreeMap<Arc<str>, Vec<_>> =
                names.into_iter().map(|name| (name, values())).collect();
            let rows = combinations(&axes);
            (Over::Grid(axes), rows)
        }
        1 => {
            let row = |chance: &mut StdRng| -> Row {
                names.iter().map(|name| (name.clone(), value(chance))).collect()
            };
            let rows: Vec<Row> = (0..chance.random_range(1..4)).map(|_| row(chance)).collect();
            (Over::List(rows.clone()), rows)
        }
        _ => {
            let first = chance.random_range(0..3);
            let last = first + chance.random_range(0..3);
            let row = |index: u64| Row::from([("index".into(), index.to_string().into())]);
            (Over::Array(format!("{first}-{last}").parse()?), (first..=last).map(row).collect())
        }
    })
}

/// Counts like a clock whose last wheel is the fastest.
fn combinations(axes: &BTreeMap<Arc<str>, Vec<Arc<str>>>) -> Vec<Row> {
    let all: usize = axes.values().map(Vec::len).product();
    let row = |mut number: usize| {
        let mut row = Row::new();
        for (name, values) in axes.iter().rev() {
            row.insert(name.clone(), values[number % values.len()].clone());
            number /= values.len();
        }
        row
    };
    (0..all).map(row).collect()
}

/// A sweep over some values, the rows of it, and where it has which placeholders.
struct Case {
    described: Described,
    rows: Vec<Row>,
    texts: Texts,
}

fn case(chance: &mut StdRng) -> Result<Case> {
    let (over, rows) = over(chance)?;
    let names = rows.first().into_iter().flat_map(|row| row.keys().cloned()).collect();
    let mut texts = Texts::new(names);
    let mut spec = template(&mut |key| texts.drawn(chance, key))?;
    spec.run.runner = Some(RunnerName::new("sweep")?);
    let at_once = chance.random_bool(0.5).then(|| chance.random_range(1..4));
    let sweep = Some(Sweep { over, at_once });
    let max_tasks = rows.len() + chance.random_range(0..2);
    Ok(Case { described: Described { spec, sweep, max_tasks }, rows, texts })
}

/// Without a sweep a description is one job, as it is.
fn alone(chance: &mut StdRng) -> Result<()> {
    let mut spec = described(chance)?;
    let runner = RunnerName::new(["default", "parallel"][chance.random_range(0..2)])?;
    spec.run.runner = chance.random_bool(0.7).then_some(runner);
    let jobs = Described { spec: spec.clone(), sweep: None, max_tasks: 0 }.jobs()?;
    ensure!(jobs == [spec], "a description becomes {jobs:?}");
    Ok(())
}

/// A job for each row, with its values wherever the guide lets them be; no two runs register
/// the same file.
fn swept(chance: &mut StdRng) -> Result<()> {
    let Case { described, rows, texts } = case(chance)?;
    let at_once = described.sweep.as_ref().and_then(|sweep| sweep.at_once);
    let count = u32::try_from(rows.len())?;
    let mut ought = Vec::new();
    for (index, values) in (0..).zip(rows) {
        let mut job = template(&mut |key| texts.filled(key, &values, index))?;
        job.run.runner = described.spec.run.runner.clone();
        job.run.task = Some(Task { group: JobId(0), index, count, at_once, values });
        ought.push(job);
    }
    match (described.clone().jobs(), twice(&ought)) {
        (Ok(is), None) => ensure!(is == ought, "{described:?} becomes {is:?}, not {ought:?}"),
        (Err(RunnerError::RegisterTwice { name, first, second }), Some(ought)) => {
            let is = (name.to_string(), first, second);
            ensure!(is == ought, "{is:?} are registered twice, not {ought:?}: {described:?}");
        }
        (is, ought) => anyhow::bail!("{described:?} becomes {is:?}, twice there is {ought:?}"),
    }
    Ok(())
}

/// The first run that registers what an earlier one does.
fn twice(jobs: &[JobSpec]) -> Option<(String, u32, u32)> {
    let files = |job: &JobSpec| -> Vec<String> {
        let outputs = job.components.iter().flat_map(|c| &c.outputs);
        let registered = outputs.filter_map(|output| match &output.collect {
            Collect::ToSite { register, .. } => Some(register.to_string()),
            Collect::Fetch => None,
        });
        registered.collect()
    };
    let files: Vec<_> = jobs.iter().map(files).collect();
    for (second, mine) in (0..).zip(&files) {
        for name in mine {
            let first = files.iter().take(second as usize).position(|other| other.contains(name));
            if let Some(first) = first {
                return Some((name.clone(), first as u32, second));
            }
        }
    }
    None
}

/// One thing is wrong, and that is what is told, with its key.
fn refused(chance: &mut StdRng) -> Result<()> {
    let Case { mut described, rows, texts } = case(chance)?;
    let (key, ought) = match chance.random_range(0..12) {
        0..=4 => miscounted(chance, &mut described, rows.len())?,
        5..=8 => misnamed(chance, &mut described)?,
        kind => return misplaced(chance, described, &rows, &texts, kind),
    };
    let is = refusal(described.jobs())?;
    ensure!(is == ought && is.key() == key, "{is:?} of {:?}, not {ought:?}", is.key());
    ensure!(!is.to_string().is_empty(), "{is:?} says nothing");
    Ok(())
}

type Refused = (&'static str, RunnerError);

/// There is no run, or there are too many, at all or at once.
fn miscounted(chance: &mut StdRng, described: &mut Described, count: usize) -> Result<Refused> {
    let sweep = described.sweep.take();
    let over = |over: Over| Some(Sweep { over, at_once: None });
    Ok(match chance.random_range(0..5) {
        0 => ("sweep", RunnerError::NoSweep),
        1 => {
            let axes = [("a", vec!["1"]), ("b", vec![])];
            let grids = [grid(&[]), grid(&axes), Over::List(Vec::new())];
            described.sweep = over(grids[chance.random_range(0..3)].clone());
            ("sweep", RunnerError::NoTasks)
        }
        2 => {
            (described.sweep, described.max_tasks) = (sweep, count - 1);
            ("sweep", RunnerError::TooManyTasks { count: count as u64, max: count - 1 })
        }
        3 => {
            let at_once = Some(chance.random_range(0..2));
            described.sweep = Some(Sweep { over: Over::Array("0-9%2".parse()?), at_once });
            ("sweep.at_once", RunnerError::LimitTwice)
        }
        _ => {
            described.sweep = sweep.map(|sweep| Sweep { at_once: Some(0), ..sweep });
            ("sweep.at_once", RunnerError::ZeroLimit)
        }
    })
}

fn grid(axes: &[(&str, Vec<&str>)]) -> Over {
    let axis = |(name, values): &(&str, Vec<&str>)| -> (Arc<str>, Vec<Arc<str>>) {
        ((*name).into(), values.iter().map(|value| (*value).into()).collect())
    };
    Over::Grid(axes.iter().map(axis).collect())
}

/// A parameter has no name, not always the same, or a value that no program can get; or there
/// is no such runner, or none that sweeps.
fn misnamed(chance: &mut StdRng, described: &mut Described) -> Result<Refused> {
    let row =
        |names: &[&str]| -> Row { names.iter().map(|name| ((*name).into(), "1".into())).collect() };
    let over = |over: Over| Some(Sweep { over, at_once: None });
    described.max_tasks = 9;
    Ok(match chance.random_range(0..5) {
        0 => {
            let name = ["1a", "task", "a-b", ""][chance.random_range(0..4)];
            let odd =
                [Over::List(vec![row(&[name])]), grid(&[("ok", vec!["1"]), (name, vec!["1"])])];
            described.sweep = over(odd[chance.random_range(0..2)].clone());
            ("sweep", RunnerError::ParameterName(name.into()))
        }
        1 => {
            let other = [&["a"][..], &["a", "c"], &["a", "b", "c"]][chance.random_range(0..3)];
            let same = row(&["a", "b"]);
            described.sweep = over(Over::List(vec![same.clone(), same, row(other)]));
            let names = vec!["a".to_owned(), "b".to_owned()];
            ("sweep.list", RunnerError::RowsDiffer { row: 2, names })
        }
        2 => {
            let runner = described.spec.run.runner.clone();
            described.spec = template(&mut |_| "n".to_owned())?;
            described.spec.run.runner = runner;
            described.sweep = over(grid(&[("a", vec!["a\0b"])]));
            ("sweep", RunnerError::Nul("a".into()))
        }
        3 => {
            described.spec.run.runner = Some(RunnerName::new("unheard-of")?);
            let known = vec!["default", "parallel", "sweep"];
            ("runner", RunnerError::Unknown { name: "unheard-of".to_owned(), known })
        }
        _ => {
            let runner = ["default", "parallel"][chance.random_range(0..2)];
            described.spec.run.runner = Some(RunnerName::new(runner)?);
            ("sweep", RunnerError::SweepElsewhere { runner })
        }
    })
}

/// A placeholder that stands for nothing, one that does not end, or a value that makes a name
/// none: each is told with the key where it is.
fn misplaced(
    chance: &mut StdRng,
    mut described: Described,
    rows: &[Row],
    texts: &Texts,
    kind: u32,
) -> Result<()> {
    let at = texts.any(chance, kind == 11);
    let bad = match kind {
        9 => "n{{nobody}}",
        10 => "n{{task}} {{task",
        _ => "{{value}}",
    };
    let mut first = None;
    if kind == 11 {
        let index = chance.random_range(0..rows.len());
        let valued = |(row, mut values): (usize, Row)| {
            let value = if row < index { "v" } else { ".." };
            values.insert("value".into(), value.into());
            values
        };
        let rows = rows.iter().cloned().enumerate().map(valued).collect();
        described.sweep = Some(Sweep { over: Over::List(rows), at_once: None });
        first = Some(index as u32);
    }
    let mut spec =
        template(&mut |key| if key == at { bad.to_owned() } else { texts.written(key) })?;
    spec.run.runner = described.spec.run.runner.clone();
    described.spec = spec;
    let is = refusal(described.jobs())?;
    let right = match &is {
        RunnerError::Placeholder { name, known, .. } => {
            let names = rows.first().into_iter().flat_map(Row::keys);
            let all = ["task"].into_iter().chain(names.map(|name| &**name));
            kind == 9 && name == "nobody" && known.iter().map(String::as_str).eq(all)
        }
        RunnerError::Unclosed { .. } => kind == 10,
        RunnerError::Filled { task, problem, .. } => Some(*task) == first && !problem.is_empty(),
        _ => false,
    };
    ensure!(right && is.key() == at, "{is:?} is told for {bad:?} at {at}");
    Ok(())
}
