//! Who of two jobs that wait for each other gives way: the later one, and nobody else.

use anyhow::{Result, ensure};
use cospan_domain::ids::{ComponentIndex, JobId, LrmId, SiteName};
use cospan_domain::job::entangled::{gives_way, holds_and_waits, waits_at};
use cospan_domain::job::state::{Job, Phase, Run};
use rand::Rng;
use rand::rngs::StdRng;

use super::super::records::{NOW, drawn, indexed, moment};

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    checked(chance).err().into_iter().map(|problem| format!("{problem:#}")).collect()
}

/// A job most of whose components wait in queues or hold processors.
fn draw(chance: &mut StdRng, id: u64) -> Result<Job> {
    let mut job = drawn(chance, id)?;
    let since = moment(chance);
    job.submitted_at = moment(chance);
    job.phase = match chance.random_bool(0.85) {
        true => Phase::Claiming { since },
        false => Phase::Starting { since },
    };
    let (waits, holds) = (chance.random_bool(0.8), chance.random_bool(0.8));
    for c in &mut job.components {
        let (lrm_id, host) = (LrmId::new("17")?, "host".into());
        match chance.random_range(0..5) {
            0 | 1 if holds => c.run = Run::AtGate { lrm_id, host, since: NOW },
            2 | 3 if waits => c.run = Run::Submitted { lrm_id, at: NOW, absences: 0 },
            _ => {}
        }
    }
    Ok(job)
}

fn claims(job: &Job) -> bool {
    matches!(job.phase, Phase::Claiming { .. })
}

/// Where such components are, but those that are given back.
fn at(job: &Job, so: fn(&Run) -> bool) -> Vec<(ComponentIndex, SiteName)> {
    let there = indexed(job).filter(|(_, c)| !c.given_back && so(&c.run));
    there.filter_map(|(index, c)| Some((index, c.placement.as_ref()?.site.clone()))).collect()
}

fn waits(job: &Job) -> Vec<(ComponentIndex, SiteName)> {
    at(job, |run| matches!(run, Run::Submitted { .. }))
}

fn holds(job: &Job) -> Vec<(ComponentIndex, SiteName)> {
    at(job, |run| matches!(run, Run::AtGate { .. }))
}

/// The first component of one that waits where the other holds.
fn meets(one: &Job, other: &Job) -> Option<ComponentIndex> {
    let held = holds(other);
    let mut waiting = waits(one).into_iter();
    waiting.find(|(_, at)| held.iter().any(|(_, there)| there == at)).map(|(index, _)| index)
}

/// One that claims, and holds and waits, gives way to the first earlier one that claims and
/// waits for it, never to itself; of two, not both.
fn checked(chance: &mut StdRng) -> Result<()> {
    let jobs = (1..=3).map(|id| draw(chance, id)).collect::<Result<Vec<_>>>()?;
    for job in &jobs {
        let is: Vec<_> = waits_at(job).map(|(index, site)| (index, site.clone())).collect();
        ensure!(is == waits(job), "it waits at {is:?}: {job:?}");
        let both = claims(job) && !waits(job).is_empty() && !holds(job).is_empty();
        ensure!(holds_and_waits(job) == both, "it holds and waits: {}: {job:?}", !both);
        let earlier = jobs.iter().filter(|other| {
            claims(other) && (other.submitted_at, other.id) < (job.submitted_at, job.id)
        });
        let ought: Option<(ComponentIndex, JobId)> = earlier
            .filter(|other| claims(job) && meets(other, job).is_some())
            .find_map(|other| Some((meets(job, other)?, other.id)));
        let is = gives_way(job, &jobs);
        ensure!(is == ought, "{} gives way by {is:?}, not {ought:?}: {jobs:?}", job.id);
    }
    Ok(())
}
