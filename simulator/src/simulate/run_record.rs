//! From the outcome of an experiment to the record of a run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::experiment::{AttemptKey, ExperimentOutcome};
use crate::reservation_usage::ComponentReservation;
use crate::world::world_history::{WorldLedgerEntry, WorldLedgerEvent};
use crate::world::world_site::{self, SimulatedCluster};
use crate::world::{SimulatedWorld, SiteIndex};
use cospan_domain::ids::{Round, SiteName};
use cospan_domain::job::accounting::JobAccounting;
use cospan_domain::job::job_state::{Job, JobPhase, SetbackCounts};
use cospan_domain::units::Timestamp;

use super::attempts;
use super::report::{
    AttemptRow, GanttBar, JobEnding, LoadKind, LoadUseStep, LocalUserDay, QueueStep,
    ReservationBar, RunJob, RunRecord, SiteTrace,
};

/// Most bars of a site that are kept for its Gantt chart, which shows the time around the longest
/// queue if the whole run has too many.
const BARS_MAX: usize = 50_000;

/// The facts that are kept of a job that ended.
pub(super) struct EndedJobFacts {
    row: RunJob,
    setbacks: SetbackCounts,
}

/// Extracts the facts that are kept of a job.
pub(super) fn keep_facts(job: &Job) -> EndedJobFacts {
    EndedJobFacts {
        row: job_row(job),
        setbacks: job.setbacks,
    }
}

/// The record of a run, except for figures that are counted elsewhere.
pub(super) fn run_record(
    label: &str,
    seed: u64,
    began: Timestamp,
    mut outcome: ExperimentOutcome<EndedJobFacts>,
) -> RunRecord {
    let ended = outcome.ended;
    outcome.jobs.sort_by_key(|job| job.row.id);
    let longest = outcome
        .queue
        .iter()
        .rev()
        .max_by_key(|(_, waiting)| *waiting);
    let busy = longest.map_or(began, |(at, _)| *at);
    let attempts = outcome
        .world
        .read(|world| attempt_rows(world, &outcome.rounds));
    let bookings = outcome.bookings.all_reservations();
    let sites = outcome
        .world
        .read(|world| site_traces(world, &attempts, bookings, (began, busy, ended)));
    RunRecord {
        label: label.to_owned(),
        seed,
        began,
        ended,
        sites,
        attempts,
        queue: outcome
            .queue
            .iter()
            .map(|&(at, waiting): &(Timestamp, u32)| QueueStep { at, waiting })
            .collect(),
        counters: run_counters(&outcome),
        jobs: outcome.jobs.into_iter().map(|job| job.row).collect(),
    }
}

fn run_counters(outcome: &ExperimentOutcome<EndedJobFacts>) -> BTreeMap<String, u64> {
    let jobs = &outcome.jobs;
    let bookings = outcome.bookings.all_reservations().len();
    let moves = outcome.bookings.move_count();
    let reserved = [
        ("reservations confirmed".to_owned(), bookings as u64),
        ("promised starts brought forward".to_owned(), moves),
    ];
    let counters = BTreeMap::from([
        ("durable changes".to_owned(), outcome.changes),
        (
            "local jobs ended".to_owned(),
            outcome.world.read(|world: &SimulatedWorld| {
                world
                    .sites()
                    .iter()
                    .map(SimulatedCluster::local_ended_count)
                    .sum()
            }),
        ),
        (
            "wait of local jobs, s".to_owned(),
            outcome.world.read(|world: &SimulatedWorld| {
                world.sites().iter().map(local_wait_ms).sum::<u64>() / 1_000
            }),
        ),
        (
            "components killed by failing nodes".to_owned(),
            outcome
                .world
                .read(|world: &SimulatedWorld| killed_by_nodes(world.ledger().entries())),
        ),
        ("components moved".to_owned(), outcome.moved),
        (
            "failed claiming tries".to_owned(),
            sum_setbacks(jobs, |setbacks| setbacks.claims),
        ),
        (
            "preemptions".to_owned(),
            sum_setbacks(jobs, |setbacks| setbacks.preemptions),
        ),
        (
            "rounds aborted".to_owned(),
            sum_setbacks(jobs, |setbacks| setbacks.rounds),
        ),
        (
            "errors of jobs themselves".to_owned(),
            sum_setbacks(jobs, |setbacks| setbacks.own_errors),
        ),
        (
            "inputs lost".to_owned(),
            sum_setbacks(jobs, |setbacks| setbacks.inputs),
        ),
    ]);
    counters
        .into_iter()
        .chain(reserved.into_iter().filter(|_| bookings > 0))
        .collect()
}

fn sum_setbacks(jobs: &[EndedJobFacts], count: fn(&SetbackCounts) -> u32) -> u64 {
    jobs.iter().map(|job| u64::from(count(&job.setbacks))).sum()
}

/// Total wait of the local jobs that began, in milliseconds.
fn local_wait_ms(site: &SimulatedCluster) -> u64 {
    site.local_starts()
        .iter()
        .map(|start| start.began.since(start.submitted).0)
        .sum()
}

fn killed_by_nodes(entries: &[WorldLedgerEntry]) -> u64 {
    entries
        .iter()
        .filter(|entry| entry.deed == WorldLedgerEvent::KilledByNode)
        .count() as u64
}

fn job_row(job: &Job) -> RunJob {
    let (ending, finished) = match &job.phase {
        JobPhase::Finished { at } => (JobEnding::Done, Some(*at)),
        JobPhase::Failed { at, .. } => (JobEnding::Failed, Some(*at)),
        JobPhase::Cancelled { at, .. } => (JobEnding::Cancelled, Some(*at)),
        _ => (JobEnding::Unfinished, None),
    };
    let placements = job
        .components
        .iter()
        .filter_map(|component| component.placement.as_ref());
    let sites: BTreeSet<&SiteName> = placements.map(|placement| &placement.site).collect();
    let placements = job
        .components
        .iter()
        .filter_map(|component| component.placement.as_ref());
    let transfer_time = placements.map(|placement| placement.transfer_time.0).max();
    let attempts = job.components.iter().map(|component| component.attempt.0);
    let attempts = attempts.fold(0, u32::saturating_add);
    let accounting = JobAccounting::from_job(job);
    RunJob {
        id: job.id.0,
        name: job.spec.name.as_deref().unwrap_or_default().to_owned(),
        components: u32::try_from(job.component_count()).unwrap_or(u32::MAX),
        processors: job.spec.total_resources().processors,
        sites: u32::try_from(sites.len()).unwrap_or(u32::MAX),
        priority: job.spec.priority.as_str().to_owned(),
        submitted: job.submitted_at,
        placed: job.instants.placed,
        claimed: job.instants.claimed,
        started: job.instants.started,
        finished,
        ending,
        total_placement_time_ms: accounting.total_placement_time.0,
        start_delay_ms: accounting.start_delay_ms,
        rounds: job.round.0,
        rounds_aborted: job.setbacks.rounds,
        attempts,
        failed_claims: job.setbacks.claims,
        missed_starts: job.setbacks.missed_starts,
        preemptions: job.setbacks.preemptions,
        site_errors: job.setbacks.site_errors,
        transfer_bytes: job.instants.transfer_volume.0,
        transfer_time_ms: transfer_time.unwrap_or_default(),
        gained_processor_ms: job.instants.gained_processor_ms,
        held_processor_ms: job.instants.wasted_processor_ms,
    }
}

fn attempt_rows(world: &SimulatedWorld, rounds: &BTreeMap<AttemptKey, Round>) -> Vec<AttemptRow> {
    attempts::attempt_rows(world.ledger().entries(), rounds, |name: &SiteName| {
        world.index_of(name).map_or(usize::MAX, SiteIndex::index)
    })
}

fn site_traces(
    world: &SimulatedWorld,
    attempts: &[AttemptRow],
    bookings: &[ComponentReservation],
    (began, busy, ended): (Timestamp, Timestamp, Timestamp),
) -> Vec<SiteTrace> {
    world
        .sites()
        .iter()
        .enumerate()
        .map(|(place, site): (usize, &SimulatedCluster)| {
            let ours = attempts.iter().filter(|row| row.site == place);
            let mut bars: Vec<GanttBar> = ours
                .flat_map(|row| attempts::attempt_bars(row, ended))
                .collect();
            bars.extend(share_bars(site.load(), LoadKind::Local, ended));
            bars.extend(share_bars(site.load(), LoadKind::Down, ended));
            let bars_dropped = bars.len().saturating_sub(BARS_MAX) as u64;
            if bars_dropped > 0 {
                bars.sort_by_key(|bar| bar.from.0.abs_diff(busy.0));
                bars.truncate(BARS_MAX);
            }
            bars.sort_by_key(|bar| bar.from);
            SiteTrace {
                name: site.name().to_string(),
                processors: site.processors(),
                load: site.load().iter().map(load_step).collect(),
                bars,
                bars_dropped,
                bookings: reservation_bars(bookings, site.name())
                    .take(BARS_MAX)
                    .collect(),
                local_days: local_days(site, began),
            }
        })
        .collect()
}

fn local_days(site: &SimulatedCluster, began: Timestamp) -> Vec<LocalUserDay> {
    LocalUserDay::sum_by_day(
        began,
        site.local_starts()
            .iter()
            .map(|start: &world_site::LocalJobStart| {
                (start.submitted, start.began, start.run_time)
            }),
    )
}

/// The reservations at a site.
fn reservation_bars<'a>(
    bookings: &'a [ComponentReservation],
    site: &'a SiteName,
) -> impl Iterator<Item = ReservationBar> + 'a {
    bookings
        .iter()
        .filter(move |booking| booking.site == *site)
        .map(|booking| {
            let ComponentReservation {
                from,
                to,
                processors,
                made,
                left,
                ..
            } = *booking;
            let job = booking.job.0;
            let component = booking.component.0;
            ReservationBar {
                from,
                to,
                processors,
                job,
                component,
                made,
                left,
            }
        })
}

fn load_step(step: &world_site::ClusterLoadStep) -> LoadUseStep {
    let world_site::ClusterLoadStep {
        at,
        running,
        held,
        local,
        down,
    } = *step;
    LoadUseStep {
        at,
        running,
        held,
        local,
        down,
    }
}

/// Bars for a load that is known by its sum only: it is assumed that the first to come is the first
/// to leave.
fn share_bars(
    load: &[world_site::ClusterLoadStep],
    kind: LoadKind,
    ended: Timestamp,
) -> Vec<GanttBar> {
    let mut bars = Vec::new();
    let mut held: VecDeque<(Timestamp, u32)> = VecDeque::new();
    let mut before = 0;
    let end = world_site::ClusterLoadStep {
        at: ended,
        running: 0,
        held: 0,
        local: 0,
        down: 0,
    };
    for step in load.iter().chain([&end]) {
        let now = if kind == LoadKind::Down {
            step.down
        } else {
            step.local
        };
        if now > before {
            held.push_back((step.at, now - before));
        }
        let mut leaving = before.saturating_sub(now);
        while leaving > 0
            && let Some((from, processors)) = held.pop_front()
        {
            let gone = processors.min(leaving);
            leaving -= gone;
            if gone < processors {
                held.push_front((from, processors - gone));
            }
            let job = None;
            let component = None;
            bars.push(GanttBar {
                from,
                to: step.at,
                processors: gone,
                kind,
                job,
                component,
            });
        }
        before = now;
    }
    bars
}
