//! What is kept does not grow with time.

use std::collections::BTreeMap;

use anyhow::Result;
use cospan_actors::api::command::{ApiCommand, ApiRequest, JobSubmission};
use cospan_domain::ids::{Digest, IdempotencyKey, KeyName, SiteName};
use cospan_domain::job::job_state::SubmissionIdempotency;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_storage::record::keys;

use super::call_faults::{CallFaultModel, FaultRates};
use super::control_plane_run::{
    ControlPlaneRun, RunEnd, RunPlan, SimEnvironment, run_control_plane,
};
use super::jobs::build_shared_job;
use super::settings::default_settings;
use crate::world::batch::QueueDiscipline;
use crate::world::world_site::ClusterSpec;
use crate::world::{SimulatedWorld, WrapperDelays};
use crate::world_handle::WorldHandle;

const BEGINS: Timestamp = Timestamp(1_000_000_000);
const DAY: DurationMs = DurationMs(86_400_000);
const DAYS: usize = 30;
const JOBS_A_DAY: u64 = 12;

/// What is kept at the end of a day.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct DayEndCounts {
    live_jobs: usize,
    keys_but_archive: usize,
    attempts_at_sites: usize,
}

fn environment() -> SimEnvironment {
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
        1,
        BEGINS,
    );
    SimEnvironment {
        keeps_archive: true,
        ..SimEnvironment::new(
            world,
            CallFaultModel::new(FaultRates::default(), 1),
            default_settings(),
        )
    }
}

async fn submit(plane_run: &ControlPlaneRun, number: u64) {
    let key = IdempotencyKey::new(&format!("job-{number}")).unwrap();
    let idempotency = Some(SubmissionIdempotency {
        key,
        body: Digest([0; 32]),
    });
    let run_time = DurationMs::from_secs(600);
    let spec = build_shared_job(&[2, 3], run_time, run_time + run_time, 0).unwrap();
    let submission = JobSubmission {
        idempotency,
        ..JobSubmission::from_spec(spec)
    };
    let by = KeyName::new("alice").unwrap();
    let what = ApiRequest::Submit(vec![submission]);
    plane_run
        .plane
        .execute_command(ApiCommand { by, what })
        .await
        .unwrap();
}

fn day_end_counts(plane_run: &ControlPlaneRun, world: &WorldHandle) -> DayEndCounts {
    let all = plane_run.plane.scan_store(&[]).unwrap();
    let archived = |key: &[u8]| key.starts_with(keys::ARCHIVE);
    DayEndCounts {
        live_jobs: plane_run.plane.view().jobs.len(),
        keys_but_archive: all.iter().filter(|stored| !archived(&stored.key.0)).count(),
        attempts_at_sites: world.read(|world| {
            let sites = world
                .sites()
                .iter()
                .filter_map(|site| world.index_of(site.name()));
            sites.map(|site| world.list_attempts(site).len()).sum()
        }),
    }
}

#[test]
fn what_is_kept_is_the_same_after_thirty_days_as_after_three() {
    let environment = environment();
    let world = environment.world.clone();
    let plan = RunPlan::undisturbed(BEGINS, 1);
    let end: Result<RunEnd<Vec<DayEndCounts>>> =
        run_control_plane(&environment, plan, move |plane_run| async move {
            plane_run.sleep_until(BEGINS + DurationMs(1_000)).await;
            let mut days = Vec::new();
            for number in 0..DAYS as u64 * JOBS_A_DAY {
                let at = DurationMs(DAY.0 / JOBS_A_DAY * (number + 1));
                plane_run.sleep_until(BEGINS + at).await;
                submit(&plane_run, number).await;
                if number % JOBS_A_DAY == JOBS_A_DAY - 1 {
                    days.push(day_end_counts(&plane_run, &world));
                }
            }
            days
        });
    let RunEnd::Done(_, days) = end.unwrap() else {
        panic!("it was not to be killed")
    };
    let most = |days: &[DayEndCounts]| DayEndCounts {
        live_jobs: days.iter().map(|day| day.live_jobs).max().unwrap(),
        keys_but_archive: days.iter().map(|day| day.keys_but_archive).max().unwrap(),
        attempts_at_sites: days.iter().map(|day| day.attempts_at_sites).max().unwrap(),
    };
    let early = most(&days[3..10]);
    let late = most(&days[DAYS - 7..]);
    assert!(
        early.live_jobs >= JOBS_A_DAY as usize,
        "ended jobs are kept for a day: {early:?}"
    );
    assert_eq!(early, late);
}
