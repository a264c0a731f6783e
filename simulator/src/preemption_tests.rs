//! Jobs that give way: they end first, then their processors are claimed; and none ends in vain.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_actors::api::command::{ApiCommand, ApiRequest, JobSubmission};
use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, JobId, KeyName, LogicalName, RelPath, SiteName};
use cospan_domain::job::job_state::{Job, PhaseKind};
use cospan_domain::job::spec::{FileReference, InputSpec, JobSpec, Priority, RequestType};
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, PerMillion, Timestamp};

use super::call_faults::{CallFaultModel, FaultRates};
use super::control_plane_run::{
    ControlPlaneRun, RunEnd, RunPlan, SimEnvironment, run_control_plane,
};
use super::jobs::build_job;
use super::settings::default_settings;
use crate::world::batch::QueueDiscipline;
use crate::world::world_history::WorldLedgerEvent;
use crate::world::world_site::{ClusterSpec, LocalJob};
use crate::world::{LinkSpec, SimulatedWorld, WrapperDelays};

const BEGINS: Timestamp = Timestamp(1_000_000_000);
const MINUTE: DurationMs = DurationMs::from_secs(60);
const HOUR: DurationMs = DurationMs::from_secs(3_600);
/// A file comes in 80 s from where it lies, and with L = 0.75 processors are claimed after 60 s.
const LINK: BitsPerSecond = BitsPerSecond(100_000_000);
const VICTIM: JobId = JobId(1);
const PREEMPTING: JobId = JobId(2);

/// Two sites of 8 processors, and one that only has a file. Local users take these processors once
/// the job that preempts is placed.
fn environment(local_processors: [u32; 2]) -> SimEnvironment {
    let file = Content {
        digest: Digest([7; 32]),
        size: Bytes(1_000_000_000),
    };
    let [delft, leiden] = local_processors;
    let sites = [("delft", 8, delft), ("leiden", 8, leiden), ("store", 1, 1)];
    let sites = sites.map(|(name, nodes, processors)| ClusterSpec {
        name: SiteName::new(name).unwrap(),
        nodes,
        processors_per_node: 1,
        discipline: QueueDiscipline::Easy,
        local_jobs: Vec::from_iter((processors > 0).then_some(LocalJob {
            at: BEGINS + DurationMs(2 * MINUTE.0 + 20_000),
            processors,
            run_time: HOUR,
            estimate: HOUR,
        })),
        queues: false,
        reserves: false,
        files: BTreeMap::from_iter(
            (name == "store").then(|| (RelPath::new("genome").unwrap(), file)),
        ),
    });
    let mut settings = default_settings();
    settings.job.claim.threshold = PerMillion(0);
    let mut links = Vec::new();
    let from = SiteName::new("store").unwrap();
    for to in ["delft", "leiden"] {
        let to = SiteName::new(to).unwrap();
        settings.links.insert((from.clone(), to.clone()), LINK);
        links.push(LinkSpec {
            from: from.clone(),
            to,
            bandwidth: LINK,
            latency: DurationMs(10),
        });
    }
    let world = SimulatedWorld::new(sites.into(), &links, WrapperDelays::default(), 1, BEGINS);
    let calls = CallFaultModel::new(FaultRates::default(), 1);
    SimEnvironment::new(world, calls, settings)
}

/// A job whose components stay at the sites that they name.
fn fixed_job(priority: Priority, parts: &[(&str, u32)]) -> JobSpec {
    let sizes: Vec<u32> = parts.iter().map(|(_, size)| *size).collect();
    let mut spec = build_job(&sizes, HOUR, HOUR, 0).unwrap();
    spec.request = RequestType::Fixed;
    spec.priority = priority;
    for (component, (site, _)) in spec.components.iter_mut().zip(parts) {
        component.site = Some(SiteName::new(site).unwrap());
    }
    spec
}

fn with_input(mut spec: JobSpec) -> JobSpec {
    for component in &mut spec.components {
        component.inputs.push(InputSpec {
            file: FileReference {
                name: LogicalName::new("genome").unwrap(),
                bound: None,
            },
            path: RelPath::new("input").unwrap(),
            feed: Default::default(),
        });
    }
    spec
}

async fn send_request(plane_run: &ControlPlaneRun, what: ApiRequest) {
    let by = KeyName::new("alice").unwrap();
    let answer = plane_run
        .plane
        .execute_command(ApiCommand { by, what })
        .await;
    answer.expect("nothing is refused");
}

async fn submit(plane_run: &ControlPlaneRun, spec: JobSpec) {
    let what = ApiRequest::Submit(vec![JobSubmission::from_spec(Arc::new(spec))]);
    send_request(plane_run, what).await;
}

/// Has a job of low priority run, then places another of high priority, and looks at both ten
/// minutes later.
fn run_both(environment: &SimEnvironment, low: JobSpec, high: JobSpec) -> [Arc<Job>; 2] {
    let plan = RunPlan::undisturbed(BEGINS, 1);
    let end = run_control_plane(environment, plan, move |plane_run| async move {
        plane_run.sleep_until(BEGINS + MINUTE).await;
        let file = ApiRequest::AddFile {
            name: LogicalName::new("genome").unwrap(),
            site: SiteName::new("store").unwrap(),
            path: RelPath::new("genome").unwrap(),
            replace: false,
            reaches_all: false,
        };
        send_request(&plane_run, file).await;
        submit(&plane_run, low).await;
        plane_run
            .sleep_until(BEGINS + DurationMs(2 * MINUTE.0))
            .await;
        submit(&plane_run, high).await;
        plane_run
            .sleep_until(BEGINS + DurationMs(12 * MINUTE.0))
            .await;
        let view = plane_run.plane.view();
        [VICTIM, PREEMPTING].map(|job| view.jobs[&job].clone())
    });
    match end.unwrap() {
        RunEnd::Done(_, jobs) => jobs,
        RunEnd::Killed(at) => panic!("it ended by itself at {}", at.0),
    }
}

/// The times of the world's events that are wanted, of a job.
fn times_of(
    environment: &SimEnvironment,
    job: JobId,
    wanted: fn(&WorldLedgerEvent) -> bool,
) -> Vec<Timestamp> {
    environment.world.read(|world| {
        let entries = world.ledger().entries().iter();
        let found = entries.filter(|entry| entry.tag.job == job && wanted(&entry.deed));
        found.map(|entry| entry.at).collect()
    })
}

#[test]
fn processors_are_claimed_once_whoever_gives_way_has_ended() {
    let environment = environment([4, 0]);
    let low = fixed_job(Priority::Low, &[("delft", 4)]);
    let high = with_input(fixed_job(Priority::High, &[("delft", 4)]));
    let [low, high] = run_both(&environment, low, high);
    assert_eq!(low.setbacks.preemptions, 1);
    assert_eq!(high.phase.kind(), PhaseKind::Running, "{high:?}");
    let is_submission =
        |deed: &WorldLedgerEvent| matches!(deed, WorldLedgerEvent::Submitted { .. });
    let submitted = times_of(&environment, PREEMPTING, is_submission);
    let left = times_of(&environment, VICTIM, |deed| *deed == WorldLedgerEvent::Left);
    assert_eq!(submitted.len(), 1, "its claim was lost");
    assert!(
        left.first().is_some_and(|left| *left <= submitted[0]),
        "claimed at {submitted:?}, when the other went at {left:?}"
    );
    assert_eq!((high.setbacks.claims, high.setbacks.rounds), (0, 0));
}

#[test]
fn nobody_gives_way_to_a_job_that_cannot_start_even_so() {
    let environment = environment([4, 8]);
    let low = fixed_job(Priority::Low, &[("delft", 4)]);
    let high = with_input(fixed_job(Priority::High, &[("delft", 4), ("leiden", 4)]));
    let [low, high] = run_both(&environment, low, high);
    assert!(high.setbacks.claims > 0, "it was not tried: {high:?}");
    assert_eq!(low.setbacks.preemptions, 0, "it gave way for nothing");
    assert_eq!(low.phase.kind(), PhaseKind::Running);
}
