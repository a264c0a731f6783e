//! A sweep with a limit, under control planes that die: the limit holds at every moment,
//! every run comes to its end, and whoever was to be told of it was.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use cospan_actors::api::CommittedView;
use cospan_actors::api::command::{ApiCommand, ApiRequest, JobSubmission};
use cospan_domain::ids::{Digest, IdempotencyKey, KeyName, RunnerName, SiteName, TargetName};
use cospan_domain::job::job_state::{JobPhase, PhaseKind, SubmissionIdempotency};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::runner::{JobDescription, Sweep, SweepSource};
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use tokio::sync::broadcast::error::RecvError;

use super::call_faults::{CallFaultModel, FaultRates};
use super::control_plane_run::{
    ControlPlaneRun, RunEnd, RunPlan, SimEnvironment, run_control_plane,
};
use super::jobs::build_job;
use super::settings::default_settings;
use crate::world::batch::QueueDiscipline;
use crate::world::world_site::ClusterSpec;
use crate::world::{SimulatedWorld, WrapperDelays};

const BEGINS: Timestamp = Timestamp(1_000_000_000);
const RUNS: usize = 9;
const LIMIT: usize = 2;
const RUN_TIME: DurationMs = DurationMs(100_000);

fn environment(seed: u64) -> SimEnvironment {
    let world = SimulatedWorld::new(
        ["delft", "leiden"]
            .map(|name: &str| ClusterSpec {
                name: SiteName::new(name).unwrap(),
                nodes: 8,
                processors_per_node: 1,
                discipline: QueueDiscipline::Easy,
                local_jobs: Vec::new(),
                queues: false,
                reserves: false,
                files: BTreeMap::new(),
            })
            .into(),
        &[],
        WrapperDelays::default(),
        seed,
        BEGINS,
    );
    let mut settings = default_settings();
    settings.targets = [(TargetName::new("team").unwrap(), "team".into())].into();
    SimEnvironment::new(
        world,
        CallFaultModel::new(FaultRates::default(), seed),
        settings,
    )
}

fn sweep_jobs() -> Vec<JobSpec> {
    let mut spec = build_job(&[1, 2], RUN_TIME, RUN_TIME + RUN_TIME, 0).unwrap();
    spec.run.runner = RunnerName::new("sweep").ok();
    spec.run.notify = [TargetName::new("team").unwrap()].into();
    let over = SweepSource::Array(format!("1-{RUNS}").parse().unwrap());
    let sweep = Some(Sweep {
        over,
        at_once: Some(LIMIT as u32),
    });
    JobDescription {
        spec,
        sweep,
        max_tasks: RUNS,
        max_bytes: Bytes(u64::MAX),
    }
    .into_jobs()
    .unwrap()
}

/// Submits the sweep; under its name it is accepted once, however often it is submitted.
async fn submit_sweep(plane_run: &ControlPlaneRun) {
    let submissions = sweep_jobs().into_iter().enumerate().map(|(index, spec)| {
        let key = IdempotencyKey::new(&format!("sweep.{index}")).unwrap();
        let idempotency = Some(SubmissionIdempotency {
            key,
            body: Digest([0; 32]),
        });
        JobSubmission {
            idempotency,
            ..JobSubmission::from_spec(Arc::new(spec))
        }
    });
    let by = KeyName::new("alice").unwrap();
    let what = ApiRequest::Submit(submissions.collect());
    plane_run
        .plane
        .execute_command(ApiCommand { by, what })
        .await
        .unwrap();
}

fn count_active(view: &CommittedView) -> usize {
    let busy = |phase: &JobPhase| !phase.kind().is_final() && phase.kind() != PhaseKind::Queued;
    view.jobs.values().filter(|job| busy(&job.phase)).count()
}

/// Watches every change until all has ended and been told; the most runs that were active.
async fn watch_sweep(plane_run: &ControlPlaneRun, most: &Cell<usize>) {
    let mut changes = plane_run.plane.subscribe_to_changes();
    loop {
        let view = plane_run.plane.view();
        assert!(
            count_active(&view) <= LIMIT,
            "{} runs at once",
            count_active(&view)
        );
        most.set(most.get().max(count_active(&view)));
        let ended = view.jobs.values().filter(|job| job.is_final()).count();
        if ended == RUNS && view.untold.is_empty() {
            return;
        }
        if let Err(RecvError::Closed) = changes.recv().await {
            // The control plane is dead; so are we in a moment.
            std::future::pending::<()>().await;
        }
    }
}

#[test]
fn a_sweep_keeps_its_limit_and_comes_to_its_end_though_control_planes_die() {
    for seed in 1..=12_u64 {
        let environment = environment(seed);
        let most = Rc::new(Cell::new(0));
        let mut begins = BEGINS;
        let mut deaths = (1..=4).map(|death| BEGINS + DurationMs(death * seed * 7_919 + 2_000));
        loop {
            let killed_at = deaths.next();
            let plan = RunPlan {
                killed_at,
                ..RunPlan::undisturbed(begins, seed)
            };
            let seen = most.clone();
            let end = run_control_plane(&environment, plan, move |plane_run| async move {
                while !plane_run.plane.is_ready() {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                submit_sweep(&plane_run).await;
                watch_sweep(&plane_run, &seen).await;
                let view = plane_run.plane.view();
                let first = view.jobs.keys().next().copied();
                for job in view.jobs.values() {
                    let task = job.spec.run.task.as_ref().unwrap();
                    assert_eq!(
                        (job.phase.kind(), Some(task.group)),
                        (PhaseKind::Finished, first)
                    );
                    assert_eq!(job.told.len(), 1);
                }
            });
            match end.unwrap() {
                RunEnd::Done(..) => break,
                RunEnd::Killed(at) => begins = at + DurationMs(1_000),
            }
        }
        assert_eq!(most.get(), LIMIT, "the limit is used (seed {seed})");
    }
}
