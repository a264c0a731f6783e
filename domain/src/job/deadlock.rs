//! Two jobs that hold processors at each other's sites: neither would ever start.

use crate::ids::{ComponentIndex, JobId, SiteName};
use crate::job::state::{Component, Job, Phase, Run};

/// The component with which a job gives way, and to whom: it waits in its site's queue, and
/// one of `others` holds processors there, waits for some at a site where this job holds
/// some, and was submitted earlier. At most one of two jobs gives way to the other.
pub fn yields<'a>(
    job: &Job,
    others: impl IntoIterator<Item = &'a Job>,
) -> Option<(ComponentIndex, JobId)> {
    if !holds_and_waits(job) {
        return None;
    }
    let concerned = |other: &&Job| submitted(other) < submitted(job) && is_claiming(other);
    let mut earlier = others.into_iter().filter(concerned);
    earlier.find_map(|other| Some((blocked_by(job, other)?, other.id)))
}

/// Whether a job may be one of two such.
pub fn holds_and_waits(job: &Job) -> bool {
    is_claiming(job) && holds_at(job).next().is_some() && waits_at(job).next().is_some()
}

/// Sites in whose queues components of a job wait.
pub fn waits_at(job: &Job) -> impl Iterator<Item = (ComponentIndex, &SiteName)> {
    sites_where(job, |run| matches!(run, Run::Submitted { .. }))
}

fn holds_at(job: &Job) -> impl Iterator<Item = (ComponentIndex, &SiteName)> {
    sites_where(job, |run| matches!(run, Run::AtGate { .. }))
}

fn is_claiming(job: &Job) -> bool {
    matches!(job.phase, Phase::Claiming { .. })
}

fn submitted(job: &Job) -> (crate::units::Timestamp, JobId) {
    (job.submitted_at, job.id)
}

/// A component that waits where the other holds, if the other waits where this one holds.
fn blocked_by(job: &Job, other: &Job) -> Option<ComponentIndex> {
    let meet = |site: &SiteName, of: &Job| holds_at(of).any(|(_, held)| held == site);
    if !waits_at(other).any(|(_, site)| meet(site, job)) {
        return None;
    }
    waits_at(job).find(|(_, site)| meet(site, other)).map(|(component, _)| component)
}

fn sites_where(
    job: &Job,
    so: fn(&Run) -> bool,
) -> impl Iterator<Item = (ComponentIndex, &SiteName)> {
    let concerned = move |component: &Component| so(&component.run) && !component.given_back;
    job.indexed()
        .filter(move |(_, component)| concerned(component))
        .filter_map(|(index, component)| Some((index, &component.placement.as_ref()?.site)))
}
