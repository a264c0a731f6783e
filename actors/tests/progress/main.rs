//! Progress must not depend on the fallback tick: here it is off, and sites
//! answer early, late and out of order, under a clock that jumps from timer to timer.

#[cfg(cospan_chaos)]
mod poisoned;
mod progress_site;
mod snatched;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use actix::System;
use cospan_actors::actor_settings::ActorSettings;
use cospan_actors::api::ControlPlane;
use cospan_actors::api::command::{ApiAnswer, ApiCommand, ApiRefusal, ApiRequest, JobSubmission};
use cospan_actors::clock::{Clock, RuntimeClock, SteadyClock};
use cospan_actors::metrics::ControlPlaneMetrics;
use cospan_actors::notifier::{NoticeSender, OutgoingNotice};
use cospan_actors::wiring::{ControlPlaneParts, report_channel, start_control_plane};
use cospan_domain::ids::{ComponentName, InstanceId, KeyName, SiteName};
use cospan_domain::job::job_state::{Job, JobPhase, PhaseKind};
use cospan_domain::job::spec::{
    ComponentSpec, ExecutableSource, JobSpec, Priority, Program, RequestType, UnreachableAction,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::Site;
use cospan_storage::memory::{self, MemoryDisk};
use cospan_storage::record::RecordLoader;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use self::progress_site::PromptSite;

/// Far more than the jobs take, by the world's clock.
const PATIENCE: Duration = Duration::from_secs(4 * 3_600);

/// What a run is like.
#[derive(Debug, Clone, Copy)]
struct Scenario {
    seed: u64,
    /// Sites tell when something changes there; otherwise they are only polled.
    hints: bool,
    /// The machine's clock is set by this half-way.
    step_ms: i64,
    /// Processors of each of two sites.
    processors: u32,
    jobs: usize,
    /// Longest pause between two submissions.
    pause_ms: u64,
}

impl Scenario {
    /// Jobs that queue for a few processors.
    fn crowded(seed: u64, hints: bool, step_ms: i64) -> Self {
        Self {
            seed,
            hints,
            step_ms,
            processors: 4,
            jobs: 60,
            pause_ms: 2_000,
        }
    }
}

struct Silent;

impl NoticeSender for Silent {
    fn send(&self, _: &str, _: OutgoingNotice) -> BoxFuture<'static, Result<(), String>> {
        async { Ok(()) }.boxed()
    }
}

fn settings() -> ActorSettings {
    ActorSettings {
        job: Default::default(),
        limits: Default::default(),
        default_policies: Default::default(),
        history_seed: Default::default(),
        quotas: Default::default(),
        powers: Default::default(),
        scores: Default::default(),
        queue: Default::default(),
        classes: Vec::new(),
        information_expiry: DurationMs::from_secs(15),
        information: Default::default(),
        site: Default::default(),
        contact: Default::default(),
        isolation_window: DurationMs::from_secs(60),
        poll_interval: DurationMs::from_secs(2),
        reconcile_interval: DurationMs::from_secs(300),
        submit_settle: BTreeMap::new(),
        transfer: Default::default(),
        bids: Default::default(),
        links: BTreeMap::new(),
        network: Default::default(),
        staging: BTreeMap::new(),
        calls_per_site: 8,
        keep_attempts: DurationMs::from_secs(36_000),
        keep_jobs: DurationMs::from_secs(360_000),
        job_memory: cospan_actors::actor_settings::JobMemoryLimits::UNBOUNDED,
        intake_bound: 64,
        webhooks: BTreeMap::new(),
        targets: Default::default(),
        tell_for: DurationMs::from_secs(86_400),
        fallback_tick: None,
    }
}

/// The clock of a machine, and how far somebody set it.
fn stepped_clock(inner: RuntimeClock, step_ms: Arc<AtomicI64>) -> SteadyClock {
    let ms = move || i64::try_from(inner.now().0).unwrap_or(i64::MAX);
    SteadyClock::new(
        Box::new(move || ms() + step_ms.load(Ordering::Relaxed)),
        Box::new(ms),
    )
}

fn plane(sites: Vec<Arc<dyn Site>>, clock: Arc<dyn Clock>, seed: u64) -> ControlPlane {
    let (sink, reports) = report_channel();
    let mut loader = RecordLoader::default();
    let instance = InstanceId::from_random(seed);
    let opened = memory::open_and_load(&MemoryDisk::default(), instance, sink, &mut |stored| {
        loader.take_stored_value(stored).expect("a record")
    });
    let opened = opened.expect("a store in memory");
    let parts = ControlPlaneParts {
        clock,
        seed,
        settings: settings(),
        instance: opened.instance,
        former: opened.former,
        epoch: opened.epoch,
        view: Default::default(),
        metrics: Arc::new(ControlPlaneMetrics::new(&prometheus::Registry::new()).expect("metrics")),
        sites,
        store: opened.journal,
        messenger: Arc::new(Silent),
        on_fatal: Box::new(|problem| panic!("{problem}")),
    };
    start_control_plane(parts, Vec::new(), reports)
}

/// A job of so many components of so many processors each.
fn job(components: usize, processors: u32) -> JobSubmission {
    let spec = JobSpec {
        name: None,
        request: RequestType::NonFixed,
        components: (0..components)
            .map(|index: usize| ComponentSpec {
                name: ComponentName::new(&format!("part-{index}")).expect("a name"),
                site: None,
                resources: Resources::processors(processors),
                constraints: Vec::new(),
                program: Program {
                    executable: ExecutableSource::AtSite("true".into()),
                    arguments: Vec::new(),
                    environment: BTreeMap::new(),
                    directory: None,
                    setup: Vec::new(),
                }
                .into(),
                inputs: Vec::new(),
                outputs: Vec::new(),
                at: BTreeMap::new(),
                restart: None,
                start_after: DurationMs::ZERO,
            })
            .collect(),
        policy: None,
        priority: Priority::Low,
        wall_time: DurationMs::from_secs(60),
        rerunnable: true,
        on_unreachable: UnreachableAction::Wait,
        max_placement_tries: None,
        max_claim_tries: None,
        max_retries: 0,
        run: Default::default(),
    };
    JobSubmission {
        allow_unplaceable: true,
        ..JobSubmission::from_spec(Arc::new(spec))
    }
}

fn unfinished(plane: &ControlPlane) -> Vec<Arc<Job>> {
    let view = plane.view();
    let unfinished = view
        .jobs
        .values()
        .filter(|job| job.phase.kind() != PhaseKind::Finished);
    unfinished.cloned().collect()
}

fn prompt_site(name: &str, clock: RuntimeClock, processors: u32, seed: u64) -> PromptSite {
    PromptSite {
        name: SiteName::new(name).expect("a site's name"),
        clock,
        processors,
        attempts: Mutex::default(),
        chance: Mutex::new(StdRng::seed_from_u64(seed)),
        hints: None,
        snatched: None,
    }
}

/// While no job waits, nobody asks the sites.
#[test]
fn what_sites_said_long_ago_is_asked_for_again_before_somebody_relies_on_it() {
    under_paused_time(async {
        let clock = RuntimeClock::starting_at(Timestamp(100_000_000));
        let sites: Vec<Arc<dyn Site>> = vec![Arc::new(prompt_site("delft", clock, 4, 1))];
        let plane = plane(sites, Arc::new(clock), 1);
        let asked_at = || {
            let site = &plane.list_sites()[0];
            site.report.idle.as_ref().map(|(at, _)| *at)
        };
        while asked_at().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let before = plane.now();
        assert!(before.since(asked_at().unwrap()) > settings().information_expiry);
        plane.await_current_reports(Duration::from_secs(60)).await;
        let fresh = asked_at().unwrap();
        assert!(fresh >= before, "{fresh:?} {before:?}");
        let now = plane.now();
        plane.await_current_reports(Duration::from_secs(60)).await;
        assert_eq!(
            (plane.now(), asked_at()),
            (now, Some(fresh)),
            "nothing to wait for"
        );
    });
}

/// Runs jobs to their end; how long each took, in milliseconds.
async fn live(scenario: Scenario) -> Vec<u64> {
    let Scenario {
        seed, processors, ..
    } = scenario;
    let clock = RuntimeClock::starting_at(Timestamp(100_000_000));
    let site = |name: &str, seed: u64| -> Arc<dyn Site> {
        let hints = scenario.hints.then(|| tokio::sync::watch::Sender::new(0));
        Arc::new(PromptSite {
            hints,
            ..prompt_site(name, clock, processors, seed)
        })
    };
    let stepped = Arc::new(AtomicI64::new(0));
    let sites = vec![site("delft", seed), site("leiden", seed + 1_000)];
    let plane = plane(sites, Arc::new(stepped_clock(clock, stepped.clone())), seed);
    while !plane.is_ready() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut chance = StdRng::seed_from_u64(seed + 2_000);
    for number in 0..scenario.jobs {
        if number == scenario.jobs / 2 {
            stepped.store(scenario.step_ms, Ordering::Relaxed);
        }
        let submission = job(chance.random_range(1..=2), chance.random_range(1..=4));
        submit(&plane, submission).await;
        tokio::time::sleep(Duration::from_millis(
            chance.random_range(0..=scenario.pause_ms),
        ))
        .await;
    }
    let begun = tokio::time::Instant::now();
    let mut calls = 0;
    while !unfinished(&plane).is_empty() {
        calls = calls.max(depth(&plane, "cluster"));
        let stuck = || {
            unfinished(&plane)
                .first()
                .map(|job| (job.id, job.phase.clone()))
        };
        assert!(
            begun.elapsed() < PATIENCE,
            "{scenario:?}: {:?} makes no progress",
            stuck()
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(plane.view().is_derived_state_correct());
    assert!(
        calls > 0,
        "calls to sites that are under way are not counted"
    );
    for actor in [
        "intake",
        "journal",
        "co-allocator",
        "claimer",
        "cluster",
        "information",
        "notifier",
    ] {
        assert_eq!(
            depth(&plane, actor),
            0,
            "{actor} has nothing to do any more"
        );
    }
    let view = plane.view();
    view.jobs.values().filter_map(|job| took_ms(job)).collect()
}

/// What an actor has taken in and not finished.
fn depth(plane: &ControlPlane, actor: &str) -> i64 {
    plane
        .shared()
        .metrics
        .mailbox_depth
        .with_label_values(&[actor])
        .get()
}

/// Submits until it is accepted: an intake that is being rebuilt says to come back.
async fn submit(plane: &ControlPlane, submission: JobSubmission) {
    loop {
        let by = KeyName::new("alice").expect("a key's name");
        let command = ApiCommand {
            by,
            what: ApiRequest::Submit(vec![submission.clone()]),
        };
        match plane.execute_command(command).await {
            Ok(answer) => return assert!(matches!(answer, ApiAnswer::Submitted(_))),
            Err(ApiRefusal::Busy { .. }) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(refusal) => panic!("{refusal:?}"),
        }
    }
}

fn took_ms(job: &Job) -> Option<u64> {
    match job.phase {
        JobPhase::Finished { at } => Some(at.since(job.submitted_at).0),
        _ => None,
    }
}

fn under_paused_time<T: 'static>(test: impl Future<Output = T> + 'static) -> T {
    let ended = System::with_tokio_rt(|| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime")
    })
    .block_on(async { actix_rt::spawn(test).await });
    ended.unwrap_or_else(|problem| std::panic::resume_unwind(problem.into_panic()))
}

fn all_finish(scenario: Scenario) {
    let _unplanted = unplanted();
    assert_eq!(under_paused_time(live(scenario)).len(), scenario.jobs);
}

#[test]
fn all_jobs_finish_without_the_tick_at_sites_that_hint() {
    (0..10).for_each(|seed| all_finish(Scenario::crowded(seed, true, 0)));
}

#[test]
fn all_jobs_finish_without_the_tick_at_sites_that_are_only_polled() {
    (0..10).for_each(|seed| all_finish(Scenario::crowded(seed, false, 0)));
}

#[test]
fn a_clock_that_is_set_by_an_hour_loses_and_stops_nothing() {
    const HOUR_MS: i64 = 3_600_000;
    for seed in 0..5 {
        for (hints, step_ms) in [
            (true, HOUR_MS),
            (true, -HOUR_MS),
            (false, HOUR_MS),
            (false, -HOUR_MS),
        ] {
            all_finish(Scenario::crowded(seed, hints, step_ms));
        }
    }
}

/// What is planted strikes every control plane of the process: who plants is alone, and whoever
/// must be spared holds this.
static PLANTS: RwLock<()> = RwLock::new(());

/// Nobody plants anything as long as it is held.
fn unplanted() -> RwLockReadGuard<'static, ()> {
    PLANTS.read().unwrap_or_else(PoisonError::into_inner)
}

/// What is planted as long as it is held strikes nobody else.
#[cfg(cospan_chaos)]
fn alone() -> std::sync::RwLockWriteGuard<'static, ()> {
    PLANTS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Needs a build with planted faults; see the chapter on testing in the book.
#[cfg(cospan_chaos)]
#[test]
fn a_panic_moves_the_latency_of_other_jobs_by_less_than_a_tenth() {
    let _alone = alone();
    let scenario = Scenario {
        seed: 1,
        hints: true,
        step_ms: 0,
        processors: 400,
        jobs: 50,
        pause_ms: 0,
    };
    let struck = Arc::new(AtomicI64::new(0));
    let count = struck.clone();
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>();
        if text.is_some_and(|text| text.starts_with("planted panic")) {
            _ = count.fetch_add(1, Ordering::Relaxed)
        } else {
            tell(panic)
        }
    }));
    let run = |plan: &str| {
        cospan_actors::chaos::load_plan(plan, None).expect("a plan");
        let mut took = under_paused_time(live(scenario));
        // The job whose actor died may take longer; it is the slowest then.
        took.sort_unstable();
        took.truncate(scenario.jobs - 1);
        took.iter().sum::<u64>() as f64 / took.len() as f64
    };
    let undisturbed = run("");
    let mut moved = Vec::new();
    for point in [
        "handler-entry",
        "decided",
        "started",
        "spawned-future",
        "factory",
    ] {
        for passage in [15, 30, 45] {
            let before = struck.load(Ordering::Relaxed);
            let plan = format!("panic:{point}::{passage}");
            moved.push((run(&plan) / undisturbed, plan));
            assert_eq!(
                struck.load(Ordering::Relaxed),
                before + 1,
                "not struck once: {moved:?}"
            );
        }
    }
    assert!(
        moved.iter().all(|(ratio, _)| (ratio - 1.0).abs() < 0.1),
        "{moved:#?}"
    );
    cospan_actors::chaos::load_plan("", None).expect("no plan");
}
