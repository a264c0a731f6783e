//! What a job's record asks of sites: processors, and content that must be there or be kept;
//! whose tags its attempts carry; what each component is and gets; and what it all took.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use anyhow::{Result, ensure};
use cospan_domain::content::Content;
use cospan_domain::ids::{Attempt, ComponentIndex, Digest, InstanceId, SiteName, Tag};
use cospan_domain::job::accounting::Accounting;
use cospan_domain::job::demands::{Holding, holdings, needed, needing, needs, outputs, staging};
use cospan_domain::job::due::charge_of;
use cospan_domain::job::spec::{Collect, ComponentSpec, Request};
use cospan_domain::job::state::{
    Component, Instants, Job, Origin, Phase, Restart, RestartStep, Run,
};
use cospan_domain::placed::Source;
use cospan_domain::resources::Resources;
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::super::quantities::vector;
use super::super::records::{NOW, content, drawn, indexed, moment, site};

/// The past of the world, before anything that a site says of now.
const LONG_AGO: Timestamp = Timestamp(0);

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    checked(chance).err().into_iter().map(|problem| format!("{problem:#}")).collect()
}

fn checked(chance: &mut StdRng) -> Result<()> {
    let job = draw(chance)?;
    contents(chance, &job)?;
    processors(chance, &job)?;
    owners(chance, &job)?;
    components(chance, &job)?;
    accounts(chance, job)
}

fn same<T: PartialEq + Debug>(what: &str, is: &T, ought: &T, job: &Job) -> Result<()> {
    ensure!(is == ought, "{what} {is:?}, not {ought:?}: {job:?}");
    Ok(())
}

/// A job some of whose components bring input along, or take part of a whole.
fn draw(chance: &mut StdRng) -> Result<Job> {
    let mut job = drawn(chance, 1)?;
    if chance.random_bool(0.35) {
        let since = NOW;
        job.phase = match chance.random_bool(0.6) {
            true => Phase::Collecting { since },
            false => Phase::Running { since },
        };
    }
    let flexible = matches!(job.spec.request, Request::Flexible(_));
    if flexible && chance.random_bool(0.5) {
        job.components = vec![job.components[0].clone(); chance.random_range(0..4)];
    }
    for (number, c) in job.components.iter_mut().enumerate() {
        if let Some(placement) = &mut c.placement {
            placement.share = flexible.then_some(number as u32 + 1);
            for number in 1..=3 {
                if chance.random_bool(0.3) {
                    let (content, from) = (content(number), site(chance)?);
                    placement.sources.push(Source { content, from, chunk: None });
                }
            }
        }
        let instance = |number: u64| InstanceId::from_random(number);
        let last = chance.random_range(0..3);
        let origins = [(1, last), (2, last + 1)];
        let origins =
            origins.map(|(n, last)| Origin { instance: instance(n), last: Attempt(last) });
        if chance.random_bool(0.2) {
            let (step, since) = (RestartStep::ToPlace, NOW);
            c.restart = Some(Restart { step, since, tries: 0, not_before: NOW });
            c.run = if chance.random_bool(0.7) { Run::Idle } else { c.run.clone() };
        }
        c.origins = origins[..chance.random_range(0..3)].to_vec();
    }
    for spec in &mut Arc::make_mut(&mut job.spec).components {
        spec.resources = vector(chance, 8);
    }
    Ok(job)
}

fn spec_of(job: &Job, index: ComponentIndex) -> Option<&ComponentSpec> {
    let flexible = matches!(job.spec.request, Request::Flexible(_));
    job.spec.components.get(if flexible { 0 } else { index.0 as usize })
}

/// So many processors of a whole, and what belongs to them, rounded up.
fn part(of: &Resources, own: u32) -> Resources {
    let whole = u64::from(of.processors);
    let others = of.others.iter().map(|(name, count)| {
        let count = (0..).find(|part| part * whole >= count * u64::from(own));
        (name.clone(), count.unwrap_or(0))
    });
    Resources { processors: own, others: others.collect() }
}

fn gets(job: &Job, index: ComponentIndex, c: &Component) -> Option<Resources> {
    let asked = spec_of(job, index)?.resources.clone();
    let share = c.placement.as_ref().and_then(|placement| placement.share);
    Some(share.map_or(asked.clone(), |share| part(&asked, share)))
}

fn lives(run: &Run) -> bool {
    !matches!(run, Run::Idle | Run::Ended { .. })
}

fn step(c: &Component) -> Option<RestartStep> {
    c.restart.as_ref().map(|restart| restart.step)
}

/// What each component brings along, and to where.
fn brings(c: &Component) -> BTreeSet<(Content, SiteName)> {
    let placed = c.placement.iter();
    let each = placed.flat_map(|p| p.sources.iter().map(|s| (s.content, p.site.clone())));
    each.collect()
}

fn sizeless(of: &BTreeSet<(Content, SiteName)>) -> BTreeSet<(Digest, SiteName)> {
    of.iter().map(|(content, site)| (content.digest, site.clone())).collect()
}

/// Input of what is placed must stay while anything may read it, and outputs that were read
/// until they are where they belong.
fn contents(chance: &mut StdRng, job: &Job) -> Result<()> {
    let of = |so: &dyn Fn(&Component) -> bool| -> BTreeSet<(Content, SiteName)> {
        job.components.iter().filter(|c| so(c)).flat_map(brings).collect()
    };
    let nowhere =
        |c: &Component| matches!(c.run, Run::Idle) && step(c) == Some(RestartStep::ToPlace);
    let open = left(job);
    let ought = match job.phase {
        Phase::Placed { .. }
        | Phase::Claiming { .. }
        | Phase::Starting { .. }
        | Phase::Running { .. } => of(&|c| !nowhere(c)),
        Phase::Aborting { .. } => of(&|c| lives(&c.run)),
        Phase::Collecting { .. } => {
            open.iter().map(|(_, _, content, site)| (*content, site.clone())).collect()
        }
        _ => BTreeSet::new(),
    };
    same("it needs", &needed(job), &ought, job)?;
    same("it needs", &needs(job), &sizeless(&ought), job)?;
    let is: Vec<_> = outputs(job).map(|(c, at, what, to)| (c, at, what, to.clone())).collect();
    same("it has yet to bring", &is, &open, job)?;
    let waited = sizeless(&of(&|c| step(c) == Some(RestartStep::Staging)));
    same("it waits for", &staging(job), &waited, job)?;
    let (wanted, there) = (content(chance.random_range(1..=3)), site(chance)?);
    let ought = indexed(job).filter(|(_, c)| brings(c).contains(&(wanted, there.clone())));
    let ought: Vec<_> = ought.map(|(index, _)| index).collect();
    let is: Vec<_> = needing(job, wanted.digest, &there).collect();
    same(&format!("{wanted:?} at {there} is read by"), &is, &ought, job)
}

/// Outputs that were read and are not at their sites.
fn left(job: &Job) -> Vec<(ComponentIndex, u32, Content, SiteName)> {
    let mut left = Vec::new();
    let collects = matches!(job.phase, Phase::Collecting { .. });
    for (index, c) in indexed(job).filter(|_| collects) {
        let Some(spec) = spec_of(job, index) else { continue };
        for (at, (state, output)) in (0..).zip(c.collected.iter().zip(&spec.outputs)) {
            match (&output.collect, state.content) {
                (Collect::ToSite { site, .. }, Some(content)) if !state.done => {
                    left.push((index, at, content, site.clone()));
                }
                _ => {}
            }
        }
    }
    left
}

/// A component holds processors while something of it may live, and counts as holding those
/// that it is about to claim.
fn processors(chance: &mut StdRng, job: &Job) -> Result<()> {
    let ours = InstanceId::from_random(chance.random_range(0..3));
    let mut ought = Vec::new();
    for (index, c) in indexed(job) {
        let Some(placement) = &c.placement else { continue };
        let about = matches!(job.phase, Phase::Placed { .. } | Phase::Claiming { .. })
            || matches!(step(c), Some(RestartStep::Staging | RestartStep::Staged));
        let live = lives(&c.run);
        let planned = about && matches!(c.run, Run::Idle);
        if !(live || planned) {
            continue;
        }
        ought.push(Holding {
            component: index,
            attempt: c.attempt,
            origin: maker(c, c.attempt),
            site: placement.site.clone(),
            resources: gets(job, index, c).unwrap_or_default(),
            visible_from: match &c.run {
                Run::Submitted { at, .. } => Some(*at),
                Run::AtGate { .. } | Run::Opened { .. } | Run::Running { .. } => Some(LONG_AGO),
                _ => None,
            },
            live,
            awaited: c.restart.is_some()
                || matches!(job.phase, Phase::Claiming { .. } | Phase::Starting { .. }),
        });
    }
    let is = holdings(job);
    same("it holds", &is, &ought, job)?;
    for held in is {
        let tag = Tag {
            instance: held.origin.unwrap_or(ours),
            job: job.id,
            component: held.component,
            attempt: held.attempt,
        };
        same("it is held by", &held.tag(ours, job.id), &tag, job)?;
    }
    Ok(())
}

/// The first control plane that made attempts up to this one, if it was not us.
fn maker(c: &Component, attempt: Attempt) -> Option<InstanceId> {
    let mut makers = c.origins.iter().filter(|origin| attempt.0 <= origin.last.0);
    makers.next().map(|origin| origin.instance)
}

/// Whose attempt it is; an unknown component has none yet, and it would be ours.
fn owners(chance: &mut StdRng, job: &Job) -> Result<()> {
    let ours = InstanceId::from_random(9);
    let component = ComponentIndex(chance.random_range(0..4));
    let c = job.components.get(component.0 as usize);
    let latest = c.map_or(Attempt(0), |c| c.attempt);
    for attempt in [latest, Attempt(chance.random_range(0..5))] {
        let instance = c.and_then(|c| maker(c, attempt)).unwrap_or(ours);
        let tag = Tag { instance, job: job.id, component, attempt };
        same("its tag is", &job.tag_of(ours, component, attempt), &tag, job)?;
        let said = c.map(|c| (c.origin_of(attempt), c.instance_of(attempt, ours)));
        same("made by", &said, &c.map(|c| (maker(c, attempt), instance)), job)?;
        if attempt == latest {
            same("its latest tag is", &job.tag(ours, component), &tag, job)?;
        }
    }
    let charged = c.and_then(|c| c.charge.as_ref());
    same("it is charged", &charge_of(job, component), &charged, job)
}

/// What was asked for each component, what it gets, what it is called, and where it may live.
fn components(chance: &mut StdRng, job: &Job) -> Result<()> {
    let flexible = matches!(job.spec.request, Request::Flexible(_));
    for number in 0..4 {
        let index = ComponentIndex(number);
        let spec = spec_of(job, index);
        same("it asks for", &job.spec_of(index), &spec, job)?;
        let none = Component::default();
        let c = job.components.get(number as usize).unwrap_or(&none);
        let ought = gets(job, index, c);
        same("it gets", &job.resources_of(index), &ought, job)?;
        let count = ought.map_or(0, |resources| resources.processors);
        same("it gets", &job.processors_of(index), &count, job)?;
        let name = spec.map(|spec| match flexible && job.components.len() > 1 {
            true => format!("{}-{}", spec.name, number + 1),
            false => spec.name.to_string(),
        });
        same("it is called", &job.name_of(index), &name, job)?;
        let id = match &c.run {
            Run::Submitted { lrm_id, .. }
            | Run::AtGate { lrm_id, .. }
            | Run::Opened { lrm_id, .. }
            | Run::Running { lrm_id, .. } => Some(lrm_id),
            _ => None,
        };
        same("its number is", &c.run.lrm_id(), &id, job)?;
    }
    let each = indexed(job).filter_map(|(index, c)| Some((index, c, spec_of(job, index)?)));
    same("it is", &job.specified().collect::<Vec<_>>(), &each.collect(), job)?;
    let count = chance.random_range(0..3);
    let sites: BTreeSet<SiteName> = (0..count).map(|_| site(chance)).collect::<Result<_>>()?;
    let there = |c: &Component| c.placement.as_ref().is_some_and(|p| sites.contains(&p.site));
    let ought = indexed(job).filter(|(_, c)| lives(&c.run) && there(c)).map(|(index, _)| index);
    let ought: Vec<_> = ought.collect();
    same(&format!("at {sites:?} live"), &job.living_at(&sites).collect(), &ought, job)
}

/// A length is told once both of its ends are known, and what was counted as it was counted.
fn accounts(chance: &mut StdRng, mut job: Job) -> Result<()> {
    let mut some = || chance.random_bool(0.7).then(|| moment(chance));
    job.instants = Instants {
        first_placed: some(),
        placed: some(),
        first_start_estimate: some(),
        start_estimate: some(),
        claimed: some(),
        started: some(),
        succeeded: some(),
        placement_time: DurationMs(chance.random_range(0..9)),
        total_placement_time: DurationMs(chance.random_range(0..9)),
        gained_processor_ms: chance.random_range(0..9),
        wasted_processor_ms: chance.random_range(0..9),
        transfer_volume: Bytes(chance.random_range(0..9)),
    };
    let i = job.instants;
    let between = |from: Option<Timestamp>, to: Option<Timestamp>| match (from, to) {
        (Some(from), Some(to)) => Some(DurationMs(to.0.max(from.0) - from.0)),
        _ => None,
    };
    let submitted = Some(job.submitted_at);
    let ended = match &job.phase {
        Phase::Finished { at } | Phase::Failed { at, .. } | Phase::Cancelled { at, .. } => {
            Some(*at)
        }
        _ => None,
    };
    let signed = |at: Timestamp| i64::try_from(at.0).unwrap_or(i64::MAX);
    let sites = job.components.iter().filter_map(|c| c.placement.as_ref());
    let sites: BTreeSet<_> = sites.map(|placement| &placement.site).collect();
    let ought = Accounting {
        placement_time: i.placed.map(|_| i.placement_time),
        total_placement_time: i.total_placement_time,
        queue_time: between(submitted, i.placed),
        wait_time: between(submitted, i.started),
        start_overhead: between(i.placed, i.started),
        start_delay_ms: match (i.first_start_estimate, i.start_estimate) {
            (Some(first), Some(last)) => Some(signed(last) - signed(first)),
            _ => None,
        },
        gained_time: between(i.placed, i.claimed),
        gained_processor_ms: i.gained_processor_ms,
        wasted_processor_ms: i.wasted_processor_ms,
        execution_time: between(i.started, i.succeeded),
        response_time: between(submitted, ended),
        sites_combined: sites.len() as u32,
        transfer_volume: i.transfer_volume,
    };
    same("it took", &Accounting::of(&job), &ought, &job)
}
