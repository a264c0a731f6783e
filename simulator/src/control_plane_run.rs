//! Runs a control plane over the world: from its start until it is killed or stopped. The next run
//! finds what this one left in its store and at the sites.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix::System;
use anyhow::{Result, anyhow};
use cospan_actors::actor_settings::ActorSettings;
use cospan_actors::api::ControlPlane;
use cospan_actors::clock::Clock;
use cospan_actors::journal::view_of_records;
use cospan_actors::metrics::ControlPlaneMetrics;
use cospan_actors::notifier::{NoticeSender, OutgoingNotice};
use cospan_actors::supervision::ActorKind;
use cospan_actors::wiring::{ControlPlaneParts, report_channel, start_control_plane};
use cospan_domain::ids::{InstanceId, JobId};
use cospan_domain::job::job_state::Job;
use cospan_domain::units::Timestamp;
use cospan_sites::port::Site;
use cospan_storage::port::StoreError;
use cospan_storage::record::RecordLoader;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::actor_lives::{self, ActorLives, RecordedActorEvent};
use super::call_faults::CallFaultModel;
use super::clock::{WorldClock, count_runtime_rest};
use super::fault_kinds::FaultKind;
use super::journal::{KillableJournal, SimulatedDisk, StoreDisk};
use super::journal_hash::EventHash;
use super::kill_switch::{KillPoint, KillSwitch};
use super::panics::{self, PanicRates};
use super::site::SimulatedSite;
use super::slurm_site::SimulatedSlurmSite;
use super::stalls::{self, StallSettings, StallingControlPlane};
use super::world_handle::WorldHandle;
use crate::world::SimulatedWorld;

/// Turns that the runtime makes after a death.
const LAST_TURNS: usize = 8;

/// The environment that outlives a control plane.
#[derive(Clone)]
pub struct SimEnvironment {
    pub world: Arc<WorldHandle>,
    /// The disk of the store.
    pub disk: StoreDisk,
    /// Faults of calls.
    pub call_faults: Arc<CallFaultModel>,
    /// Hash of everything that became durable.
    pub hash: Arc<EventHash>,
    /// Settings of every control plane.
    pub settings: ActorSettings,
    /// True if sites send hints about changes.
    pub hints: bool,
    /// Lives and deaths of actors.
    pub lives: Arc<ActorLives>,
    /// True if the disk keeps archived records; otherwise nobody may read them.
    pub keeps_archive: bool,
}

impl SimEnvironment {
    /// Makes an environment with a world whose sites send hints about changes, and an empty disk
    /// that keeps no archive.
    pub fn new(
        world: SimulatedWorld,
        call_faults: CallFaultModel,
        settings: ActorSettings,
    ) -> Self {
        Self {
            world: WorldHandle::new(world),
            disk: StoreDisk::default(),
            call_faults: Arc::new(call_faults),
            hash: Arc::default(),
            settings,
            hints: true,
            lives: Arc::default(),
            keeps_archive: false,
        }
    }
}

/// The plan of one run of the control plane.
#[derive(Debug, Clone, Copy)]
pub struct RunPlan {
    /// Start of the run.
    pub begins: Timestamp,
    /// Time at which the run is killed at the latest, unless its work ends before.
    pub killed_at: Option<Timestamp>,
    /// The action of the control plane at which it is killed.
    pub moment: Option<KillPoint>,
    /// Seed of its random numbers.
    pub seed: u64,
    /// Milliseconds by which its machine's clock is ahead of the true time; negative: behind.
    pub clock_ahead_ms: i64,
    /// Frequency with which its actors panic.
    pub panics: Option<PanicRates>,
    /// Frequency with which its actors stall.
    pub stalls: Option<StallSettings>,
}

impl RunPlan {
    /// Makes a plan without faults.
    pub fn undisturbed(begins: Timestamp, seed: u64) -> Self {
        Self {
            begins,
            killed_at: None,
            moment: None,
            seed,
            clock_ahead_ms: 0,
            panics: None,
            stalls: None,
        }
    }
}

/// The end of a run of the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd<T> {
    /// The work was done at this time.
    Done(Timestamp, T),
    /// It was killed at this time.
    Killed(Timestamp),
}

/// A running control plane, as seen by the code that works with it.
#[derive(Clone)]
pub struct ControlPlaneRun {
    /// The control plane.
    pub plane: ControlPlane,
    /// The world; only oracles look at it.
    pub world: Arc<WorldHandle>,
    /// Faults of its calls and messages.
    pub call_faults: Arc<CallFaultModel>,
    /// The true time.
    pub clock: Arc<dyn Clock>,
    /// Tells whether the control plane lives: only then do its answers count.
    pub kill_switch: Arc<KillSwitch>,
    /// Milliseconds by which its machine's clock is ahead of the true time.
    pub clock_ahead_ms: i64,
    /// Time until which the mailbox of its intake counts as full, in milliseconds.
    pub intake_full_until: Arc<AtomicU64>,
    /// Lives, stalls and deaths of actors.
    pub lives: Arc<ActorLives>,
}

impl ControlPlaneRun {
    /// Waits until `at`.
    pub async fn sleep_until(&self, at: Timestamp) {
        tokio::time::sleep(Duration::from_millis(at.since(self.clock.now()).0)).await;
    }
}

/// A messenger whose messages arrive or not, as the faults of calls decide.
struct SimMessenger {
    call_faults: Arc<CallFaultModel>,
    clock: Arc<dyn Clock>,
    /// Ends of jobs that this control plane delivered, with the addresses that got them.
    told: Mutex<BTreeSet<(JobId, Box<str>)>>,
    /// True if actors panic: an actor that delivered a message and could not store that sends it
    /// again.
    actors_die: bool,
}

impl SimMessenger {
    fn deliver_end(&self, job: &Job, address: &str) -> bool {
        let call_faults = &self.call_faults;
        let kind = job.phase.kind().as_str();
        let arrives = call_faults.draw_end_arrival(job.id, address);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if arrives && !told.insert((job.id, address.into())) && !self.actors_die {
            call_faults.record_unwanted_message(format!(
                "{address} heard twice that job {} is {kind}",
                job.id
            ));
        }
        if !job.is_final() {
            call_faults
                .record_unwanted_message(format!("{address} heard that job {} is {kind}", job.id));
        }
        arrives
    }
}

impl NoticeSender for SimMessenger {
    fn send(
        &self,
        address: &str,
        notice: OutgoingNotice,
    ) -> BoxFuture<'static, Result<(), String>> {
        let taken = match notice {
            OutgoingNotice::Site { site, notification } => {
                self.call_faults
                    .draw_message_arrival(site, notification.id, self.clock.now())
            }
            OutgoingNotice::JobEnded(job) => self.deliver_end(&job, address),
            OutgoingNotice::Start { .. } => true,
        };
        let arrives = if taken {
            Ok(())
        } else {
            Err("not delivered".into())
        };
        async { arrives }.boxed()
    }
}

/// Builds a runtime with virtual time.
pub(super) fn build_runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_time()
        .start_paused(true)
        .on_thread_unpark(count_runtime_rest);
    #[allow(
        clippy::expect_used,
        reason = "a runtime without threads, sockets or files"
    )]
    builder.build().expect("a runtime")
}

/// Runs a control plane until `work` is done or it is killed.
///
/// # Errors
/// Fails if the store cannot be opened because acknowledged records are damaged.
pub fn run_control_plane<T: 'static, W>(
    environment: &SimEnvironment,
    plan: RunPlan,
    work: impl FnOnce(ControlPlaneRun) -> W + 'static,
) -> Result<RunEnd<T>>
where
    W: Future<Output = T> + 'static,
{
    let environment = environment.clone();
    System::with_tokio_rt(build_runtime).block_on(async move {
        let task = actix_rt::spawn(run_until_death(environment, plan, work));
        task.await
            .unwrap_or_else(|panic| Err(anyhow!("the simulator itself broke: {panic}")))
    })
}

async fn run_until_death<T, W>(
    environment: SimEnvironment,
    plan: RunPlan,
    work: impl FnOnce(ControlPlaneRun) -> W + 'static,
) -> Result<RunEnd<T>>
where
    W: Future<Output = T> + 'static,
{
    let clock: Arc<dyn Clock> = Arc::new(WorldClock::starting_at(plan.begins));
    let kill_switch = KillSwitch::killing_at(plan.moment, environment.call_faults.tally().clone());
    let its_lives = environment.lives.clone();
    its_lives.begin_run();
    actor_lives::watch_actors(its_lives.clone(), clock.clone());
    let (plane, disk) = match open_control_plane(&environment, plan, &clock, &kill_switch) {
        Err(problem) if is_disk_full_error(&problem) => {
            // The server does the same: it ends with an exit code, and is started again.
            environment
                .call_faults
                .tally()
                .count_fault(FaultKind::StoreFull, "start");
            actor_lives::stop_watching_actors();
            its_lives.end_run(plan.begins, 0);
            return Ok(RunEnd::Killed(plan.begins));
        }
        opened => opened?,
    };
    if let Some(panics) = plan.panics {
        let tally = environment.call_faults.tally().clone();
        let seed = plan.seed ^ plan.begins.0;
        let clock = clock.clone();
        panics::plant_panics(panics, seed, tally, its_lives.clone(), clock);
    }
    let now = clock.clone();
    let world = environment.world.clone();
    let driver = actix_rt::spawn(world.drive_world(move || now.now()));
    let plane_run = ControlPlaneRun {
        plane,
        world: environment.world.clone(),
        call_faults: environment.call_faults.clone(),
        clock: clock.clone(),
        kill_switch: kill_switch.clone(),
        clock_ahead_ms: plan.clock_ahead_ms,
        intake_full_until: Arc::default(),
        lives: its_lives.clone(),
    };
    let seed = plan.seed ^ plan.begins.0;
    let striking = stalls::stall_actors(plan.stalls, seed, stalling_control_plane(&plane_run));
    let staller = actix_rt::spawn(striking);
    let killed_at = async {
        match plan.killed_at {
            Some(at) => plane_run.sleep_until(at).await,
            None => std::future::pending().await,
        }
    };
    let end = tokio::select! {
        biased;
        () = kill_switch.wait_for_death() => RunEnd::Killed(clock.now()),
        () = killed_at => RunEnd::Killed(clock.now()),
        done = work(plane_run.clone()) => RunEnd::Done(clock.now(), done),
    };
    kill_switch.kill();
    panics::stop_panics();
    actor_lives::stop_watching_actors();
    its_lives.end_run(clock.now(), counted_deaths(&plane_run));
    disk.stop_machine(FaultKind::LostSuffix);
    driver.abort();
    staller.abort();
    // Actors that were just built start, in vain, while there is a runtime for their timers.
    for _ in 0..LAST_TURNS {
        tokio::task::yield_now().await;
    }
    Ok(end)
}

fn stalling_control_plane(plane_run: &ControlPlaneRun) -> StallingControlPlane {
    StallingControlPlane {
        shared: plane_run.plane.shared().clone(),
        clock: plane_run.clock.clone(),
        tally: plane_run.call_faults.tally().clone(),
        lives: plane_run.lives.clone(),
        intake_full_until: plane_run.intake_full_until.clone(),
    }
}

/// Returns true if a store cannot be opened because its disk is full.
fn is_disk_full_error(problem: &anyhow::Error) -> bool {
    matches!(problem.downcast_ref(), Some(StoreError::Full { .. }))
}

/// Returns the deaths of actors that its supervisor counted.
fn counted_deaths(plane_run: &ControlPlaneRun) -> u64 {
    let counted = &plane_run.plane.shared().metrics.actor_restarts;
    let kinds = ActorKind::ALL.into_iter();
    kinds
        .map(|kind| counted.with_label_values(&[kind.as_str()]).get())
        .sum()
}

fn open_control_plane(
    environment: &SimEnvironment,
    plan: RunPlan,
    clock: &Arc<dyn Clock>,
    kill_switch: &Arc<KillSwitch>,
) -> Result<(ControlPlane, Arc<SimulatedDisk>)> {
    let (sink, reports) = report_channel();
    let mut loader = RecordLoader::default();
    let mut damage = None;
    let instance = InstanceId::from_random(plan.seed);
    let is_full = environment.call_faults.is_disk_full(plan.begins);
    let opened = environment
        .disk
        .open(is_full, instance, sink.clone(), &mut |stored| {
            if damage.is_none() {
                damage = loader.take_stored_value(stored).err();
            }
        })?;
    damage.map_or(Ok(()), Err)?;
    let mut loaded = loader.finish()?;
    let remains = std::mem::take(&mut loaded.remains);
    let disk = Arc::new(SimulatedDisk {
        inner: opened.journal,
        sink,
        kill_switch: kill_switch.clone(),
        call_faults: environment.call_faults.clone(),
        clock: clock.clone(),
        lives: environment.lives.clone(),
        hash: environment.hash.clone(),
        waiting: Mutex::default(),
        store: environment.disk.clone(),
        broken: AtomicBool::new(false),
        keeps_archive: environment.keeps_archive,
    });
    let its_clock = Timestamp(plan.begins.0.saturating_add_signed(plan.clock_ahead_ms));
    let fatal = kill_switch.clone();
    let registry = prometheus::Registry::new();
    let lives = environment.lives.clone();
    let true_clock = clock.clone();
    let parts = ControlPlaneParts {
        clock: Arc::new(WorldClock::starting_at(its_clock)),
        seed: plan.seed,
        settings: environment.settings.clone(),
        instance: opened.instance,
        former: opened.former,
        epoch: opened.epoch,
        view: view_of_records(loaded),
        metrics: Arc::new(ControlPlaneMetrics::new(&registry)?),
        sites: build_sites(environment, clock, kill_switch, opened.instance)?,
        store: Arc::new(KillableJournal(disk.clone())),
        messenger: Arc::new(SimMessenger {
            call_faults: environment.call_faults.clone(),
            clock: clock.clone(),
            told: Mutex::default(),
            actors_die: plan.panics.is_some(),
        }),
        // The server does the same: it ends, and its service manager starts it again.
        on_fatal: Box::new(move |problem| {
            lives.record_event(true_clock.now(), RecordedActorEvent::Fatal(problem.into()));
            fatal.kill();
        }),
    };
    Ok((start_control_plane(parts, remains, reports), disk))
}

fn build_sites(
    environment: &SimEnvironment,
    clock: &Arc<dyn Clock>,
    kill_switch: &Arc<KillSwitch>,
    instance: InstanceId,
) -> Result<Vec<Arc<dyn Site>>> {
    let by_slurm = environment
        .world
        .read(crate::world::SimulatedWorld::is_driven_by_slurm);
    let named = environment
        .world
        .read(|world: &crate::world::SimulatedWorld| {
            let names = world.sites().iter().map(|site| site.name().clone());
            names
                .filter_map(|name| Some((world.index_of(&name)?, name)))
                .collect::<Vec<_>>()
        });
    let mut sites: Vec<Arc<dyn Site>> = Vec::with_capacity(named.len());
    for (index, name) in named {
        let plain = SimulatedSite {
            name,
            index,
            world: environment.world.clone(),
            clock: clock.clone(),
            call_faults: environment.call_faults.clone(),
            kill_switch: kill_switch.clone(),
            lives: environment.lives.clone(),
            instance,
            hints: environment.hints,
        };
        if by_slurm {
            sites.push(Arc::new(SimulatedSlurmSite::new(plain)?));
        } else {
            sites.push(Arc::new(plain));
        }
    }
    Ok(sites)
}
