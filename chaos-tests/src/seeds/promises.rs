//! Judges starts that are promised: by what sites hold, and by when payloads began.

use std::collections::{BTreeMap, BTreeSet};

use cospan_actors::journal::Change;
use cospan_domain::ids::{ComponentIndex, InstanceId, JobId};
use cospan_domain::job::event::Happened;
use cospan_domain::job::state::{Job, Phase, PhaseKind};
use cospan_domain::reserve::{ReservationTag, StartWindow};
use cospan_domain::runner::RestartScope;
use cospan_domain::units::{DurationMs, Timestamp};

use super::oracle::Evidence;
use super::scenario::MINUTE;
use cospan_simulator::control_plane_run::ControlPlaneRun;
use cospan_simulator::world::World;
use cospan_simulator::world::ledger::Deed;

/// Starts that are late by more than this are no longer what was promised: what comes to its gate
/// too late, and waits there for others.
const LATE_MAX: DurationMs = DurationMs(20 * MINUTE);

/// What is wrong with what a job was promised when it was placed: its sites do not hold it.
pub(super) fn not_held(plane_run: &ControlPlaneRun, change: &Change) -> Vec<String> {
    let Change::Job { new, events, .. } = change else { return Vec::new() };
    let placed = events.iter().any(|event| matches!(event.what, Happened::JobPlaced { .. }));
    let view = plane_run.plane.view();
    // It may have been given back since.
    let as_placed = view.jobs.get(&new.id).is_some_and(|job| job.revision == new.revision);
    if !placed || !as_placed || !matches!(new.phase, Phase::Placed { .. }) {
        return Vec::new();
    }
    let instance = plane_run.plane.shared().instance;
    plane_run.world.read(|world| missing(world, instance, new))
}

fn missing(world: &World, instance: InstanceId, job: &Job) -> Vec<String> {
    let placed = job.components.iter().filter_map(|component| component.placement.as_ref());
    let promised = placed.filter_map(|placed| Some((placed, placed.acquisition.promised()?)));
    let broken = promised.filter_map(|(placed, promised)| {
        let tag = ReservationTag { instance, job: job.id, serial: promised.serial };
        let site = &world.sites()[world.index_of(&placed.site)?.index()];
        let lease = site.leases().find(|(held, _)| **held == tag).map(|(_, lease)| *lease);
        let is_held = lease.is_some_and(|lease| {
            let (from, to) = (lease.span.from, lease.span.to);
            (from, to, lease.expires) == (promised.from, promised.to, None)
        });
        let text = format!("{tag} at {}: {promised:?}, and it has {lease:?}", placed.site);
        (!is_held && !site.has_lost(tag)).then_some(text)
    });
    broken.collect()
}

/// Reservations of ours that sites hold although nobody needs them any more.
pub(super) fn left_behind(world: &World, instance: InstanceId, now: Timestamp) -> Vec<String> {
    let of_site = world.sites().iter().flat_map(|site| {
        let ours = site.leases().filter(|(tag, _)| tag.instance == instance);
        // One that is over is forgotten when the site is asked next.
        let lives = ours.filter(|(_, lease)| {
            now < lease.span.to && lease.expires.is_none_or(|expires| now < expires)
        });
        lives.map(|(tag, lease)| format!("{tag} at {}: {lease:?}", site.name()))
    });
    of_site.collect()
}

/// Reservations that another component used, or another job.
pub(super) fn claimed_by_others(evidence: &Evidence<'_>) -> Vec<String> {
    let mut users: BTreeMap<ReservationTag, BTreeSet<(JobId, ComponentIndex)>> = BTreeMap::new();
    for entry in evidence.world.ledger().entries() {
        if let Deed::Reserved(lease) = entry.deed {
            users.entry(lease).or_default().insert((entry.tag.job, entry.tag.component));
        }
    }
    let is_wrong = |(lease, users): &(&ReservationTag, &BTreeSet<(JobId, ComponentIndex)>)| {
        users.len() > 1 || users.iter().any(|(job, _)| *job != lease.job)
    };
    let wrong = users.iter().filter(is_wrong);
    wrong.map(|(lease, users)| format!("{lease} was used by {users:?}")).collect()
}

/// Jobs that were promised a start, and began at another one.
pub(super) fn begun_at_other_times(evidence: &Evidence<'_>) -> Vec<String> {
    let judged = evidence.jobs.values().filter(|_| evidence.clocks_apart == DurationMs::ZERO);
    let judged = judged.filter(|job| job.phase.kind() == PhaseKind::Finished);
    let wrong =
        judged.filter_map(|job| {
            let wish = job.reservation_wish()?;
            let began =
                evidence.world.ledger().entries().iter().filter(|entry| {
                    entry.tag.instance == evidence.instance && entry.tag.job == job.id
                });
            let began = began.filter(|entry| entry.deed == Deed::Began).map(|entry| entry.at);
            // A component that failed is restarted alone whenever there is a place for it.
            let all = if job.spec.run.restart_scope == RestartScope::Job { usize::MAX } else { 1 };
            let began = began.take(all);
            let StartWindow { earliest, latest } = wish.window;
            let early = began.clone().any(|at| at < earliest);
            let late = began.max().is_some_and(|at| at > latest + LATE_MAX);
            let what = if early { "early" } else { "late" };
            (early || late).then(|| format!("job {} began too {what}", job.id))
        });
    wrong.collect()
}
