//! What users may ask for: a sound job is taken, and of one that is not something is named that
//! is wrong with it. Also what a request comes to: names, totals, bounds, files.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use cospan_domain::ids::{ComponentName, LogicalName, SiteName};
use cospan_domain::job::spec::{
    Collect, ComponentSpec, Executable, FileRef, JobSpec, Override, Request, SpecError, SpecLimits,
};
use cospan_domain::placed::Placement;
use cospan_domain::resources::Resources;
use cospan_domain::runner::{RestartScope, RunnerError};
use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;

use super::super::quantities::{counts, vector};
use super::super::records::{content, site};
use super::descriptions::{described, spoil};

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let more = match chance.random_range(0..3) {
        0 => bindings(chance),
        1 => totals(chance),
        _ => bounds(chance),
    };
    let checks = [validity(chance), more];
    checks.into_iter().filter_map(Result::err).map(|problem| format!("{problem:#}")).collect()
}

/// What is told is something that is wrong, and it is told with what it is about.
fn validity(chance: &mut StdRng) -> Result<()> {
    let mut spec = described(chance)?;
    for _ in 0..chance.random_range(0..=2) {
        spoil(chance, &mut spec)?;
    }
    let max_components = chance.random_range(2..=4);
    let wall_time = spec.wall_time.0 + chance.random_range(0..4);
    let max_wall_time = DurationMs(wall_time.saturating_sub(1).max(1));
    let limits = SpecLimits { max_components, max_wall_time };
    let ought = faults(&spec, &limits);
    match spec.validate(&limits) {
        Ok(()) => ensure!(ought.is_empty(), "nothing is wrong, not {ought:?}: {spec:?}"),
        Err(fault) => {
            let told = fault.to_string();
            let silent = words(&fault).into_iter().find(|word| !told.contains(word));
            let right = ought.contains(&fault) && silent.is_none();
            ensure!(right, "{fault:?} {told:?}, not {ought:?} {silent:?}: {spec:?} {limits:?}");
        }
    }
    Ok(())
}

/// All that is wrong.
fn faults(spec: &JobSpec, limits: &SpecLimits) -> Vec<SpecError> {
    let (count, max) = (spec.components.len(), limits.max_components);
    let (given, longest) = (spec.wall_time, limits.max_wall_time);
    let mut found = so([
        (count == 0, SpecError::NoComponents),
        (count as u64 > u64::from(max), SpecError::TooManyComponents { count, max }),
        (given.0 == 0 || given > longest, SpecError::WallTime { given, max: longest }),
    ]);
    for (at, c) in spec.components.iter().enumerate() {
        let again = spec.components[..at].iter().any(|other| other.name == c.name);
        found.extend(again.then(|| SpecError::DuplicateComponent(c.name.clone())));
        found.extend(of_component(c, spec.request == Request::Fixed));
    }
    found.extend(of_split(spec));
    found.extend(of_runs(spec).into_iter().map(SpecError::Runner));
    found
}

fn so<T, const N: usize>(faults: [(bool, T); N]) -> Vec<T> {
    faults.into_iter().filter(|(so, _)| *so).map(|(_, fault)| fault).collect()
}

/// One that asks for something, at a site only if it is fixed, each path once.
fn of_component(c: &ComponentSpec, fixed: bool) -> Vec<SpecError> {
    let name = || c.name.clone();
    let mut found = so([
        (c.resources.processors == 0, SpecError::NoProcessors(name())),
        (fixed && c.site.is_none(), SpecError::FixedWithoutSite(name())),
    ]);
    let at = c.site.clone().filter(|_| !fixed);
    found.extend(at.map(|at| SpecError::SiteWithoutFixed(name(), at)));
    let input = twice(c.inputs.iter().map(|input| input.path.clone()));
    found.extend(input.map(|path| SpecError::DuplicateInput(name(), path)));
    let output = twice(c.outputs.iter().map(|output| output.path.clone()));
    found.extend(output.map(|path| SpecError::DuplicateOutput(name(), path)));
    found.extend(of_programs(c));
    found
}

/// The first that was there before.
fn twice<T: Ord + Clone>(all: impl Iterator<Item = T>) -> Option<T> {
    let mut seen = BTreeSet::new();
    all.into_iter().find(|one| !seen.insert(one.clone()))
}

/// What may run: the program itself, and what replaces parts of it.
fn of_programs(c: &ComponentSpec) -> Vec<SpecError> {
    let name = || c.name.clone();
    let program = Override {
        executable: Some(c.program.executable.clone()),
        arguments: Some(c.program.arguments.clone()),
        environment: c.program.environment.clone(),
        ..Override::default()
    };
    let mut found = Vec::new();
    for change in c.at.values().chain(&c.restart).chain([&program]) {
        let nul = |what| SpecError::Nul(name(), what);
        if let Some(Executable::AtSite(path)) = &change.executable {
            found.extend(so([
                (path.is_empty(), SpecError::NoExecutable(name())),
                (path.contains('\0'), nul("the executable")),
            ]));
        }
        let mut arguments = change.arguments.iter().flatten();
        found.extend(so([(arguments.any(|text| text.contains('\0')), nul("an argument"))]));
        for (variable, value) in &change.environment {
            let letters = |c: char| c == '_' || c.is_ascii_alphanumeric();
            let digit = variable.starts_with(|c: char| c.is_ascii_digit());
            let valid = !variable.is_empty() && !digit && variable.chars().all(letters);
            found.extend(so([
                (!valid, SpecError::VariableName(name(), variable.clone())),
                (value.contains('\0'), nul("a variable")),
            ]));
        }
    }
    found
}

/// A flexible request is one component, registers nothing, and can be split at all.
fn of_split(spec: &JobSpec) -> Vec<SpecError> {
    let Request::Flexible(bounds) = &spec.request else { return Vec::new() };
    let count = spec.components.len();
    let [c] = spec.components.as_slice() else {
        return vec![SpecError::FlexibleComponents { count }];
    };
    let (total, min) = (c.resources.processors, bounds.min_component_size);
    let below = SpecError::BelowMinimum { name: c.name.clone(), total, min };
    let mut found = so([
        (min == 0 || bounds.max_components == Some(0), SpecError::ZeroBound),
        (bounds.splits.is_empty() && total < min, below),
    ]);
    for output in &c.outputs {
        if let Collect::ToSite { register, .. } = &output.collect {
            found.push(SpecError::FlexibleOutput(register.clone()));
        }
    }
    for split in &bounds.splits {
        let all: u64 = split.iter().map(|size| u64::from(*size)).sum();
        let odd = split.contains(&0) || all != u64::from(total);
        found.extend(so([(odd, SpecError::SplitSum { split: split.clone(), total })]));
    }
    found
}

/// How it is run: by whom there is, with a warning in time, and twice only if it may.
fn of_runs(spec: &JobSpec) -> Vec<RunnerError> {
    let known = vec!["default", "parallel", "sweep"];
    let runner = spec.run.runner.as_ref().map_or("default", |runner| runner.as_str());
    let Some(runner) = known.iter().find(|known| **known == runner).copied() else {
        return vec![RunnerError::Unknown { name: runner.to_owned(), known }];
    };
    let alone = spec.run.restart_scope == RestartScope::Component;
    let mut found = so([
        (alone && runner == "parallel", RunnerError::ScopeWithRunner { runner }),
        (alone && !spec.rerunnable, RunnerError::ScopeForbidden),
    ]);
    if let Some(warning) = spec.run.warning {
        let (before, wall_time) = (warning.before, spec.wall_time);
        let odd = before.0 == 0 || before >= wall_time;
        found.extend(so([(odd, RunnerError::Warning { before, wall_time })]));
    }
    let restarted = spec.components.iter().find(|c| c.restart.is_some() && !spec.rerunnable);
    found.extend(restarted.map(|c| RunnerError::RestartForbidden(c.name.clone())));
    found
}

/// What a refusal has to name.
fn words(fault: &SpecError) -> Vec<String> {
    let name = ComponentName::to_string;
    match fault {
        SpecError::TooManyComponents { count, max } => vec![count.to_string(), max.to_string()],
        SpecError::DuplicateComponent(c)
        | SpecError::NoProcessors(c)
        | SpecError::FixedWithoutSite(c)
        | SpecError::NoExecutable(c) => vec![name(c)],
        SpecError::SiteWithoutFixed(c, site) => vec![name(c), site.to_string()],
        SpecError::FlexibleComponents { count } => vec![count.to_string()],
        SpecError::BelowMinimum { name: c, total, min } => {
            vec![name(c), total.to_string(), min.to_string()]
        }
        SpecError::SplitSum { split, total } => {
            split.iter().chain([total]).map(ToString::to_string).collect()
        }
        SpecError::FlexibleOutput(file) => vec![file.to_string()],
        SpecError::WallTime { given, max } => vec![given.to_string(), max.to_string()],
        SpecError::DuplicateInput(c, path) | SpecError::DuplicateOutput(c, path) => {
            vec![name(c), path.to_string()]
        }
        SpecError::Nul(c, what) => vec![name(c), (*what).to_owned()],
        SpecError::VariableName(c, variable) => vec![name(c), format!("{variable:?}")],
        SpecError::Runner(fault) => words_of_runs(fault),
        SpecError::NoComponents | SpecError::ZeroBound => vec!["at least".to_owned()],
    }
}

/// The key that it is about is told beside it.
fn words_of_runs(fault: &RunnerError) -> Vec<String> {
    let (key, words) = match fault {
        RunnerError::Unknown { name, known } => {
            let known = known.iter().map(|known| (*known).to_owned());
            ("runner", known.chain([name.clone()]).collect())
        }
        RunnerError::Warning { before, wall_time } => {
            ("warning.before", vec![before.to_string(), wall_time.to_string()])
        }
        RunnerError::RestartForbidden(c) => ("component.restart", vec![c.to_string()]),
        RunnerError::ScopeWithRunner { runner } => ("restart_scope", vec![(*runner).to_owned()]),
        RunnerError::ScopeForbidden => ("restart_scope", vec!["rerunnable".to_owned()]),
        other => return vec![format!("no refusal of a job: {other:?}")],
    };
    let right = fault.key() == key;
    words.into_iter().chain((!right).then(|| format!("the key {key}"))).collect()
}

/// All files of a component: what it reads, and executables that are brought.
fn files(c: &mut ComponentSpec) -> Vec<&mut FileRef> {
    let mut found: Vec<&mut FileRef> = c.inputs.iter_mut().map(|input| &mut input.file).collect();
    let changed = c.at.values_mut().chain(&mut c.restart).filter_map(|o| o.executable.as_mut());
    for executable in changed.chain([&mut c.program.executable]) {
        if let Executable::Staged(file) = executable {
            found.push(file);
        }
    }
    found
}

/// Every name that has no content yet gets what it means now, once, or is told to be unknown.
fn bindings(chance: &mut StdRng) -> Result<()> {
    let mut spec = described(chance)?;
    let unknown = chance.random_bool(0.3);
    let means = |name: &LogicalName| match name.as_str() {
        "file-1" => (!unknown).then(|| content(1)),
        _ => Some(content(2)),
    };
    let (mut ought, mut open) = (spec.clone(), BTreeSet::new());
    for file in ought.components.iter_mut().flat_map(files) {
        if file.bound.is_none() {
            open.insert(file.name.clone());
            file.bound = means(&file.name);
        }
    }
    let told = spec.unbound_names();
    ensure!(told == open, "{told:?} have no content yet, not {open:?}: {spec:?}");
    let mut listed: Vec<_> = spec.components.iter().flat_map(ComponentSpec::file_refs).collect();
    let mut copy = spec.clone();
    let mut all: Vec<_> = copy.components.iter_mut().flat_map(files).map(|file| &*file).collect();
    listed.sort_by_key(|file| (file.name.clone(), file.bound));
    all.sort_by_key(|file| (file.name.clone(), file.bound));
    ensure!(listed == all, "it reads {listed:?}, not {all:?}: {spec:?}");
    let missing = open.into_iter().find(|name| means(name).is_none());
    match (spec.bind_inputs(means), missing) {
        (Ok(()), None) => ensure!(spec == ought, "its names mean {spec:?}, not {ought:?}"),
        (Err(name), Some(missing)) => ensure!(name == missing, "{name} means nothing: {spec:?}"),
        (is, ought) => anyhow::bail!("names come to {is:?}, not {ought:?}: {spec:?}"),
    }
    Ok(())
}

/// What all components ask for together, and what placements take of each site.
fn totals(chance: &mut StdRng) -> Result<()> {
    let mut spec = described(chance)?;
    let mut sum = [0; 3];
    for c in &mut spec.components {
        c.resources = vector(chance, 9);
        let more = counts(&c.resources);
        sum.iter_mut().zip(more).for_each(|(all, more)| *all += more);
    }
    let total = spec.total_resources();
    ensure!(counts(&total) == sum, "all together ask for {total:?}: {spec:?}");
    let flexible = matches!(spec.request, Request::Flexible(_));
    let placements = (0..chance.random_range(0..4)).map(|_| -> Result<Placement> {
        let share = flexible.then(|| chance.random_range(1..=9));
        Ok(Placement {
            site: site(chance)?,
            sources: Vec::new(),
            transfer_time: DurationMs(0),
            share,
        })
    });
    let placements = placements.collect::<Result<Vec<_>>>()?;
    let uses: Vec<_> = spec.uses(&placements).collect();
    let of = |(index, placement): (usize, &Placement)| -> Option<(SiteName, Resources)> {
        let resources = match placement.share {
            Some(share) => spec.components.first()?.resources.portion(share),
            None => spec.components.get(index)?.resources.clone(),
        };
        Some((placement.site.clone(), resources))
    };
    let ought: Vec<_> = placements.iter().enumerate().filter_map(of).collect();
    ensure!(uses == ought, "{placements:?} of {spec:?} take {uses:?}");
    let count = if flexible { chance.random_range(0..4) } else { spec.components.len() };
    let plain = spec.components.iter().map(|c| c.name.to_string());
    let ought: Vec<String> = match spec.components.first() {
        Some(c) if flexible && count > 1 => {
            (1..=count).map(|number| format!("{}-{number}", c.name)).collect()
        }
        _ => plain.take(count).collect(),
    };
    let names = spec.names(count);
    ensure!(names == ought, "{count} components are called {names:?}: {spec:?}");
    Ok(())
}

/// The bounds of a split; listed splits count where there are any.
fn bounds(chance: &mut StdRng) -> Result<()> {
    let mut spec = described(chance)?;
    spoil(chance, &mut spec)?;
    let rerunnable = chance.random_bool(0.5);
    let (word, probes) = match &spec.request {
        Request::Fixed => ("fixed", true),
        Request::NonFixed => ("non-fixed", rerunnable),
        Request::Flexible(_) => ("flexible", rerunnable),
    };
    let right = spec.request.as_str() == word && spec.request.may_probe(rerunnable) == probes;
    ensure!(right, "{:?} is {word}, and tries out sites: {probes}", spec.request);
    let Request::Flexible(bounds) = &spec.request else { return Ok(()) };
    let mut sizes: Vec<u32> = bounds.splits.iter().flatten().copied().collect();
    sizes.sort_unstable();
    let least = sizes.first().copied().unwrap_or(bounds.min_component_size).max(1);
    let mut lengths: Vec<usize> = bounds.splits.iter().map(Vec::len).collect();
    lengths.sort_unstable();
    let most = lengths.last().copied();
    let most = most.or(bounds.max_components.and_then(|most| usize::try_from(most).ok()));
    let is = (bounds.least(), bounds.most_components());
    ensure!(is == (least, most), "{bounds:?} have parts of at least and at most {is:?}");
    Ok(())
}
