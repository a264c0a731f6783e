//! Judges reserved starts: by the reservations at sites, and by when payloads began.

use std::collections::{BTreeMap, BTreeSet};

use cospan_actors::api::CommittedView;
use cospan_actors::journal::JournalChange;
use cospan_domain::ids::{AttemptTag, ComponentIndex, InstanceId, JobId, Round};
use cospan_domain::job::job_event::JobEventKind;
use cospan_domain::job::job_state::{Job, JobPhase, PhaseKind};
use cospan_domain::reservation::{ReservationTag, StartWindow};
use cospan_domain::runner::RestartScope;
use cospan_domain::units::{DurationMs, Timestamp};

use super::judge_shared_reservations;
use super::seed_oracle::SeedEvidence;
use super::seed_scenario::MINUTE;
use cospan_simulator::control_plane_run::ControlPlaneRun;
use cospan_simulator::world::SimulatedWorld;
use cospan_simulator::world::world_history::WorldLedgerEvent;

/// Starts that are later by more than this are no longer as reserved: a component comes to its gate
/// too late, and waits there for others.
const LATE_MAX: DurationMs = DurationMs(20 * MINUTE);

/// Lists reservations of a job that its sites do not have when it is placed.
pub(super) fn missing_when_placed(
    plane_run: &ControlPlaneRun,
    change: &JournalChange,
) -> Vec<String> {
    let JournalChange::Job { new, events, .. } = change else {
        return Vec::new();
    };
    let placed = events
        .iter()
        .any(|event| matches!(event.what, JobEventKind::JobPlaced { .. }));
    let view = plane_run.plane.view();
    // It may have been cancelled since.
    let as_placed = view
        .jobs
        .get(&new.id)
        .is_some_and(|job| job.revision == new.revision);
    if !placed || !as_placed || !matches!(new.phase, JobPhase::Placed { .. }) {
        return Vec::new();
    }
    let instance = plane_run.plane.shared().instance;
    plane_run
        .world
        .read(|world| missing_reservation(world, instance, new))
}

fn missing_reservation(world: &SimulatedWorld, instance: InstanceId, job: &Job) -> Vec<String> {
    let placed = job
        .components
        .iter()
        .filter_map(|component| component.placement.as_ref());
    let promised =
        placed.filter_map(|placed| Some((placed, placed.acquisition.reservation_use()?)));
    let broken = promised.filter_map(|(placed, promised)| {
        // Shared reservations are looked up in their site's record.
        let tag = if promised.shared {
            return None;
        } else {
            ReservationTag {
                instance,
                job: job.id,
                serial: promised.serial,
            }
        };
        let site = &world.sites()[world.index_of(&placed.site)?.index()];
        let lease = site
            .current_reservations()
            .find(|(held, _)| **held == tag)
            .map(|(_, lease)| *lease);
        let is_held = lease.is_some_and(|lease| {
            let from = lease.span.from;
            let to = lease.span.to;
            (from, to, lease.expires) == (promised.from, promised.to, None)
        });
        let text = format!(
            "{tag} at {}: {promised:?}, and it has {lease:?}",
            placed.site
        );
        (!is_held && !site.has_lost_reservation(tag)).then_some(text)
    });
    broken.collect()
}

/// Lists our reservations at sites that nobody needs any more.
pub(super) fn unneeded_reservations(
    world: &SimulatedWorld,
    view: &CommittedView,
    instance: InstanceId,
    now: Timestamp,
) -> Vec<String> {
    let of_site = world.sites().iter().flat_map(|site| {
        let ours = site
            .current_reservations()
            .filter(|(tag, _)| tag.instance == instance);
        let ours = ours
            .filter(|(tag, _)| !judge_shared_reservations::is_for_others(view, site.name(), **tag));
        // One that is over is forgotten when the site is asked next.
        let lives = ours.filter(|(_, lease)| {
            now < lease.span.to && lease.expires.is_none_or(|expires| now < expires)
        });
        lives.map(|(tag, lease)| format!("{tag} at {}: {lease:?}", site.name()))
    });
    of_site.collect()
}

/// Lists reservations of one job that another component used, or another job.
pub(super) fn claimed_by_others(evidence: &SeedEvidence<'_>) -> Vec<String> {
    let mut users: BTreeMap<ReservationTag, BTreeSet<(JobId, ComponentIndex)>> = BTreeMap::new();
    for entry in evidence.world.ledger().entries() {
        if let WorldLedgerEvent::Reserved(lease) = entry.deed
            && !lease.is_shared()
        {
            users
                .entry(lease)
                .or_default()
                .insert((entry.tag.job, entry.tag.component));
        }
    }
    let wrong = users.iter().filter(
        |(lease, users): &(&ReservationTag, &BTreeSet<(JobId, ComponentIndex)>)| {
            users.len() > 1 || users.iter().any(|(job, _)| *job != lease.job)
        },
    );
    wrong
        .map(|(lease, users)| format!("{lease} was used by {users:?}"))
        .collect()
}

/// The reserved start of each round of a job when it was placed.
pub(super) type Windows = BTreeMap<(JobId, Round), StartWindow>;

/// Lists jobs that began at another time than reserved. The start of a round is judged, not that of
/// a later one after it had come to nothing.
pub(super) fn begun_at_other_times(evidence: &SeedEvidence<'_>) -> Vec<String> {
    let judged = evidence
        .jobs
        .values()
        .filter(|_| evidence.clocks_apart == DurationMs::ZERO);
    let judged = judged.filter(|job| job.phase.kind() == PhaseKind::Finished);
    let mut rounds: BTreeMap<AttemptTag, Round> = BTreeMap::new();
    let mut begun: BTreeMap<JobId, Vec<BegunPayload>> = BTreeMap::new();
    let entries = evidence.world.ledger().entries().iter();
    for entry in entries.filter(|entry| entry.tag.instance == evidence.instance) {
        match (&entry.deed, rounds.get(&entry.tag)) {
            (WorldLedgerEvent::Opened(round, _), None) => drop(rounds.insert(entry.tag, *round)),
            (WorldLedgerEvent::Began, Some(round)) => {
                let component = entry.tag.component;
                let at = entry.at;
                let round = *round;
                begun.entry(entry.tag.job).or_default().push(BegunPayload {
                    component,
                    at,
                    round,
                });
            }
            _ => {}
        }
    }
    let wrong = judged.flat_map(|job| {
        let begun = begun.get(&job.id).map(Vec::as_slice).unwrap_or_default();
        // A component that failed is restarted alone whenever there is a place for it.
        let all = if job.spec.run.restart_scope == RestartScope::Job {
            usize::MAX
        } else {
            1
        };
        begun.iter().enumerate().filter_map(move |(number, begun)| {
            let offset = job.spec.offset_of(begun.component);
            let alone = number >= all;
            // Also then not before its time.
            let is_judged = !alone || offset > DurationMs::ZERO;
            is_judged.then(|| wrongly_begun(job.id, *begun, (offset, alone), evidence.windows))?
        })
    });
    wrong.collect()
}

/// A payload that began.
#[derive(Debug, Clone, Copy)]
struct BegunPayload {
    component: ComponentIndex,
    at: Timestamp,
    round: Round,
}

/// Returns what is wrong with the begin of a component that is to begin so long after the start; if
/// it was restarted alone it may be late.
fn wrongly_begun(
    job: JobId,
    BegunPayload { at, round, .. }: BegunPayload,
    (offset, alone): (DurationMs, bool),
    promised: &Windows,
) -> Option<String> {
    let StartWindow { earliest, latest } = promised.get(&(job, round))?.shifted_by(offset);
    let latest = if alone { Timestamp(u64::MAX) } else { latest };
    let what = (at < earliest)
        .then_some("early")
        .or_else(|| (at.since(latest) > LATE_MAX).then_some("late"))?;
    Some(format!("job {job} began too {what} in round {}", round.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_judged_by_what_its_own_round_was_promised() {
        let job = JobId(1);
        let hour = |hours: u64| Timestamp(hours * 3_600_000);
        let window = |from| StartWindow::new(hour(from), hour(from + 1));
        // It began as promised, came to nothing, and was moved before it was placed again.
        let promised = [((job, Round(1)), window(1)), ((job, Round(2)), window(5))].into();
        let component = ComponentIndex(0);
        let offset = |hours: u64| (DurationMs(hours * 3_600_000), false);
        let judge_late = |round, at, after| {
            let begun = BegunPayload {
                component,
                at,
                round: Round(round),
            };
            wrongly_begun(job, begun, offset(after), &promised)
        };
        let judge = |round, at| judge_late(round, at, 0);
        assert_eq!(judge(1, hour(1)), None);
        assert_eq!(judge(2, hour(5)), None);
        assert!(judge(2, hour(1)).is_some_and(|wrong| wrong.contains("too early")));
        assert!(judge(1, hour(5)).is_some_and(|wrong| wrong.contains("too late")));
        assert_eq!(
            judge(3, hour(1)),
            None,
            "nothing was promised to that round"
        );
        assert_eq!(
            judge_late(1, hour(3), 2),
            None,
            "as much later as was asked for"
        );
        assert!(judge_late(1, hour(2), 2).is_some_and(|wrong| wrong.contains("too early")));
    }
}
