//! Promised starts that are brought forward when a local job ends early, under control planes that
//! die.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use cospan_actors::api::command::{ApiCommand, ApiRequest, JobSubmission};
use cospan_domain::acquisition::ReservationTerms;
use cospan_domain::ids::{Digest, IdempotencyKey, KeyName, SiteName};
use cospan_domain::job::job_state::{Job, PhaseKind, SubmissionIdempotency};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::reservation::StartWindow;
use cospan_domain::units::{DurationMs, Timestamp};

use super::call_faults::{CallFaultModel, FaultRates};
use super::control_plane_run::{
    ControlPlaneRun, RunEnd, RunPlan, SimEnvironment, run_control_plane,
};
use super::jobs::build_job;
use super::settings::default_settings;
use crate::world::batch::QueueDiscipline;
use crate::world::world_history::WorldLedgerEvent;
use crate::world::world_site::{ClusterSpec, LocalJob};
use crate::world::{SimulatedWorld, WrapperDelays};

pub(super) const BEGINS: Timestamp = Timestamp(1_000_000_000);
pub(super) const MINUTE: DurationMs = DurationMs(60_000);

pub(super) fn minutes(count: u64) -> DurationMs {
    DurationMs(count * MINUTE.0)
}

/// Two sites of 8 processors that grant reservations, all of them in use by a local job that
/// was to run for four hours: it runs for so many minutes.
pub(super) fn environment_of_local_runs(runs: [u64; 2], seed: u64) -> SimEnvironment {
    busy_environment(runs.map(|runs| vec![local_job(8, runs, 240)]), seed)
}

/// A local job from the beginning on.
pub(super) fn local_job(processors: u32, runs: u64, estimate: u64) -> LocalJob {
    LocalJob {
        at: BEGINS,
        processors,
        run_time: minutes(runs),
        estimate: minutes(estimate),
    }
}

/// Two such sites with these local jobs.
pub(super) fn busy_environment(local_jobs: [Vec<LocalJob>; 2], seed: u64) -> SimEnvironment {
    let sites = ["delft", "leiden"].into_iter().zip(local_jobs).map(
        |(name, local_jobs): (&str, Vec<LocalJob>)| ClusterSpec {
            name: SiteName::new(name).unwrap(),
            nodes: 8,
            processors_per_node: 1,
            discipline: QueueDiscipline::Conservative,
            local_jobs,
            queues: false,
            reserves: true,
            files: BTreeMap::new(),
        },
    );
    let world = SimulatedWorld::new(sites.collect(), &[], WrapperDelays::default(), seed, BEGINS);
    SimEnvironment {
        hints: false,
        ..SimEnvironment::new(
            world,
            CallFaultModel::new(FaultRates::default(), seed),
            default_settings(),
        )
    }
}

/// Components of six processors, for ten minutes, within ten hours from now.
pub(super) fn wide_job(components: usize, flexible: bool) -> JobSpec {
    let mut spec = build_job(&vec![6; components], MINUTE, minutes(10), 0).unwrap();
    let window = StartWindow::new(BEGINS, BEGINS + minutes(600));
    let wish = ReservationTerms {
        window,
        tolerance: MINUTE,
        flexible,
        ..Default::default()
    };
    spec.run.reservation = Some(wish);
    spec
}

async fn submit(plane_run: &ControlPlaneRun, spec: JobSpec) {
    // The sites' own users come first.
    plane_run.sleep_until(BEGINS + MINUTE).await;
    let key = IdempotencyKey::new("wide").unwrap();
    let idempotency = Some(SubmissionIdempotency {
        key,
        body: Digest([0; 32]),
    });
    let submission = JobSubmission {
        idempotency,
        ..JobSubmission::from_spec(Arc::new(spec))
    };
    let by = KeyName::new("alice").unwrap();
    let what = ApiRequest::Submit(vec![submission]);
    plane_run
        .plane
        .execute_command(ApiCommand { by, what })
        .await
        .unwrap();
}

/// What became of a job, and each start that it was promised.
pub(super) struct RescheduledJob {
    pub(super) job: Arc<Job>,
    pub(super) promised: Vec<Timestamp>,
}

/// Runs a job through control planes that die at these times.
pub(super) fn run_job(
    environment: &SimEnvironment,
    spec: &JobSpec,
    deaths: &[u64],
    seed: u64,
) -> RescheduledJob {
    let mut deaths = deaths
        .iter()
        .map(|secs| BEGINS + DurationMs::from_secs(*secs));
    let mut begins = BEGINS;
    let promised = Arc::new(Mutex::new(Vec::new()));
    loop {
        let plan = RunPlan {
            killed_at: deaths.next(),
            ..RunPlan::undisturbed(begins, seed)
        };
        let spec = spec.clone();
        let promised = promised.clone();
        let seen = promised.clone();
        let end = run_control_plane(environment, plan, move |plane_run| async move {
            while !plane_run.plane.is_ready() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            submit(&plane_run, spec).await;
            let job = || {
                plane_run
                    .plane
                    .view()
                    .jobs
                    .values()
                    .next()
                    .cloned()
                    .unwrap()
            };
            while !job().is_final() && plane_run.clock.now() < BEGINS + minutes(1_000) {
                note_promised_start(&seen, job().reserved_start());
                plane_run
                    .sleep_until(plane_run.clock.now() + DurationMs::from_secs(1))
                    .await;
            }
            job()
        });
        match end.unwrap() {
            RunEnd::Done(_, job) => {
                let promised = promised.lock().unwrap().clone();
                return RescheduledJob { job, promised };
            }
            RunEnd::Killed(at) => begins = at + DurationMs::from_secs(20),
        }
    }
}

/// Keeps a start that differs from the last one.
fn note_promised_start(seen: &Mutex<Vec<Timestamp>>, start: Option<Timestamp>) {
    let mut seen = seen.lock().unwrap();
    if let Some(start) = start.filter(|start| seen.last() != Some(start)) {
        seen.push(start);
    }
}

/// When payloads began.
pub(super) fn payload_starts(environment: &SimEnvironment) -> Vec<Timestamp> {
    environment.world.read(|world| {
        let entries = world.ledger().entries();
        entries
            .iter()
            .filter(|entry| entry.deed == WorldLedgerEvent::Began)
            .map(|entry| entry.at)
            .collect()
    })
}

/// Reservations that sites hold.
pub(super) fn count_reservations(world: &SimulatedWorld) -> usize {
    world
        .sites()
        .iter()
        .flat_map(|site| site.current_reservations())
        .count()
}

pub(super) fn is_strictly_earlier(promised: &[Timestamp]) -> bool {
    promised.windows(2).all(|pair| pair[1] < pair[0])
}

#[test]
fn an_early_end_moves_a_flexible_reservation_forward() {
    let environment = environment_of_local_runs([60, 240], 1);
    let RescheduledJob { job, promised } = run_job(&environment, &wide_job(1, true), &[], 1);
    assert_eq!(job.phase.kind(), PhaseKind::Finished, "{job:?}");
    let first = promised[0];
    let last = promised[promised.len() - 1];
    assert!(
        first >= BEGINS + minutes(240),
        "when the local jobs were to end: {promised:?}"
    );
    assert!(is_strictly_earlier(&promised), "{promised:?}");
    let soon = BEGINS + minutes(60)..BEGINS + minutes(62);
    assert!(
        soon.contains(&last),
        "when one of them did end: {promised:?}"
    );
    assert!(payload_starts(&environment)[0] < soon.end + MINUTE);
    assert!(environment.world.read(count_reservations) == 0);
}

#[test]
fn a_reservation_that_may_not_be_moved_stays_where_it_is() {
    let environment = environment_of_local_runs([60, 240], 1);
    let RescheduledJob { job, promised } = run_job(&environment, &wide_job(1, false), &[], 1);
    assert_eq!(job.phase.kind(), PhaseKind::Finished);
    assert_eq!(promised.len(), 1, "{promised:?}");
    assert!(payload_starts(&environment)[0] >= BEGINS + minutes(240));
}

#[test]
fn parts_of_a_job_come_forward_together_or_not_at_all() {
    // They fill more than one site.
    let environment = environment_of_local_runs([60, 90], 2);
    let RescheduledJob { job, promised } = run_job(&environment, &wide_job(2, true), &[], 2);
    assert_eq!(job.phase.kind(), PhaseKind::Finished);
    let last = promised[promised.len() - 1];
    let soon = BEGINS + minutes(90)..BEGINS + minutes(92);
    assert!(
        soon.contains(&last) && is_strictly_earlier(&promised),
        "{promised:?}"
    );
    let placed = job.components.iter().filter_map(|c| c.placement.as_ref());
    let sites: BTreeSet<&SiteName> = placed.map(|placement| &placement.site).collect();
    assert_eq!(sites.len(), 2);
}

#[test]
fn a_move_lives_through_deaths_of_the_control_plane() {
    for seed in 1..=10_u64 {
        let environment = environment_of_local_runs([60, 240], seed);
        let deaths: Vec<u64> = (0..6).map(|death| 3_600 + death * 29 + seed).collect();
        let RescheduledJob { job, promised } =
            run_job(&environment, &wide_job(1, true), &deaths, seed);
        assert_eq!(
            job.phase.kind(),
            PhaseKind::Finished,
            "seed {seed}: {job:?}"
        );
        assert!(
            is_strictly_earlier(&promised) && promised.len() > 1,
            "seed {seed}: {promised:?}"
        );
        assert_eq!(
            environment.world.read(count_reservations),
            0,
            "seed {seed}: held by nobody"
        );
    }
}
