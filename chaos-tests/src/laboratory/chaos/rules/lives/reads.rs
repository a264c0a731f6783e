//! What is read off a job's record: names, tags and resources of its components, who waits
//! for what, what a sighting says anew, and what the job cost.

use std::collections::BTreeSet;
use std::sync::Arc;

use cospan_domain::ids::{Attempt, ComponentIndex, InstanceId, LrmId, SiteName, Tag};
use cospan_domain::job::accounting::Accounting;
use cospan_domain::job::command::Sighting;
use cospan_domain::job::decide::is_news;
use cospan_domain::job::parameters::JobParameters;
use cospan_domain::job::spec::Request;
use cospan_domain::job::state::{Component, Job, Origin, Phase, Run};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::super::records::{NOW, indexed, site};
use super::draws::{self, lately};
use super::record::processors;
use super::story::{asked, lives, name, waits_for_processors};

const OURS: u64 = 99;

/// Of the rules that do not hold, what is read and what it ought to be.
pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let parameters = draws::parameters(chance);
    let Some(mut job) = draws::life(chance) else { return Vec::new() };
    enrich(chance, &mut job);
    let silent: BTreeSet<SiteName> = (0..2).filter_map(|_| site(chance).ok()).collect();
    let mut pairs = vec![
        ("cost", format!("{:?}", Accounting::of(&job)), format!("{:?}", costs(&job))),
        ("living", living(&job, &silent), lives_there(&job, &silent)),
        ("job", counts(&job, &parameters), counted(&job, &parameters)),
    ];
    for (index, c) in indexed(&job) {
        pairs.push(("component", read(&job, index, c), ought(&job, index, c)));
        for attempt in (0..6).map(Attempt) {
            let ours = InstanceId::from_random(OURS);
            let is = [job.tag_of(ours, index, attempt), job.tag(ours, index)];
            let tag = |attempt| {
                let instance = maker(&c.origins, attempt);
                Tag { instance, job: job.id, component: index, attempt }
            };
            let ought = [tag(attempt), tag(c.attempt)];
            pairs.push(("tag", format!("{is:?}"), format!("{ought:?}")));
        }
    }
    let differ = pairs.into_iter().filter(|(_, is, ought)| is != ought);
    differ.map(|(what, is, ought)| format!("{what} {is}, not {ought}: {job:?}")).collect()
}

/// Stores that were imported one after the other, resources that are shared out, and
/// instants of which some are not known yet.
fn enrich(chance: &mut StdRng, job: &mut Job) {
    for c in &mut job.components {
        let origin = |(number, last): (u64, u32)| Origin {
            instance: InstanceId::from_random(number),
            last: Attempt(last),
        };
        let mut lasts: Vec<u32> =
            (0..chance.random_range(0..3)).map(|_| chance.random_range(0..5)).collect();
        lasts.sort();
        c.origins = (0..).zip(lasts).map(origin).collect();
    }
    for asked in &mut Arc::make_mut(&mut job.spec).components {
        let count = chance.random_range(1..20);
        asked.resources.others.insert("memory_mb".into(), count);
    }
    let some = |chance: &mut StdRng| chance.random_bool(0.7).then(|| lately(chance));
    let instants = &mut job.instants;
    instants.placed = instants.placed.filter(|_| chance.random_bool(0.8));
    instants.start_estimate = instants.start_estimate.filter(|_| chance.random_bool(0.8));
    instants.first_start_estimate = some(chance);
    (instants.claimed, instants.started) = (some(chance), some(chance));
    instants.succeeded = some(chance);
    instants.placement_time = draws::seconds(chance, 5);
    instants.total_placement_time = draws::seconds(chance, 9);
    instants.gained_processor_ms = chance.random_range(0..99);
    instants.wasted_processor_ms = chance.random_range(0..99);
    instants.transfer_volume.0 = chance.random_range(0..99);
    if chance.random_bool(0.5) {
        job.phase = Phase::Finished { at: NOW };
    }
}

/// Differences of instants that are both known; a clock that was set back makes none.
fn costs(job: &Job) -> Accounting {
    let i = &job.instants;
    let between = |from: Option<Timestamp>, to: Option<Timestamp>| match (from, to) {
        (Some(from), Some(to)) if from < to => Some(DurationMs(to.0 - from.0)),
        (Some(_), Some(_)) => Some(DurationMs(0)),
        _ => None,
    };
    let submitted = Some(job.submitted_at);
    let ended = match &job.phase {
        Phase::Finished { at } | Phase::Failed { at, .. } | Phase::Cancelled { at, .. } => {
            Some(*at)
        }
        _ => None,
    };
    let sites = job.components.iter().filter_map(|c| Some(&c.placement.as_ref()?.site));
    let delay = match (i.first_start_estimate, i.start_estimate) {
        (Some(first), Some(last)) if last < first => Some(-((first.0 - last.0) as i64)),
        (Some(first), Some(last)) => Some((last.0 - first.0) as i64),
        _ => None,
    };
    Accounting {
        placement_time: if i.placed.is_some() { Some(i.placement_time) } else { None },
        total_placement_time: i.total_placement_time,
        queue_time: between(submitted, i.placed),
        wait_time: between(submitted, i.started),
        start_overhead: between(i.placed, i.started),
        start_delay_ms: delay,
        gained_time: between(i.placed, i.claimed),
        gained_processor_ms: i.gained_processor_ms,
        wasted_processor_ms: i.wasted_processor_ms,
        execution_time: between(i.started, i.succeeded),
        response_time: between(submitted, ended),
        sites_combined: sites.collect::<BTreeSet<_>>().len() as u32,
        transfer_volume: i.transfer_volume,
    }
}

/// Each import makes all attempts until then those of the store that was imported, as far
/// as they are not those of one before.
fn maker(origins: &[Origin], attempt: Attempt) -> InstanceId {
    let mut by = [InstanceId::from_random(OURS); 10];
    for origin in origins.iter().rev() {
        by.iter_mut().take(origin.last.0 as usize + 1).for_each(|by| *by = origin.instance);
    }
    by[attempt.0 as usize]
}

fn living(job: &Job, silent: &BTreeSet<SiteName>) -> String {
    format!("{:?}", job.living_at(silent).collect::<Vec<_>>())
}

fn lives_there(job: &Job, silent: &BTreeSet<SiteName>) -> String {
    let there = |c: &Component| c.placement.iter().any(|p| silent.iter().any(|s| *s == p.site));
    let all = indexed(job).filter(|(_, c)| lives(&c.run)).filter(|(_, c)| there(c));
    format!("{:?}", all.map(|(index, _)| index).collect::<Vec<_>>())
}

fn read(job: &Job, index: ComponentIndex, c: &Component) -> String {
    let resources = (job.resources_of(index), job.processors_of(index));
    let spec = job.spec_of(index).map(|spec| &spec.outputs);
    let flags = [c.awaits_restart(), c.is_claimable(NOW), c.is_claimed(), c.run.may_live()];
    let run = (c.run.lrm_id(), c.run.has_begun());
    format!("{resources:?} {spec:?} {flags:?} {run:?} {:?}", job.name_of(index))
}

/// Of a flexible request each component has its share, and of other resources in proportion,
/// rounded up.
fn ought(job: &Job, index: ComponentIndex, c: &Component) -> String {
    let share = c.placement.as_ref().and_then(|placement| placement.share);
    let resources = asked(job, index).map(|asked| {
        let whole = u64::from(asked.resources.processors);
        let part = |count: u64| (count * share.map_or(whole, u64::from)).div_ceil(whole);
        let others = asked.resources.others.iter();
        let others = others.map(|(name, count)| (name.clone(), part(*count))).collect();
        Resources { processors: processors(job, index) as u32, others }
    });
    let spec = asked(job, index).map(|spec| &spec.outputs);
    let restarts = waits_for_processors(c);
    let claimable = restarts && c.restart.as_ref().is_some_and(|r| r.not_before <= NOW);
    let living = lives(&c.run);
    let flags = [restarts, claimable, living && !c.given_back, living];
    let number: Option<&LrmId> = match &c.run {
        Run::Submitted { lrm_id, .. }
        | Run::AtGate { lrm_id, .. }
        | Run::Opened { lrm_id, .. }
        | Run::Running { lrm_id, .. } => Some(lrm_id),
        _ => None,
    };
    let begun = ["running", "succeeded", "failed"].contains(&c.run.as_str());
    let resources = (resources, processors(job, index) as u32);
    let run = (number, begun);
    format!("{resources:?} {spec:?} {flags:?} {run:?} {:?}", Some(name(job, index)))
}

fn counts(job: &Job, parameters: &JobParameters) -> String {
    let specified: Vec<_> = job.specified().map(|(index, _, spec)| (index, &spec.name)).collect();
    let threshold = job.claim_threshold(&parameters.claim);
    let counts = (job.component_count(), threshold, job.may_be_preempted(), job.ended_at());
    format!("{specified:?} {counts:?}")
}

fn counted(job: &Job, parameters: &JobParameters) -> String {
    let all: Vec<_> =
        (indexed(job)).filter_map(|(index, _)| Some((index, &asked(job, index)?.name))).collect();
    let patient = job.setbacks.rounds < 2;
    let threshold = parameters.claim.threshold.0;
    let threshold = cospan_domain::units::PerMillion(if patient { threshold } else { 1_000_000 });
    let asked_for = match job.spec.request {
        Request::Flexible(_) => 1,
        _ => job.spec.components.len(),
    };
    let once = job.start_at.is_some() && !job.spec.rerunnable;
    let spared = once || job.setbacks.preemptions > 2;
    let ended = match &job.phase {
        Phase::Finished { at } | Phase::Failed { at, .. } | Phase::Cancelled { at, .. } => {
            Some(*at)
        }
        _ => None,
    };
    let counts = (job.components.len().max(asked_for), threshold, !spared, ended);
    format!("{all:?} {counts:?}")
}

/// A sighting is news unless the record says the same already, and what is seen ought not
/// to be over by then.
pub(super) fn is_news_or_not(
    job: &Job,
    parameters: &JobParameters,
    index: ComponentIndex,
    asked_at: Timestamp,
    sighting: &Sighting,
) -> (bool, bool) {
    let is = is_news(job, parameters, index, asked_at, sighting);
    let ought = job.components.get(index.0 as usize).is_some_and(|c| {
        let seen = match sighting {
            Sighting::Pending => &["submitted"][..],
            Sighting::Ready(_) => &["at-gate", "opened"],
            Sighting::Begun(_) => &["running"],
            _ => &[],
        };
        let doubted = matches!(c.run, Run::Submitted { absences, .. } if absences > 0);
        let overdue = match c.run {
            Run::Running { since, .. } => {
                let longest = job.spec.wall_time.0 + parameters.wall_margin.0;
                asked_at.0 >= since.0 + longest
            }
            _ => false,
        };
        !seen.contains(&c.run.as_str()) || doubted || overdue
    });
    (is, ought)
}
