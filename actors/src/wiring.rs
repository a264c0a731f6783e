//! Puts the actors together: the order of start, and how each is built anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::{Actor, Addr};
use cospan_domain::ids::{Digest, JobId, SiteName};
use cospan_domain::job::decide::decide;
use cospan_domain::job::evolve::evolve;
use cospan_domain::job::job_command::JobCommand;
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::site::site_state::SiteRecord;
use cospan_storage::port::{CommitReport, StoreKey};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use crate::actor_context::{SharedState, SharedStateParts};
use crate::actor_registry::{ActorDirectory, DirtyFlag, LookAgain, RegisteredActor};
use crate::api::ControlPlane;
use crate::catalogue::InformationActor;
use crate::chaos::{self, CrashPoint};
use crate::claimer::{ClaimTimer, Claimer};
use crate::coallocator::CoAllocator;
use crate::intake::Intake;
use crate::job::{JobActor, count_live_reservations};
use crate::journal::{AppendChange, JournalActor, JournalChange, JournalReport};
use crate::notifier::Notifier;
use crate::site::ClusterActor;
use crate::supervision::life_events::{self, ActorLifecycleEvent};
use crate::supervision::{ActorBuilder, ActorId, Escalation, LifeGuard, Supervisor};
use crate::transfer::{DataManager, TransferActor, blank_copy_record};

/// Builds actors for the supervisor.
struct ControlPlaneActorBuilder(Arc<SharedState>);

/// Starts the control plane on the current arbiter. The store's sink feeds `reports`; make it with
/// [`report_channel`] before opening the store. `remains` are keys that the store should not have
/// any more.
pub fn start_control_plane(
    parts: SharedStateParts,
    remains: Vec<StoreKey>,
    reports: mpsc::UnboundedReceiver<JournalReport>,
) -> ControlPlane {
    let shared = Arc::new(SharedState::new(parts));
    let clock = shared.clock.clone();
    let chance = shared.chance.clone();
    let workshop = Box::new(ControlPlaneActorBuilder(shared.clone()));
    let supervisor = Supervisor::new(workshop, clock, chance, shared.metrics.clone()).start();
    let _ = shared.supervisor.set(supervisor.clone());
    let guard = LifeGuard::new(ActorId::Journal, supervisor);
    let journal = JournalActor::new(shared.clone(), shared.store.clone(), reports, guard).start();
    let _ = shared.journal.set(journal);
    if !remains.is_empty() {
        // Deleted some time later; until then they are found and passed over again.
        shared
            .journal()
            .do_send(AppendChange(JournalChange::Swept(remains)));
    }
    set_phase_gauges(&shared);
    warn_of_removed_sites(&shared);
    start_all_actors(&shared);
    if let Some(every) = shared.settings.fallback_tick {
        actix_rt::spawn(run_fallback_tick(shared.clone(), every));
    }
    ControlPlane::new(shared)
}

/// Makes the channel between a store's thread and the journal actor: the sink to open the store
/// with, and the end to [`start_control_plane`] with.
pub fn report_channel() -> (
    cospan_storage::port::CommitReportSink,
    mpsc::UnboundedReceiver<JournalReport>,
) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let sink = Arc::new(move |report: CommitReport| {
        // No receiver: the control plane is gone, and nobody waits for outcomes.
        let _ = sender.send(JournalReport(report));
    });
    (sink, receiver)
}

fn set_phase_gauges(shared: &SharedState) {
    let mut phases = BTreeMap::<&str, i64>::new();
    let mut held = 0;
    for job in shared.view.load().jobs.values() {
        *phases.entry(job.phase.kind().as_str()).or_default() += 1;
        held += i64::from(job.held.is_some());
        count_live_reservations(&shared.metrics.reservations, job, 1);
    }
    for (phase, count) in phases {
        shared.metrics.jobs.with_label_values(&[phase]).add(count);
    }
    shared.metrics.held.add(held);
    // An alert sees an increase only of a counter that was there before.
    for site in shared.sites.keys() {
        let metrics = &shared.metrics.reservations;
        for counters in [&metrics.lost, &metrics.orphans] {
            counters.with_label_values(&[site.as_str()]).inc_by(0);
        }
    }
}

/// Warns of jobs that have something at a site where nobody will look any more.
fn warn_of_removed_sites(shared: &SharedState) {
    let view = shared.view.load();
    for (site, holdings) in view.holdings.iter() {
        if shared.sites.contains_key(site) {
            continue;
        }
        let jobs: BTreeSet<JobId> = holdings.keys().map(|(job, _)| *job).collect();
        warn!(
            %site, ?jobs,
            "jobs may still run at a site that is no longer in the configuration; put it back, or \
             they are given up like those at a site that has not answered since this start"
        );
    }
}

/// Starts all actors. Sites first, so that attempts are seen before anything is decided about them.
fn start_all_actors(shared: &Arc<SharedState>) {
    for site in shared.sites.keys() {
        shared.start_actor(ActorId::Cluster(site.clone()));
    }
    for id in [
        ActorId::Information,
        ActorId::Notifier,
        ActorId::Claimer,
        ActorId::DataManager,
    ] {
        shared.start_actor(id);
    }
    shared.start_actor(ActorId::CoAllocator);
    shared.start_actor(ActorId::Intake);
    let view = shared.view.load();
    let under_way: Vec<JobId> = view
        .jobs
        .values()
        .filter(|job| has_actor_from_start(job))
        .map(|job| job.id)
        .collect();
    info!(
        jobs = view.jobs.len(),
        under_way = under_way.len(),
        "control plane started"
    );
    actix_rt::spawn(start_jobs_under_way(shared.clone(), under_way));
}

/// Returns true if a job has an actor from the start. A job that only waits in its queue gets its
/// actor when something is wanted of it; see [`SharedState::job_actor`].
fn has_actor_from_start(job: &Job) -> bool {
    let asks = job
        .reservation
        .as_deref()
        .is_some_and(|reservation| !reservation.spent);
    let waits = matches!(job.phase, JobPhase::Queued { .. }) && job.components.is_empty() && !asks;
    !job.is_final() && job.held.is_none() && !waits
}

/// Starts the actors of jobs under way, a few at a time: each asks its sites and writes down the
/// answers, and nobody else should wait until the last has done so.
async fn start_jobs_under_way(shared: Arc<SharedState>, jobs: Vec<JobId>) {
    const AT_ONCE: usize = 64;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
    for some in jobs.chunks(AT_ONCE) {
        some.iter()
            .for_each(|job| shared.start_actor(ActorId::Job(*job)));
        tokio::time::sleep(PAUSE).await;
    }
}

/// Marks everything dirty now and then. Safety and progress never depend on it.
async fn run_fallback_tick(shared: Arc<SharedState>, every: cospan_domain::units::DurationMs) {
    loop {
        tokio::time::sleep(std::time::Duration::from_millis(every.0)).await;
        shared
            .metrics
            .store_bytes
            .set(shared.store.size().disk_bytes as i64);
        let actors = &shared.actors;
        actors.clusters.request_look_of_all();
        actors.transfers.request_look_of_all();
        actors.claimer.request_look_of(&());
        actors.data_manager.request_look_of(&());
        actors.co_allocator.request_look_of(&());
        actors.notifier.request_look_of(&());
        let view = shared.view.load();
        let active = view
            .jobs
            .values()
            .filter(|job| !matches!(job.phase, JobPhase::Queued { .. }) && !job.is_final());
        active.for_each(|job| actors.jobs.request_look_of(&job.id));
    }
}

/// Starts an actor and enters it in its directory.
fn start_and_enter<K, A>(
    directory: &ActorDirectory<K, A>,
    key: K,
    make: impl FnOnce(DirtyFlag) -> A,
) -> Addr<A>
where
    K: Ord + Clone,
    A: Actor<Context = actix::Context<A>> + actix::Handler<LookAgain>,
{
    let dirty = DirtyFlag::default();
    let addr = make(dirty.clone()).start();
    directory.register_actor(key, RegisteredActor::new(addr.clone(), dirty));
    addr
}

impl ActorBuilder for ControlPlaneActorBuilder {
    fn build(&self, id: &ActorId, guard: LifeGuard, restarted: bool) {
        let shared = self.0.clone();
        if !restarted {
            return build_actor(&shared, id, guard);
        }
        // Behind every append that the last life had accepted. The guard moves in, so that a panic
        // here is a death like any other.
        let id = id.clone();
        actix_rt::spawn(async move {
            let _ = shared
                .journal()
                .send(AppendChange(JournalChange::Barrier))
                .await;
            build_actor(&shared, &id, guard);
        });
    }

    fn escalate(&self, id: &ActorId, verdict: Escalation) {
        life_events::record_life_event(id, ActorLifecycleEvent::Judged(verdict));
        match (verdict, id) {
            (Escalation::Exit, _) => self.0.end_process(id, verdict, "died too often"),
            (Escalation::Hold, ActorId::Job(job)) => {
                let shared = self.0.clone();
                let job = *job;
                actix_rt::spawn(async move { hold_job(&shared, job).await });
            }
            (Escalation::Hold, ActorId::Cluster(site)) => {
                let shared = self.0.clone();
                let site = site.clone();
                actix_rt::spawn(async move { hold_site(&shared, site).await });
            }
            (Escalation::Hold, _) => restart_later(self.0.clone(), id.clone()),
        }
    }
}

/// Tries an actor again after a long pause, for which nothing durable can be held.
fn restart_later(shared: Arc<SharedState>, id: ActorId) {
    const PAUSE: std::time::Duration = std::time::Duration::from_secs(60);
    actix_rt::spawn(async move {
        tokio::time::sleep(PAUSE).await;
        shared.start_actor(id);
    });
}

fn build_actor(shared: &Arc<SharedState>, id: &ActorId, guard: LifeGuard) {
    chaos::reach_point(CrashPoint::Factory);
    let actors = &shared.actors;
    let shared = shared.clone();
    match id {
        ActorId::Journal => error!("the journal has no second life"),
        ActorId::Intake => drop(start_and_enter(&actors.intake, (), |d| {
            Intake::new(shared.clone(), d, guard)
        })),
        ActorId::Information => {
            drop(start_and_enter(&actors.information, (), |d| {
                InformationActor::new(shared.clone(), d, guard)
            }));
        }
        ActorId::DataManager => {
            drop(start_and_enter(&actors.data_manager, (), |d| {
                DataManager::new(shared.clone(), d, guard)
            }));
        }
        ActorId::CoAllocator => {
            drop(start_and_enter(&actors.co_allocator, (), |d| {
                CoAllocator::new(shared.clone(), d, guard)
            }));
        }
        ActorId::Claimer => {
            drop(start_and_enter(&actors.claimer, (), |d| {
                Claimer::new(shared.clone(), d, guard)
            }));
        }
        ActorId::Notifier => {
            drop(start_and_enter(&actors.notifier, (), |d| {
                Notifier::new(shared.clone(), d, guard)
            }));
        }
        ActorId::ClaimTimer(job) => drop(ClaimTimer::new(shared.clone(), *job, guard).start()),
        ActorId::Cluster(site) => build_cluster(&shared, site, guard),
        ActorId::Job(job) => build_job(&shared, *job, guard),
        ActorId::Transfer(digest, site) => build_transfer(&shared, (*digest, site.clone()), guard),
    }
}

fn build_transfer(shared: &Arc<SharedState>, key: (Digest, SiteName), mut guard: LifeGuard) {
    let view = shared.view.load();
    let Some(blank) = blank_copy_record(&view, &key) else {
        return guard.disarm();
    };
    if shared.actors.transfers.addr(&key).is_some() {
        return guard.disarm();
    }
    let record = view.copies.get(&key).cloned();
    start_and_enter(&shared.actors.transfers, key.clone(), |dirty| {
        TransferActor::new(shared.clone(), key, record, blank, dirty, guard)
    });
}

fn build_cluster(shared: &Arc<SharedState>, name: &SiteName, mut guard: LifeGuard) {
    let Some(site) = shared.sites.get(name).cloned() else {
        return guard.disarm();
    };
    let record = shared.view.load().sites.get(name).cloned();
    let record = record.unwrap_or_else(|| Arc::new(SiteRecord::new(name.clone())));
    start_and_enter(&shared.actors.clusters, name.clone(), |dirty| {
        ClusterActor::new(shared.clone(), site, record, dirty, guard)
    });
}

fn build_job(shared: &Arc<SharedState>, id: JobId, mut guard: LifeGuard) {
    let job = shared.view.load().jobs.get(&id).cloned();
    let Some(job) = job.filter(|job| !job.is_final()) else {
        return guard.disarm();
    };
    if shared.actors.jobs.addr(&id).is_some() {
        return guard.disarm();
    }
    // A job that was never placed has nothing that could be under way.
    let rebuilt = !job.components.is_empty();
    start_and_enter(&shared.actors.jobs, id, |dirty| {
        JobActor::new(shared.clone(), job, rebuilt, dirty, guard)
    });
}

/// Holds a job whose turn ends actors again and again. Its own actor is gone or takes no part; the
/// version of the record decides between us and a late one.
pub(crate) async fn hold_job(shared: &Arc<SharedState>, id: JobId) {
    const REASON: &str = "the actor that works on it died again and again; see the log, then \
                          `cospan release` or `cospan cancel`";
    let _ = shared
        .journal()
        .send(AppendChange(JournalChange::Barrier))
        .await;
    let Some(old) = shared.view.load().jobs.get(&id).cloned() else {
        return;
    };
    let now = shared.clock.now();
    let hold = JobCommand::Hold(REASON.into());
    let Ok(events) = decide(&old, &shared.settings.job, hold, now) else {
        return;
    };
    let mut next = Job::clone(&old);
    events.iter().for_each(|event| evolve(&mut next, event));
    next.revision += 1;
    let change = JournalChange::Job {
        old,
        new: Arc::new(next),
        events,
    };
    if let Err(problem) = shared.journal().send(AppendChange(change)).await {
        error!(job = %id, %problem, "could not be held");
    }
}

/// Makes a site unusable whose actor ends again and again; the actor is tried again later.
async fn hold_site(shared: &Arc<SharedState>, site: SiteName) {
    error!(
        %site,
        "its actor dies again and again; the site is unusable until the actor is rebuilt"
    );
    let report = crate::live_state::LatestSiteReport::default();
    shared.live.publish_report(site.clone(), Arc::new(report));
    shared.actors.co_allocator.request_look_of(&());
    restart_later(shared.clone(), ActorId::Cluster(site));
}
