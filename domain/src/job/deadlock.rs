//! Finds rings of jobs, each with processors that another of them waits for: none would ever start.

use std::collections::BTreeSet;

use crate::ids::{ComponentIndex, JobId, SiteName};
use crate::job::job_state::{AttemptState, Job, JobPhase};

/// Returns the component with which a job gives way, and the job to which it does. The component
/// waits in its site's queue. The other job, one of `others`, has processors there, and waits for
/// some at a site where this job has some, or where a job has some that waits for this job, and so
/// on; all of them were submitted earlier. So exactly the last job of a ring gives way, and the
/// first of all never does.
pub fn find_yielding_component<'a>(
    job: &Job,
    others: impl IntoIterator<Item = &'a Job>,
) -> Option<(ComponentIndex, JobId)> {
    if !holds_and_waits(job) {
        return None;
    }
    let earlier: Vec<&Job> = others
        .into_iter()
        .filter(|other: &&Job| {
            submission_order(other) < submission_order(job) && holds_and_waits(other)
        })
        .collect();
    // Sites with processors that become free only once this job has begun.
    let mut sites: BTreeSet<&SiteName> = sites_held_at(job).map(|(_, site)| site).collect();
    let mut held_up = Vec::new();
    let mut rest = earlier;
    loop {
        let (wait, free): (Vec<&Job>, Vec<&Job>) = rest
            .into_iter()
            .partition(|other: &&Job| sites_waited_at(other).any(|(_, site)| sites.contains(site)));
        if wait.is_empty() {
            break;
        }
        sites.extend(
            wait.iter()
                .flat_map(|other| sites_held_at(other))
                .map(|(_, site)| site),
        );
        held_up.extend(wait);
        rest = free;
    }
    held_up
        .into_iter()
        .find_map(|other| Some((component_blocked_by(job, other)?, other.id)))
}

/// Returns true if a job may be part of a ring.
pub fn holds_and_waits(job: &Job) -> bool {
    is_claiming(job) && sites_held_at(job).next().is_some() && sites_waited_at(job).next().is_some()
}

/// Iterates over the sites in whose queues components of a job wait.
pub fn sites_waited_at(job: &Job) -> impl Iterator<Item = (ComponentIndex, &SiteName)> {
    sites_with_state(job, |run| matches!(run, AttemptState::Submitted { .. }))
}

fn sites_held_at(job: &Job) -> impl Iterator<Item = (ComponentIndex, &SiteName)> {
    sites_with_state(job, |run| matches!(run, AttemptState::AtGate { .. }))
}

fn is_claiming(job: &Job) -> bool {
    matches!(job.phase, JobPhase::Claiming { .. })
}

fn submission_order(job: &Job) -> (crate::units::Timestamp, JobId) {
    (job.submitted_at, job.id)
}

/// Returns a component that waits where the other job has processors.
fn component_blocked_by(job: &Job, other: &Job) -> Option<ComponentIndex> {
    sites_waited_at(job)
        .find(|(_, site)| sites_held_at(other).any(|(_, held)| held == *site))
        .map(|(component, _)| component)
}

fn sites_with_state(
    job: &Job,
    so: fn(&AttemptState) -> bool,
) -> impl Iterator<Item = (ComponentIndex, &SiteName)> {
    job.indexed_components()
        .filter(move |(_, component)| so(&component.run) && !component.given_back)
        .filter_map(|(index, component)| Some((index, &component.placement.as_ref()?.site)))
}
