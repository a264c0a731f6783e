//! The state that every actor can reach: clock, settings, view, live state, addresses. No actor
//! owns another, or any state that another writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use actix::Addr;
use arc_swap::ArcSwap;
use cospan_domain::ids::{Digest, Epoch, InstanceId, JobId, KeyName, SiteName};
use cospan_domain::job::job_state::Job;
use cospan_domain::labels::SiteLabels;
use cospan_domain::placement::{PlacementRequest, SitePairHistory};
use cospan_domain::queue::StarvationGuard;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::Site;
use tokio::sync::broadcast;

use crate::actor_registry::ActorRegistry;
use crate::actor_settings::ActorSettings;
use crate::api::CommittedView;
use crate::clock::Clock;
use crate::commits::{ChangedObjectSets, CommittedChange};
use crate::deductions::Deductions;
use crate::intake::PendingReservationNames;
use crate::job::{JobActor, MadeReservationCalls};
use crate::journal::JournalActor;
use crate::link_measurements::LinkTable;
use crate::live_state::LiveState;
use crate::metrics::ControlPlaneMetrics;
use crate::notifier::NoticeSender;
use crate::seeded_random::RandomSource;
use crate::spec_cache::SpecCache;
use crate::supervision::{ActorId, Escalation, StartActor, Supervisor};
use crate::transfer;
use crate::watched_state::PublishedState;

/// Called when the process must end, with the reason.
pub type FatalErrorHandler = Box<dyn Fn(&str) + Send + Sync>;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state that every actor can reach.
pub struct SharedState {
    pub clock: Arc<dyn Clock>,
    /// The source of random numbers.
    pub chance: Arc<RandomSource>,
    /// The time when this control plane was started.
    pub started_at: Timestamp,
    /// Settings, frozen.
    pub settings: Arc<ActorSettings>,
    /// The number of this control plane among others at the same sites.
    pub instance: InstanceId,
    /// The instances whose store it took over.
    pub former: Vec<InstanceId>,
    /// This run's epoch over the store.
    pub epoch: Epoch,
    /// The committed state.
    pub view: PublishedState<CommittedView>,
    /// The sites' last reports.
    pub live: LiveState,
    /// Knowledge of the links.
    pub(crate) links: Mutex<LinkTable>,
    /// The history table of Close-to-Files as the co-allocator left it.
    pub history: ArcSwap<SitePairHistory>,
    /// Processors that the last scan withheld for one job.
    pub starvation_guard: ArcSwap<Option<StarvationGuard>>,
    /// The addresses of all actors.
    pub actors: ActorRegistry,
    pub metrics: Arc<ControlPlaneMetrics>,
    /// The sites, by name.
    pub sites: BTreeMap<SiteName, Arc<dyn Site>>,
    /// Things to look at again.
    pub dirty: ChangedObjectSets,
    pub(crate) supervisor: OnceLock<Addr<Supervisor>>,
    pub(crate) journal: OnceLock<Addr<JournalActor>>,
    pub(crate) store: Arc<dyn cospan_storage::port::Journal>,
    pub(crate) messenger: Arc<dyn NoticeSender>,
    /// Knowledge of the last specifications.
    pub(crate) recent: SpecCache,
    /// Input that may come to be staged any moment.
    pub(crate) promised: transfer::StagingDeductions,
    /// Deductions from sites that no job owns yet.
    pub deductions: Deductions,
    /// The number of times that the co-allocator died in a job's turn.
    suspects: Mutex<BTreeMap<JobId, u32>>,
    /// Shared reservations that are just being made.
    pub(crate) names: PendingReservationNames,
    /// Calls of jobs whose users may have only a limited share.
    pub(crate) put: MadeReservationCalls,
    /// Followers of all committed changes.
    pub(crate) stream: broadcast::Sender<CommittedChange>,
    on_fatal: FatalErrorHandler,
    stopping: AtomicBool,
}

/// The parts that [`SharedState::new`] is made from.
pub struct SharedStateParts {
    /// See the field of the same name in [`SharedState`].
    pub clock: Arc<dyn Clock>,
    /// Seed of all chance.
    pub seed: u64,
    /// See [`SharedState`].
    pub settings: ActorSettings,
    /// See [`SharedState`].
    pub instance: InstanceId,
    /// See [`SharedState`].
    pub former: Vec<InstanceId>,
    /// See [`SharedState`].
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

impl SharedState {
    /// Committed changes kept for a slow follower of the event stream.
    const STREAM_BOUND: usize = 16_384;

    /// Makes the shared state, before any actor lives.
    pub fn new(parts: SharedStateParts) -> Self {
        let (stream, _) = broadcast::channel(Self::STREAM_BOUND);
        let names = parts.sites.iter().map(|site| site.name());
        let settings = Arc::new(parts.settings);
        let live = LiveState::new(names, settings.isolation_window);
        let deductions = Deductions::new(parts.metrics.provisional_plans.clone());
        let put = MadeReservationCalls::from_view(&parts.view);
        Self {
            started_at: parts.clock.now(),
            clock: parts.clock,
            chance: Arc::new(RandomSource::from_seed(parts.seed)),
            instance: parts.instance,
            former: parts.former,
            epoch: parts.epoch,
            view: PublishedState::new(parts.view),
            links: Mutex::new(LinkTable::new(settings.clone())),
            history: ArcSwap::from_pointee(settings.history_seed.clone()),
            settings,
            starvation_guard: ArcSwap::from_pointee(None),
            live,
            actors: ActorRegistry::default(),
            metrics: parts.metrics,
            sites: parts
                .sites
                .into_iter()
                .map(|site| (site.name().clone(), site))
                .collect(),
            dirty: ChangedObjectSets::default(),
            supervisor: OnceLock::new(),
            journal: OnceLock::new(),
            store: parts.store,
            messenger: parts.messenger,
            recent: SpecCache::default(),
            promised: transfer::StagingDeductions::default(),
            deductions,
            suspects: Mutex::default(),
            names: PendingReservationNames::default(),
            put,
            stream,
            on_fatal: parts.on_fatal,
            stopping: AtomicBool::new(false),
        }
    }

    /// The journal. It lives as long as the process.
    pub fn journal(&self) -> &Addr<JournalActor> {
        // Set before any other actor is started; see `wiring`.
        #[allow(
            clippy::expect_used,
            reason = "an order of start that cannot be otherwise"
        )]
        self.journal.get().expect("the journal is started first")
    }

    /// Starts an actor under supervision.
    pub(crate) fn start_actor(&self, id: ActorId) {
        if let Some(supervisor) = self.supervisor.get() {
            // Bounded by what is durable: one per job, copy and site.
            supervisor.do_send(StartActor(id));
        }
    }

    /// Returns a job's actor; `None` while it is being rebuilt. A job that only waits in its queue
    /// has none until something is wanted of it.
    pub(crate) async fn job_actor(&self, id: JobId) -> Option<Addr<JobActor>> {
        if !self.actors.jobs.contains(&id) {
            let start = StartActor(ActorId::Job(id));
            self.supervisor.get()?.send(start).await.ok()?;
        }
        self.actors.jobs.addr(&id)
    }

    /// Follows committed changes from now on.
    pub fn subscribe_to_changes(&self) -> broadcast::Receiver<CommittedChange> {
        self.stream.subscribe()
    }

    /// Notes that the co-allocator died in this job's turn.
    pub(crate) fn note_crash_suspect(&self, job: JobId) {
        *lock(&self.suspects).entry(job).or_default() += 1;
    }

    /// Clears the suspicion against a job that is held, or gone.
    pub(crate) fn clear_crash_suspect(&self, job: JobId) {
        lock(&self.suspects).remove(&job);
    }

    /// Lists the jobs in whose turn the co-allocator died, and how often.
    pub(crate) fn crash_suspects(&self) -> BTreeMap<JobId, u32> {
        lock(&self.suspects).clone()
    }

    /// Takes no new work from now on.
    pub fn begin_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Returns true once the control plane is stopping.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Ends the process.
    pub(crate) fn end_process(&self, actor: &ActorId, _: Escalation, problem: &str) {
        (self.on_fatal)(&format!("{actor}: {problem}"));
    }

    /// Returns how long a submission to a site may still take effect after its reply was lost.
    pub(crate) fn submission_settle_time(&self, site: &SiteName) -> DurationMs {
        self.settings
            .submit_settle
            .get(site)
            .copied()
            .unwrap_or(self.settings.job.settle)
    }

    /// Returns the request that a job makes of sites.
    pub(crate) fn placement_request_of(&self, job: &Job) -> Arc<PlacementRequest> {
        let request = self.recent.request_of(job, &self.settings.default_policies);
        self.add_owner_if_barred(request, &job.owner)
    }

    /// Puts its owner's name on a request, if any site may be closed to that owner alone.
    pub(crate) fn add_owner_if_barred(
        &self,
        request: Arc<PlacementRequest>,
        owner: &KeyName,
    ) -> Arc<PlacementRequest> {
        if self.live.is_barred_owner(owner) {
            Arc::new(Arc::unwrap_or_clone(request).with_owner(owner))
        } else {
            request
        }
    }

    /// Returns when a job's processors are to be claimed next; `None` once it no longer waits for
    /// that.
    pub(crate) fn next_claim_time(&self, job: &Job) -> Option<Timestamp> {
        job.next_claim_time(&self.settings.job)
    }

    /// The labels of a site; none until it answered.
    pub(crate) fn site_labels(&self, site: &SiteName) -> SiteLabels {
        let report = self.live.site_report(site);
        let description = report.and_then(|report| report.description.clone());
        description
            .map(|description| description.labels.clone())
            .unwrap_or_default()
    }

    /// Returns true if content is at a site, whole and checked.
    pub(crate) fn is_copy_ready(&self, digest: Digest, site: &SiteName) -> bool {
        let key = (digest, site.clone());
        self.view
            .load()
            .copies
            .get(&key)
            .is_some_and(|copy| copy.is_ready())
    }
}
