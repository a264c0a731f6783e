//! The starts that `explain` tells of jobs that wait, against those that come: five kinds of load,
//! two hundred jobs waiting in each.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_actors::api::command::{ApiCommand, ApiRequest, JobSubmission};
use cospan_actors::coallocator::StartEstimate;
use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, JobId, KeyName, LogicalName, RelPath, SiteName};
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::job::spec::{FileReference, InputSpec, JobSpec};
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::call_faults::{CallFaultModel, FaultRates};
use super::control_plane_run::{
    ControlPlaneRun, RunEnd, RunPlan, SimEnvironment, run_control_plane,
};
use super::jobs::build_job;
use super::settings::default_settings;
use crate::world::batch::QueueDiscipline;
use crate::world::world_site::ClusterSpec;
use crate::world::{LinkSpec, SimulatedWorld, WrapperDelays};

const BEGINS: Timestamp = Timestamp(1_000_000_000);
const MINUTE: DurationMs = DurationMs::from_secs(60);
const LINK: BitsPerSecond = BitsPerSecond(100_000_000);
/// Jobs that still wait when they are explained.
const WAITING: usize = 200;
/// Of these, every so many is explained.
const EACH: usize = 5;
/// The most by which half of the estimates may be off, in percent of the wait.
const MEDIAN_MAX: u64 = 30;

/// A job of a load, with the key that submits it.
type OwnedJob = (&'static str, JobSpec);

fn environment() -> SimEnvironment {
    let file = Content {
        digest: Digest([7; 32]),
        size: Bytes(1_000_000_000),
    };
    let sites = [("delft", 8), ("leiden", 16), ("utrecht", 8)].map(|(name, nodes)| ClusterSpec {
        name: SiteName::new(name).unwrap(),
        nodes,
        processors_per_node: 1,
        discipline: QueueDiscipline::Easy,
        local_jobs: Vec::new(),
        queues: false,
        reserves: false,
        files: if name == "delft" {
            BTreeMap::from([(RelPath::new("genome").unwrap(), file)])
        } else {
            BTreeMap::new()
        },
    });
    let names = sites.clone().map(|site| site.name);
    let mut links = Vec::new();
    let mut settings = default_settings();
    for from in &names {
        for to in names.iter().filter(|to| *to != from) {
            settings.links.insert((from.clone(), to.clone()), LINK);
            links.push(LinkSpec {
                from: from.clone(),
                to: to.clone(),
                bandwidth: LINK,
                latency: DurationMs(10),
            });
        }
    }
    let world = SimulatedWorld::new(sites.into(), &links, WrapperDelays::default(), 1, BEGINS);
    // Without it a claim and the answer that cannot count it yet would come at one time.
    let rates = FaultRates {
        way_max: DurationMs(50),
        ..FaultRates::default()
    };
    let calls = CallFaultModel::new(rates, 1);
    SimEnvironment::new(world, calls, settings)
}

fn seconds(count: u64) -> DurationMs {
    DurationMs::from_secs(count)
}

fn job_of(components: &[u32], runs: u64, says: DurationMs) -> JobSpec {
    build_job(components, seconds(runs), says, 0).unwrap()
}

/// Many of five seconds, whose users ask for a minute.
fn short_jobs() -> Vec<OwnedJob> {
    let job = job_of(&[1], 5, MINUTE);
    vec![("alice", job); WAITING + 90]
}

/// Jobs that take a twentieth to a half of what their users ask for.
fn overestimated_jobs(chance: &mut StdRng) -> Vec<OwnedJob> {
    let draw = |_| {
        let processors = chance.random_range(1..=4);
        let runs = chance.random_range(60..=600);
        ("alice", job_of(&[processors], runs, seconds(1_200)))
    };
    (0..WAITING + 100).map(draw).collect()
}

/// Jobs of many sizes: small ones overtake large ones.
fn jobs_of_many_sizes(chance: &mut StdRng) -> Vec<OwnedJob> {
    let draw = |_| {
        let processors = [1, 2, 4, 8, 12][chance.random_range(0..5)];
        let runs = chance.random_range(30..=300);
        ("alice", job_of(&[processors], runs, seconds(runs * 2)))
    };
    (0..WAITING + 100).map(draw).collect()
}

/// Jobs whose components start together.
fn jobs_of_two_components(chance: &mut StdRng) -> Vec<OwnedJob> {
    let draw = |_| {
        let runs = chance.random_range(60..=180);
        ("alice", job_of(&[4, 4], runs, seconds(600)))
    };
    (0..WAITING + 60).map(draw).collect()
}

/// Jobs of two users who ask for as much time, and all read one file that lies at one site.
fn jobs_that_share_a_file(chance: &mut StdRng) -> Vec<OwnedJob> {
    let draw = |_| {
        let (owner, runs) = match chance.random_range(0..3) {
            0 => ("bob", 200),
            _ => ("alice", 20),
        };
        let mut job = job_of(&[2], runs, seconds(900));
        job.components[0].inputs.push(InputSpec {
            file: FileReference {
                name: LogicalName::new("genome").unwrap(),
                bound: None,
            },
            path: RelPath::new("input").unwrap(),
            feed: Default::default(),
        });
        (owner, job)
    };
    (0..WAITING + 100).map(draw).collect()
}

async fn send_request(plane_run: &ControlPlaneRun, by: &str, what: ApiRequest) {
    let by = KeyName::new(by).unwrap();
    let answer = plane_run
        .plane
        .execute_command(ApiCommand { by, what })
        .await;
    answer.expect("nothing is refused");
}

fn jobs_in_view(plane_run: &ControlPlaneRun) -> Vec<Arc<Job>> {
    plane_run.plane.view().jobs.values().cloned().collect()
}

fn waits(job: &&Arc<Job>) -> bool {
    matches!(job.phase, JobPhase::Queued { .. })
}

/// Submits the jobs, and explains some of them once so many wait. Returns the share of its wait by
/// which the estimate of each is off, in percent, in order.
fn errors_of_estimates(load: Vec<OwnedJob>) -> Vec<u64> {
    let plan = RunPlan::undisturbed(BEGINS, 1);
    let end = run_control_plane(&environment(), plan, move |plane_run| async move {
        plane_run.sleep_until(BEGINS + MINUTE).await;
        let file = ApiRequest::AddFile {
            name: LogicalName::new("genome").unwrap(),
            site: SiteName::new("delft").unwrap(),
            path: RelPath::new("genome").unwrap(),
            replace: false,
            reaches_all: false,
        };
        send_request(&plane_run, "alice", file).await;
        for (owner, spec) in load {
            let what = ApiRequest::Submit(vec![JobSubmission::from_spec(Arc::new(spec))]);
            send_request(&plane_run, owner, what).await;
            let soon = plane_run.clock.now() + DurationMs(20);
            plane_run.sleep_until(soon).await;
        }
        while jobs_in_view(&plane_run).iter().filter(waits).count() > WAITING {
            let soon = plane_run.clock.now() + DurationMs(500);
            plane_run.sleep_until(soon).await;
        }
        let asked = plane_run.clock.now();
        let waiting: Vec<Arc<Job>> = jobs_in_view(&plane_run)
            .iter()
            .filter(waits)
            .cloned()
            .collect();
        let told: BTreeMap<JobId, Timestamp> = waiting
            .iter()
            .step_by(EACH)
            .map(|job| {
                (
                    job.id,
                    expected_start(plane_run.plane.explain_job(job).estimate),
                )
            })
            .collect();
        while jobs_in_view(&plane_run).iter().any(|job| !job.is_final()) {
            let later = plane_run.clock.now() + MINUTE;
            plane_run.sleep_until(later).await;
        }
        let view = plane_run.plane.view();
        let off = told.iter().map(|(id, told)| {
            let started = view.jobs[id].instants.started.expect("it started");
            let wait = started.since(asked).0.max(1);
            100 * told.0.abs_diff(started.0) / wait
        });
        let mut off: Vec<u64> = off.collect();
        off.sort_unstable();
        off
    });
    match end.unwrap() {
        RunEnd::Done(_, off) => off,
        RunEnd::Killed(at) => panic!("it ended by itself at {}", at.0),
    }
}

fn expected_start(estimate: StartEstimate) -> Timestamp {
    match estimate {
        StartEstimate::Within { expected, .. } => expected,
        other => panic!("no estimate: {other:?}"),
    }
}

#[test]
fn half_of_the_estimates_are_off_by_less_than_a_third_of_the_wait() {
    let mut chance = StdRng::seed_from_u64(43);
    let loads = [
        ("short jobs", short_jobs()),
        ("overestimated jobs", overestimated_jobs(&mut chance)),
        ("jobs of many sizes", jobs_of_many_sizes(&mut chance)),
        (
            "jobs of two components",
            jobs_of_two_components(&mut chance),
        ),
        (
            "jobs that share a file",
            jobs_that_share_a_file(&mut chance),
        ),
    ];
    let mut medians = Vec::new();
    for (kind, load) in loads {
        let off = errors_of_estimates(load);
        let median = off[off.len() / 2];
        let nine_tenths = off[off.len() * 9 / 10];
        println!("{kind}: off by {median} % of the wait, nine tenths by {nine_tenths} % at most");
        medians.push((kind, median));
    }
    let bad: Vec<_> = medians
        .iter()
        .filter(|(_, median)| *median > MEDIAN_MAX)
        .collect();
    assert!(
        bad.is_empty(),
        "off by so many percent of the wait: {medians:?}"
    );
}
