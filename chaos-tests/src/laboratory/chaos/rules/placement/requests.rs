//! What placement is asked of a job as submitted, of one that runs, and of one component of it:
//! worked out from the job by the rules of the guide.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Result;
use cospan_domain::content::{Chunk, Content, Part};
use cospan_domain::ids::{ComponentIndex, LogicalName, PolicyName, RelPath, SiteName};
use cospan_domain::job::chunk::Feed;
use cospan_domain::job::spec::{
    ComponentSpec, Executable, FileRef, Flexible, Input, JobSpec, Override, Request, Where,
};
use cospan_domain::job::state::{Component, Job};
use cospan_domain::labels::{Constraint, Rule};
use cospan_domain::placed::Placement;
use cospan_domain::placement::{
    ComponentRequest, DefaultPolicies, GridSite, PlacementRequest, SiteShape,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::super::quantities::vector;
use super::super::records::drawn;
use super::asked::{Asked, by_size, needs, portion, share};
use super::ground_draws::{files, site, site_name};
use crate::laboratory::jobs::job;

const POLICIES: [&str; 4] =
    ["worst-fit", "close-to-files", "flexible-cluster-minimization", "my-own"];

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let Ok(job) = draw(chance) else { return Vec::new() };
    let defaults = DefaultPolicies::default();
    let mut found = Vec::new();
    found.extend(whole(&job, &defaults));
    found.extend(alone(&job, &defaults));
    found.extend(at_sites(chance, &job, &defaults));
    found
}

fn file(chance: &mut StdRng) -> Result<FileRef> {
    let name = LogicalName::new("file")?;
    let bound = files().choose(chance).copied().filter(|_| chance.random_bool(0.9));
    Ok(FileRef { name, bound })
}

fn executable(chance: &mut StdRng) -> Result<Executable> {
    Ok(match chance.random_bool(0.5) {
        true => Executable::AtSite("/bin/true".into()),
        false => Executable::Staged(file(chance)?),
    })
}

fn decorate(chance: &mut StdRng, component: &mut ComponentSpec) -> Result<()> {
    for number in 0..chance.random_range(0..4) {
        let feed = [Feed::Whole, Feed::Chunk][chance.random_range(0..2)];
        let path = RelPath::new(&format!("in-{number}"))?;
        component.inputs.push(Input { file: file(chance)?, path, feed });
    }
    component.resources.others = vector(chance, 6).others;
    component.program.executable = executable(chance)?;
    let places = [
        Where::Label("key".into(), "a".into()),
        Where::Label("kind".into(), "b".into()),
        Where::Site(SiteName::new("site-0")?),
    ];
    for place in places {
        if chance.random_bool(0.3) {
            let other = chance.random_bool(0.7).then(|| executable(chance)).transpose()?;
            component.at.insert(place, Override { executable: other, ..Override::default() });
        }
    }
    if chance.random_bool(0.3) {
        let constraint = Constraint { key: "key".into(), rule: Rule::Is("a".into()) };
        component.constraints.push(constraint);
    }
    Ok(())
}

fn draw(chance: &mut StdRng) -> Result<Job> {
    let mut record = drawn(chance, 1)?;
    let kind = chance.random_range(0..3);
    let count = if kind == 2 { 1 } else { chance.random_range(1..=3) };
    let sizes: Vec<u32> = (0..count).map(|_| chance.random_range(3..=9)).collect();
    let mut spec: JobSpec = job(&sizes, DurationMs(1_000), DurationMs(10_000), 0)?;
    for component in &mut spec.components {
        decorate(chance, component)?;
        component.site = if kind == 0 { Some(super::super::records::site(chance)?) } else { None };
    }
    spec.rerunnable = chance.random_bool(0.5);
    if chance.random_bool(0.5) {
        spec.policy = Some(PolicyName::new(POLICIES[chance.random_range(0..4)])?);
    }
    let splits =
        if chance.random_bool(0.5) { vec![vec![sizes[0]], vec![1, sizes[0] - 1]] } else { vec![] };
    let bounds = Flexible { min_component_size: 2, max_components: None, splits };
    spec.request = [Request::Fixed, Request::NonFixed, Request::Flexible(bounds)][kind].clone();
    let parts = if kind == 2 { chance.random_range(1..=3) } else { sizes.len() };
    let components: Result<Vec<Component>> = (0..parts)
        .map(|_| {
            let avoided = super::super::records::site(chance)?;
            let share = (kind == 2).then(|| chance.random_range(1..=3));
            let placement = Placement {
                site: super::super::records::site(chance)?,
                sources: Vec::new(),
                transfer_time: DurationMs(0),
                share,
            };
            Ok(Component {
                placement: chance.random_bool(0.9).then_some(placement),
                avoid: chance.random_bool(0.4).then_some(avoided).into_iter().collect(),
                ..Component::default()
            })
        })
        .collect();
    (record.components, record.spec) = (components?, Arc::new(spec));
    Ok(record)
}

fn staged(executable: &Executable) -> Option<Content> {
    match executable {
        Executable::Staged(file) => file.bound,
        Executable::AtSite(_) => None,
    }
}

/// The files that it reads in this way.
fn read(component: &ComponentSpec, feed: Feed) -> BTreeSet<Content> {
    let inputs = component.inputs.iter().filter(|input| input.feed == feed);
    inputs.filter_map(|input| input.file.bound).collect()
}

/// `part_of`: its part of a file that is read in chunks.
fn asked_of(
    component: &ComponentSpec,
    resources: Resources,
    avoid: BTreeSet<SiteName>,
    part_of: impl Fn(&Content) -> Part,
) -> ComponentRequest {
    let cut = read(component, Feed::Chunk);
    let chunks = cut.iter().map(|of| Chunk::of_part(*of, part_of(of)));
    let elsewhere = component
        .at
        .iter()
        .filter_map(|(place, change)| Some((place.clone(), staged(change.executable.as_ref()?))));
    ComponentRequest {
        resources,
        constraints: component.constraints.clone(),
        site: component.site.clone(),
        inputs: read(component, Feed::Whole),
        chunks: chunks.map(|chunk| (chunk.content(), chunk)).collect::<BTreeMap<_, _>>(),
        executable: staged(&component.program.executable),
        executable_at: elsewhere.collect(),
        avoid,
    }
}

/// Its part of a file among all components that read it in chunks, by processors.
fn part_among(spec: &JobSpec, index: usize, of: &Content) -> Part {
    let sizes: Vec<u64> = (spec.components.iter())
        .map(|component| match read(component, Feed::Chunk).contains(of) {
            true => component.resources.processors.into(),
            false => 0,
        })
        .collect();
    part(&sizes, index)
}

fn part(sizes: &[u64], index: usize) -> Part {
    let before = sizes[..index].iter().sum();
    Part { before, own: sizes[index], total: sizes.iter().sum() }
}

fn asked(job: &Job) -> Asked {
    let is_flexible = matches!(job.spec.request, Request::Flexible(_));
    let all = || job.components.iter().flat_map(|component| component.avoid.clone()).collect();
    let parts = job.spec.components.iter().enumerate().map(|(index, component)| {
        let avoid = if is_flexible { all() } else { job.components[index].avoid.clone() };
        let part_of = |of: &Content| part_among(&job.spec, index, of);
        asked_of(component, component.resources.clone(), avoid, part_of)
    });
    let (kind, restartable) = (job.spec.request.clone(), job.spec.rerunnable);
    Asked { policy: usual(&job.spec), kind, restartable, parts: parts.collect() }
}

fn usual(spec: &JobSpec) -> &'static str {
    let own = spec.policy.as_ref().map(|policy| policy.as_str());
    let known = POLICIES.into_iter().find(|name| own == Some(*name));
    known.unwrap_or(match spec.request {
        Request::Flexible(_) => "flexible-cluster-minimization",
        Request::Fixed | Request::NonFixed => "worst-fit",
    })
}

/// All of the job.
fn whole(job: &Job, defaults: &DefaultPolicies) -> Option<String> {
    let (is, ought) = (PlacementRequest::of_job(job, defaults), asked(job));
    let parts = ought.components();
    let mut contents: BTreeSet<Content> = BTreeSet::new();
    for part in &parts {
        contents.extend(&part.inputs);
        contents.extend(part.chunks.keys());
        contents.extend(part.executable);
        contents.extend(part.executable_at.iter().filter_map(|(_, content)| *content));
    }
    let order = by_size(&parts);
    let splits = ought.bounds().map(|bounds| bounds.splits.clone()).unwrap_or_default();
    let total = ought.bounds().map(|_| &ought.parts[0].resources);
    let processors: u64 = ought.parts.iter().map(|p| u64::from(p.resources.processors)).sum();
    let right = ought.request().as_ref() == Some(&is)
        && is.policy().as_str() == ought.policy
        && *is.request() == ought.kind
        && is.is_restartable() == ought.restartable
        && is.may_probe() == ought.may_probe()
        && is.components() == parts
        && is.by_size().iter().map(|index| *index as usize).eq(order)
        && is.contents().iter().copied().eq(contents)
        && is.total() == total
        && is.processors() == processors
        && is.splits().len() == splits.len()
        && is.splits().iter().zip(&splits).all(|(is, sizes)| {
            is.components() == ought.split(sizes)
                && *is.request() == Request::NonFixed
                && is.policy() == PlacementRequest::of_job(job, defaults).policy()
                && is.is_restartable() == ought.restartable
                && is.total().is_none()
        });
    let reads = parts.iter().zip(is.components()).all(|(part, is)| {
        let elsewhere = part.executable_at.iter().any(|(_, content)| content.is_some());
        let read = !part.inputs.is_empty() || !part.chunks.is_empty();
        is.reads_files() == (read || part.executable.is_some() || elsewhere)
    });
    let of_spec = PlacementRequest::of_spec(&job.spec, defaults, |_| BTreeSet::new());
    let mut unavoiding = ought.clone();
    unavoiding.parts.iter_mut().for_each(|part| part.avoid.clear());
    let right = right && reads && unavoiding.request() == Some(of_spec);
    (!right).then(|| format!("{job:?} asks for {is:?}, not {ought:?}"))
}

/// One component, as it was placed, and not to be split further.
fn alone(job: &Job, defaults: &DefaultPolicies) -> Option<String> {
    let flexible = matches!(job.spec.request, Request::Flexible(_));
    let shares: Vec<u64> = (job.components.iter())
        .map(|component| {
            let share = component.placement.as_ref().and_then(|placement| placement.share);
            share.unwrap_or(job.spec.components[0].resources.processors).into()
        })
        .collect();
    let policy = match usual(&job.spec) {
        "worst-fit" => "worst-fit",
        "close-to-files" => "close-to-files",
        _ => "worst-fit",
    };
    for (index, component) in job.components.iter().enumerate() {
        let at = if flexible { 0 } else { index };
        let spec = &job.spec.components[at];
        let given = component.placement.as_ref().and_then(|placement| placement.share);
        let resources = given.map_or(spec.resources.clone(), |own| share(&spec.resources, own));
        let part_of = |of: &Content| match flexible {
            true => part(&shares, index),
            false => part_among(&job.spec, index, of),
        };
        let part = asked_of(spec, resources, component.avoid.clone(), part_of);
        let fixed = job.spec.request == Request::Fixed;
        let kind = if fixed { Request::Fixed } else { Request::NonFixed };
        let restartable = job.spec.rerunnable;
        let ought = Asked { policy, kind, restartable, parts: vec![part] }.request();
        let is = PlacementRequest::of_one(job, ComponentIndex(index as u32), defaults);
        if is != ought {
            return Some(format!("component {index} of {job:?} asks for {is:?}, not {ought:?}"));
        }
    }
    let beyond = ComponentIndex(job.components.len() as u32);
    let none = PlacementRequest::of_one(job, beyond, defaults);
    none.map(|is| format!("a component that {job:?} does not have asks for {is:?}"))
}

/// What must be where it runs, also of a part of the whole.
fn at_sites(chance: &mut StdRng, job: &Job, defaults: &DefaultPolicies) -> Option<String> {
    let request = PlacementRequest::of_job(job, defaults);
    let name = site_name(chance.random_range(0..3))?;
    let site: GridSite = site(chance, name);
    let shape: &SiteShape = site.shape.as_deref()?;
    let whole = asked(job);
    let own = chance.random_range(1..=3);
    let parts = whole.parts.iter().map(|whole| portion(whole, 0, own));
    for part in request.components().iter().cloned().chain(parts) {
        let is = part.contents_at(&site.name, &shape.labels);
        if !is.eq(needs(&part, &site)) {
            return Some(format!("{part:?} needs something else at {site:?}"));
        }
    }
    None
}
