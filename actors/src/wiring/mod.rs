//! Puts the actors together: the order of start, and how each is built anew.

mod workshop;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_storage::port::{CommitReport, StoreKey};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use crate::api::ControlPlane;
use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::job::{self, count_live_reservations};
use crate::journal::{AppendChange, JournalReport};
use crate::supervision::life_events::{self, ActorLifecycleEvent};
use crate::supervision::{ActorBuilder, ActorId, ActorKind, Escalation, LifeGuard};
pub(crate) use workshop::ActorWorkshop;
pub use workshop::ControlPlaneParts;

/// Builds actors for the supervisor.
struct ControlPlaneActorBuilder(Arc<ActorWorkshop>);

/// Starts the control plane on the current arbiter. The store's sink feeds `reports`; make it with
/// [`report_channel`] before opening the store. `remains` are keys that the store should not have
/// any more.
pub fn start_control_plane(
    parts: ControlPlaneParts,
    remains: Vec<StoreKey>,
    reports: mpsc::UnboundedReceiver<JournalReport>,
) -> ControlPlane {
    start_all(parts, remains, reports).control_plane()
}

/// Starts all actors; returns what they are built with.
pub(crate) fn start_all(
    parts: ControlPlaneParts,
    remains: Vec<StoreKey>,
    reports: mpsc::UnboundedReceiver<JournalReport>,
) -> Arc<ActorWorkshop> {
    let workshop = Arc::new(ActorWorkshop::new(parts));
    let shared = &workshop.shared;
    workshop.start_journal(
        Box::new(ControlPlaneActorBuilder(workshop.clone())),
        reports,
    );
    if !remains.is_empty() {
        // Deleted some time later; until then they are found and passed over again.
        shared
            .journal()
            .do_send(AppendChange(JournalChange::Swept(remains)));
    }
    set_phase_gauges(shared);
    warn_of_removed_sites(shared);
    start_all_actors(shared);
    if let Some(every) = shared.settings.fallback_tick {
        actix_rt::spawn(run_fallback_tick(
            shared.clone(),
            workshop.store.clone(),
            every,
        ));
    }
    workshop
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
    shared.start_actor(ActorId::Reserver);
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
/// actor when something is wanted of it; see [`job::job_actor`].
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
async fn run_fallback_tick(
    shared: Arc<SharedState>,
    store: Arc<dyn cospan_storage::port::Journal>,
    every: cospan_domain::units::DurationMs,
) {
    loop {
        tokio::time::sleep(std::time::Duration::from_millis(every.0)).await;
        shared
            .metrics
            .store_bytes
            .set(store.size().disk_bytes as i64);
        let actors = &shared.actors;
        actors.request_look_of_all(ActorKind::Cluster);
        actors.request_look_of_all(ActorKind::Transfer);
        actors.request_look_of(&ActorId::Claimer);
        actors.request_look_of(&ActorId::DataManager);
        shared.request_planning();
        actors.request_look_of(&ActorId::Notifier);
        let view = shared.view.load();
        let active = view
            .jobs
            .values()
            .filter(|job| !matches!(job.phase, JobPhase::Queued { .. }) && !job.is_final());
        active.for_each(|job| actors.request_look_of(&ActorId::Job(job.id)));
    }
}

impl ActorBuilder for ControlPlaneActorBuilder {
    fn build(&self, id: &ActorId, guard: LifeGuard, restarted: bool) {
        if !restarted {
            return self.0.build_actor(id, guard);
        }
        // Behind every append that the last life had accepted. The guard moves in, so that a panic
        // here is a death like any other.
        let workshop = self.0.clone();
        let id = id.clone();
        actix_rt::spawn(async move {
            let _ = workshop
                .shared
                .journal()
                .send(AppendChange(JournalChange::Barrier))
                .await;
            workshop.build_actor(&id, guard);
        });
    }

    fn escalate(&self, id: &ActorId, verdict: Escalation) {
        life_events::record_life_event(id, ActorLifecycleEvent::Judged(verdict));
        let shared = self.0.shared.clone();
        match (verdict, id) {
            (Escalation::Exit, _) => shared.process.end_process(id, "died too often"),
            (Escalation::Hold, ActorId::Job(job)) => {
                let job = *job;
                actix_rt::spawn(async move { job::hold_job(&shared, job).await });
            }
            (Escalation::Hold, ActorId::Cluster(site)) => {
                let site = site.clone();
                actix_rt::spawn(async move { hold_site(&shared, site).await });
            }
            (Escalation::Hold, _) => restart_later(shared, id.clone()),
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

/// Makes a site unusable whose actor ends again and again; the actor is tried again later.
async fn hold_site(shared: &Arc<SharedState>, site: SiteName) {
    error!(
        %site,
        "its actor dies again and again; the site is unusable until the actor is rebuilt"
    );
    let report = crate::live_state::LatestSiteReport::default();
    shared.live.publish_report(site.clone(), Arc::new(report));
    shared.request_planning();
    restart_later(shared.clone(), ActorId::Cluster(site));
}
