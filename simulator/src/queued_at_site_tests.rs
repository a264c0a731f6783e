//! A job whose components wait in the queues of full sites, under control planes that die: it
//! starts together when there is room, and nobody is charged or runs twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_actors::api::command::{ApiCommand, ApiRequest, JobSubmission};
use cospan_domain::acquisition::{AcquisitionMode, QueueTimeLimits};
use cospan_domain::ids::{Digest, IdempotencyKey, KeyName, SiteName};
use cospan_domain::job::job_state::{Job, PhaseKind, SubmissionIdempotency};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::units::{DurationMs, Timestamp};

use super::call_faults::{CallFaultModel, FaultRates};
use super::control_plane_run::{
    ControlPlaneRun, RunEnd, RunPlan, SimEnvironment, run_control_plane,
};
use super::jobs::build_job;
use super::settings::default_settings;
use crate::world::batch::QueueDiscipline;
use crate::world::world_history::{WorldLedgerEntry, WorldLedgerEvent};
use crate::world::world_site::{ClusterSpec, LocalJob};
use crate::world::{SimulatedWorld, WrapperDelays};

const BEGINS: Timestamp = Timestamp(1_000_000_000);
const RUN_TIME: DurationMs = DurationMs(60_000);

/// Two sites of 8 processors, all of them in use by a local job for so many minutes.
fn environment_of_busy_sites(minutes: [u64; 2], seed: u64) -> SimEnvironment {
    let sites = ["delft", "leiden"]
        .into_iter()
        .zip(minutes)
        .map(|(name, minutes): (&str, u64)| ClusterSpec {
            name: SiteName::new(name).unwrap(),
            nodes: 8,
            processors_per_node: 1,
            discipline: QueueDiscipline::Easy,
            local_jobs: vec![LocalJob {
                at: BEGINS,
                processors: 8,
                run_time: DurationMs(minutes * 60_000),
                estimate: DurationMs(minutes * 60_000),
            }],
            queues: true,
            reserves: false,
            files: BTreeMap::new(),
        });
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

/// Two components of 8 processors, one a site.
fn wide_job(mode: AcquisitionMode) -> JobSpec {
    let mut spec = build_job(&[8, 8], RUN_TIME, RUN_TIME + RUN_TIME, 0).unwrap();
    spec.run.acquisition.mode = mode;
    let max_hold = DurationMs::from_secs(120);
    spec.run.acquisition.limits = QueueTimeLimits {
        max_hold,
        ..QueueTimeLimits::default()
    };
    spec
}

async fn submit(plane_run: &ControlPlaneRun, spec: JobSpec) {
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

/// Runs a job through control planes that die at these times, for six hours at most.
fn run_job(environment: &SimEnvironment, spec: &JobSpec, deaths: &[u64], seed: u64) -> Arc<Job> {
    let mut deaths = deaths
        .iter()
        .map(|secs| BEGINS + DurationMs::from_secs(*secs));
    let mut begins = BEGINS;
    loop {
        let plan = RunPlan {
            killed_at: deaths.next(),
            ..RunPlan::undisturbed(begins, seed)
        };
        let spec = spec.clone();
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
            while !job().is_final() && plane_run.clock.now() < BEGINS + DurationMs(21_600_000) {
                plane_run
                    .sleep_until(plane_run.clock.now() + DurationMs::from_secs(1))
                    .await;
            }
            job()
        });
        match end.unwrap() {
            RunEnd::Done(_, job) => return job,
            RunEnd::Killed(at) => begins = at + DurationMs::from_secs(20),
        }
    }
}

/// When payloads began, and how many attempts were submitted.
fn starts_and_submissions(environment: &SimEnvironment) -> (Vec<Timestamp>, usize) {
    environment.world.read(|world| {
        let entries = world.ledger().entries();
        let began = entries
            .iter()
            .filter(|entry| entry.deed == WorldLedgerEvent::Began)
            .map(|entry| entry.at);
        (
            began.collect(),
            entries
                .iter()
                .filter(|entry: &&WorldLedgerEntry| {
                    matches!(entry.deed, WorldLedgerEvent::Submitted { .. })
                })
                .count(),
        )
    })
}

#[test]
fn a_job_that_waits_in_two_queues_starts_together_when_both_have_room() {
    let environment = environment_of_busy_sites([10, 30], 1);
    let job = run_job(&environment, &wide_job(AcquisitionMode::Auto), &[], 1);
    assert_eq!(job.phase.kind(), PhaseKind::Finished, "{job:?}");
    assert_eq!(job.round.0, 1, "it never lost its place");
    assert_eq!(job.setbacks, Default::default());
    let (began, submitted) = starts_and_submissions(&environment);
    assert!(
        began
            .iter()
            .all(|at| *at >= BEGINS + DurationMs(30 * 60_000)),
        "{began:?}"
    );
    let spread = began[1].since(began[0]);
    assert!(began.len() == 2 && spread < DurationMs(10_000), "{began:?}");
    assert!(
        submitted > 2,
        "the first gave back what it held for the other"
    );
    let seen = job.instants.started.unwrap().since(began[1]);
    assert!(
        seen < DurationMs::from_secs(7),
        "looked at as often as what never waited: {seen}"
    );
}

#[test]
fn a_job_for_idle_processors_only_never_waits_in_a_queue() {
    let environment = environment_of_busy_sites([10, 30], 2);
    let job = run_job(&environment, &wide_job(AcquisitionMode::Immediate), &[], 2);
    assert_eq!(job.phase.kind(), PhaseKind::Finished);
    assert_eq!(
        starts_and_submissions(&environment).1,
        2,
        "submitted when both had room"
    );
}

#[test]
fn what_waits_in_queues_lives_through_deaths_of_the_control_plane() {
    for seed in 1..=10_u64 {
        let environment = environment_of_busy_sites([10, 30], seed);
        let deaths: Vec<u64> = (1..=8).map(|death| death * 227 + seed * 13).collect();
        let job = run_job(
            &environment,
            &wide_job(AcquisitionMode::Queued),
            &deaths,
            seed,
        );
        assert_eq!(
            job.phase.kind(),
            PhaseKind::Finished,
            "seed {seed}: {job:?}"
        );
        let (began, _) = starts_and_submissions(&environment);
        assert!(began.len() % 2 == 0, "seed {seed}: {began:?}");
        assert_eq!(job.setbacks.site_errors, 0, "seed {seed}");
    }
}

/// By the real adapter of Slurm and its parsers, whatever the seed, and whenever they die.
#[test]
fn it_starts_together_where_sites_are_driven_by_the_adapter_of_slurm() {
    for seed in 1..=20_u64 {
        let environment = environment_of_busy_sites([10, 30], seed);
        environment
            .world
            .act_at(BEGINS, SimulatedWorld::drive_by_slurm);
        let deaths: Vec<u64> = (1..=seed % 8)
            .map(|death| death * 227 + seed * 13)
            .collect();
        let job = run_job(
            &environment,
            &wide_job(AcquisitionMode::Queued),
            &deaths,
            seed,
        );
        assert_eq!(
            job.phase.kind(),
            PhaseKind::Finished,
            "seed {seed}: {job:?}"
        );
        let (began, _) = starts_and_submissions(&environment);
        assert!(began.len() % 2 == 0, "seed {seed}: {began:?}");
        assert!(
            began[1].since(began[0]) < DurationMs(10_000),
            "seed {seed}: {began:?}"
        );
        assert_eq!(job.setbacks.site_errors, 0, "seed {seed}");
    }
}
