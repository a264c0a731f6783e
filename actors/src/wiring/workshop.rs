//! Builds the actors, each with the state that it uses.

use std::sync::{Arc, OnceLock};

use actix::Actor;
use arc_swap::ArcSwap;
use cospan_domain::ids::{Epoch, InstanceId, JobId, SiteName};
use cospan_domain::site::site_state::SiteRecord;
use cospan_sites::port::Site;
use tokio::sync::mpsc;
use tracing::error;

use crate::actor_registry::ActorRegistry;
use crate::actor_settings::ActorSettings;
use crate::api::ControlPlane;
use crate::catalogue::InformationActor;
use crate::chaos::{self, CrashPoint};
use crate::claimer::{self, ClaimTimer, Claimer};
use crate::clock::Clock;
use crate::coallocator::{self, CoAllocator, CrashSuspects};
use crate::commits::{ChangedObjects, CommitFollower, CommitStream, publish_commit};
use crate::committed::CommittedView;
use crate::context::SharedState;
use crate::deductions::Deductions;
use crate::intake::Intake;
use crate::job::{self, JobActor, MadeReservationCalls};
use crate::journal::{CommitPublisher, JournalActor, JournalParts, JournalReport};
use crate::link_measurements::LinkMeasurements;
use crate::live_state::LiveState;
use crate::metrics::ControlPlaneMetrics;
use crate::notifier::{self, NoticeSender, Notifier};
use crate::process_end::{FatalErrorHandler, ProcessEnd};
use crate::reserver::{self, Reserver};
use crate::seeded_random::RandomSource;
use crate::site::{self, ClusterActor};
use crate::spec_cache::SpecCache;
use crate::staging_deductions::StagingDeductions;
use crate::supervision::{ActorBuilder, ActorId, ActorKind, LifeGuard, Supervisor};
use crate::transfer::{self, CopyKey, DataManager, TransferActor, blank_copy_record};
use crate::watched_state::PublishedState;

/// The parts that a control plane is made from.
pub struct ControlPlaneParts {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Seed of all chance.
    pub seed: u64,
    /// The settings.
    pub settings: ActorSettings,
    /// The number of this control plane among others at the same sites.
    pub instance: InstanceId,
    /// The instances whose store it took over.
    pub former: Vec<InstanceId>,
    /// This run's epoch over the store.
    pub epoch: Epoch,
    /// State as loaded from the store.
    pub view: CommittedView,
    /// Metrics, registered.
    pub metrics: Arc<ControlPlaneMetrics>,
    /// The sites.
    pub sites: Vec<Arc<dyn Site>>,
    /// The open store.
    pub store: Arc<dyn cospan_storage::port::Journal>,
    /// Carries notifications.
    pub messenger: Arc<dyn NoticeSender>,
    /// Ends the process.
    pub on_fatal: FatalErrorHandler,
}

/// Builds actors: it has the state that all share, and the state that only some of them use. Each
/// gets the latter when it is built.
pub(crate) struct ActorWorkshop {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) store: Arc<dyn cospan_storage::port::Journal>,
    messenger: Arc<dyn NoticeSender>,
    stream: CommitStream,
    calls: Arc<MadeReservationCalls>,
    suspects: Arc<CrashSuspects>,
    changed_claims: ChangedObjects<JobId>,
    changed_copies: ChangedObjects<CopyKey>,
    changed_jobs: ChangedObjects<JobId>,
    changed_reservations: ChangedObjects<JobId>,
}

impl ActorWorkshop {
    /// Makes it, before any actor lives.
    pub(crate) fn new(parts: ControlPlaneParts) -> Self {
        let names = parts.sites.iter().map(|site| site.name());
        let settings = Arc::new(parts.settings);
        let live = LiveState::new(names, settings.isolation_window);
        let calls = Arc::new(MadeReservationCalls::from_view(&parts.view));
        let links =
            LinkMeasurements::new(settings.clone(), parts.clock.clone(), parts.metrics.clone());
        let deductions = Deductions::new(parts.metrics.provisional_plans.clone());
        let sites = parts.sites.into_iter();
        let shared = SharedState {
            started_at: parts.clock.now(),
            clock: parts.clock,
            chance: Arc::new(RandomSource::from_seed(parts.seed)),
            instance: parts.instance,
            former: parts.former,
            epoch: parts.epoch,
            view: Arc::new(PublishedState::new(parts.view)),
            links,
            history: ArcSwap::from_pointee(settings.history_seed.clone()),
            starvation_guard: ArcSwap::from_pointee(None),
            live,
            actors: ActorRegistry::default(),
            metrics: parts.metrics,
            sites: sites.map(|site| (site.name().clone(), site)).collect(),
            supervisor: OnceLock::new(),
            journal: OnceLock::new(),
            recent: SpecCache::default(),
            promised: Arc::new(StagingDeductions::new(settings.clone())),
            deductions: Arc::new(deductions),
            process: Arc::new(ProcessEnd::new(parts.on_fatal)),
            settings,
        };
        Self {
            shared: Arc::new(shared),
            store: parts.store,
            messenger: parts.messenger,
            stream: CommitStream::new(),
            calls,
            suspects: Arc::default(),
            changed_claims: ChangedObjects::default(),
            changed_copies: ChangedObjects::default(),
            changed_jobs: ChangedObjects::default(),
            changed_reservations: ChangedObjects::default(),
        }
    }

    /// Starts the supervisor, which builds with `builder`, and the journal.
    pub(crate) fn start_journal(
        &self,
        builder: Box<dyn ActorBuilder>,
        reports: mpsc::UnboundedReceiver<JournalReport>,
    ) {
        let shared = &self.shared;
        let clock = shared.clock.clone();
        let chance = shared.chance.clone();
        let supervisor = Supervisor::new(builder, clock, chance, shared.metrics.clone()).start();
        let _ = shared.supervisor.set(supervisor.clone());
        let guard = LifeGuard::new(ActorId::Journal, supervisor);
        let parts = JournalParts {
            port: self.store.clone(),
            epoch: shared.epoch,
            clock: shared.clock.clone(),
            view: shared.view.clone(),
            metrics: shared.metrics.clone(),
            process: shared.process.clone(),
            mailbox_bound: ActorKind::Journal.mailbox_bound(&shared.settings),
            publish: self.commit_publisher(),
        };
        let _ = shared
            .journal
            .set(JournalActor::new(parts, reports, guard).start());
    }

    /// The followers of committed changes, a line for each folder. The co-allocator is the last: it
    /// looks only if somebody waits for a change, which others may note.
    fn commit_publisher(&self) -> CommitPublisher {
        let claims = self.changed_claims.clone();
        let copies = self.changed_copies.clone();
        let jobs = self.changed_jobs.clone();
        let reservations = self.changed_reservations.clone();
        let followers: Vec<CommitFollower> = vec![
            Box::new(job::follow_commit),
            Box::new(move |shared, change| claimer::follow_commit(shared, &claims, change)),
            Box::new(notifier::follow_commit),
            Box::new(move |shared, change| transfer::follow_commit(shared, &copies, change)),
            Box::new(site::follow_commit),
            Box::new(move |shared, change| reserver::follow_commit(shared, &reservations, change)),
            Box::new(move |shared, change| coallocator::follow_commit(shared, &jobs, change)),
        ];
        let shared = self.shared.clone();
        let stream = self.stream.clone();
        Box::new(move |seq, change| publish_commit(&shared, &followers, &stream, seq, change))
    }

    /// The control plane as its edge holds it.
    pub(crate) fn control_plane(&self) -> ControlPlane {
        ControlPlane::new(self.shared.clone(), self.store.clone(), self.stream.clone())
    }

    /// Builds a life of an actor from durable state.
    pub(crate) fn build_actor(&self, id: &ActorId, guard: LifeGuard) {
        chaos::reach_point(CrashPoint::Factory);
        let actors = &self.shared.actors;
        let shared = self.shared.clone();
        match id {
            ActorId::Journal => error!("the journal has no second life"),
            ActorId::Intake => actors.start_and_enter((), |dirty| {
                Intake::new(shared, self.store.clone(), dirty, guard)
            }),
            ActorId::Information => {
                actors.start_and_enter((), |dirty| InformationActor::new(shared, dirty, guard));
            }
            ActorId::DataManager => actors.start_and_enter((), |dirty| {
                DataManager::new(shared, self.changed_copies.clone(), dirty, guard)
            }),
            ActorId::CoAllocator => {
                let jobs = self.changed_jobs.clone();
                let suspects = self.suspects.clone();
                actors.start_and_enter((), |dirty| {
                    CoAllocator::new(shared, jobs, suspects, dirty, guard)
                });
            }
            ActorId::Reserver => actors.start_and_enter((), |dirty| {
                Reserver::new(shared, self.changed_reservations.clone(), dirty, guard)
            }),
            ActorId::Claimer => actors.start_and_enter((), |dirty| {
                Claimer::new(shared, self.changed_claims.clone(), dirty, guard)
            }),
            ActorId::Notifier => actors.start_and_enter((), |dirty| {
                Notifier::new(shared, self.messenger.clone(), dirty, guard)
            }),
            ActorId::ClaimTimer(job) => drop(ClaimTimer::new(shared, *job, guard).start()),
            ActorId::Cluster(site) => self.build_cluster(site, guard),
            ActorId::Job(job) => self.build_job(*job, guard),
            ActorId::Transfer(digest, site) => self.build_transfer((*digest, site.clone()), guard),
        }
    }

    fn build_transfer(&self, key: CopyKey, mut guard: LifeGuard) {
        let shared = &self.shared;
        let view = shared.view.load();
        let Some(blank) = blank_copy_record(&view, &key) else {
            return guard.disarm();
        };
        if shared.actors.addr::<TransferActor>(&key).is_some() {
            return guard.disarm();
        }
        let record = view.copies.get(&key).cloned();
        shared.actors.start_and_enter(key.clone(), |dirty| {
            TransferActor::new(shared.clone(), key, record, blank, dirty, guard)
        });
    }

    fn build_cluster(&self, name: &SiteName, mut guard: LifeGuard) {
        let shared = &self.shared;
        let Some(site) = shared.sites.get(name).cloned() else {
            return guard.disarm();
        };
        let record = shared.view.load().sites.get(name).cloned();
        let record = record.unwrap_or_else(|| Arc::new(SiteRecord::new(name.clone())));
        self.start_cluster(site, record, guard);
    }

    pub(crate) fn start_cluster(
        &self,
        site: Arc<dyn Site>,
        record: Arc<SiteRecord>,
        guard: LifeGuard,
    ) {
        let shared = self.shared.clone();
        let name = site.name().clone();
        self.shared.actors.start_and_enter(name, |dirty| {
            ClusterActor::new(
                shared,
                site,
                record,
                job::report_lost_reservation,
                dirty,
                guard,
            )
        });
    }

    fn build_job(&self, id: JobId, mut guard: LifeGuard) {
        let shared = &self.shared;
        let job = shared.view.load().jobs.get(&id).cloned();
        let Some(job) = job.filter(|job| !job.is_final()) else {
            return guard.disarm();
        };
        if shared.actors.addr::<JobActor>(&id).is_some() {
            return guard.disarm();
        }
        // A job that was never placed has nothing that could be under way.
        let rebuilt = !job.components.is_empty();
        shared.actors.start_and_enter(id, |dirty| {
            JobActor::new(
                shared.clone(),
                job,
                self.calls.clone(),
                rebuilt,
                dirty,
                guard,
            )
        });
    }
}
