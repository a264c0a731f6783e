//! The state that every actor can reach: clock, settings, view, live state, addresses. No actor
//! owns another, or any state that another writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use actix::Addr;
use arc_swap::ArcSwap;
use cospan_domain::catalogue::file_state::FileRecord;
use cospan_domain::ids::{Digest, Epoch, InstanceId, JobId, KeyName, Seq, SiteName};
use cospan_domain::job::job_event::JobEvent;
use cospan_domain::job::job_state::{AttemptEnding, AttemptState, Job, JobPhase};
use cospan_domain::labels::SiteLabels;
use cospan_domain::placement::{PlacementRequest, SitePairHistory};
use cospan_domain::queue::StarvationGuard;
use cospan_domain::site::site_state::{AttemptId, Breaker};
use cospan_domain::transfer::copy_state::CopyRecord;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::Site;
use tokio::sync::broadcast;

use crate::actor_registry::ActorRegistry;
use crate::actor_settings::ActorSettings;
use crate::api::CommittedView;
use crate::chaos;
use crate::clock::Clock;
use crate::deductions::Deductions;
use crate::intake::PendingReservationNames;
use crate::job::{JobActor, MadeReservationCalls, count_live_reservations};
use crate::journal::{JournalActor, JournalChange};
use crate::link_measurements::LinkTable;
use crate::live_state::LiveState;
use crate::metrics::ControlPlaneMetrics;
use crate::notifier::NoticeSender;
use crate::seeded_random::RandomSource;
use crate::site::AttemptOver;
use crate::spec_cache::SpecCache;
use crate::supervision::{ActorId, Escalation, StartActor, Supervisor};
use crate::transfer;
use crate::watched_state::PublishedState;

/// A committed change with its position, as followers receive it.
#[derive(Debug, Clone)]
pub struct CommittedChange {
    /// The change's position in the journal.
    pub seq: Seq,
    /// The change.
    pub change: Arc<JournalChange>,
}

/// Called when the process must end, with the reason.
pub type FatalErrorHandler = Box<dyn Fn(&str) + Send + Sync>;

/// Sets of things to look at again, coalesced.
#[derive(Debug, Default)]
pub struct ChangedObjectSets {
    jobs: Mutex<BTreeSet<JobId>>,
    copies: Mutex<BTreeSet<(Digest, SiteName)>>,
    claims: Mutex<BTreeSet<JobId>>,
    promised: Mutex<BTreeSet<JobId>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ChangedObjectSets {
    /// Takes the jobs whose place in the placement queues may have changed.
    pub fn take_jobs(&self) -> BTreeSet<JobId> {
        std::mem::take(&mut lock(&self.jobs))
    }

    /// Takes the copies whose need may have changed.
    pub fn take_copies(&self) -> BTreeSet<(Digest, SiteName)> {
        std::mem::take(&mut lock(&self.copies))
    }

    /// Takes the jobs whose place in the claiming queue may have changed.
    pub fn take_claiming_jobs(&self) -> BTreeSet<JobId> {
        std::mem::take(&mut lock(&self.claims))
    }

    /// Takes the jobs whose reserved start may be brought forward, or may no longer.
    pub fn take_reschedulable_jobs(&self) -> BTreeSet<JobId> {
        std::mem::take(&mut lock(&self.promised))
    }
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
    stream: broadcast::Sender<CommittedChange>,
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

    /// Follows one committed change: counts it, and asks the actors concerned to look.
    pub(crate) fn notify_of_change(&self, seq: Seq, change: JournalChange) {
        chaos::note_jobs_in_flight(|| {
            self.view
                .load()
                .jobs
                .values()
                .filter(|job| !job.is_final())
                .count()
        });
        match &change {
            JournalChange::NewJobs(jobs) => {
                self.metrics.jobs_submitted.inc_by(jobs.len() as u64);
                lock(&self.dirty.jobs).extend(jobs.iter().map(|job| job.id));
                self.update_phase_counts(None, jobs.iter());
                self.actors.co_allocator.request_look_of(&());
            }
            JournalChange::Job { old, new, events } => self.notify_of_job_change(old, new, events),
            JournalChange::JobArchived { job, .. } => {
                self.metrics
                    .jobs
                    .with_label_values(&[job.phase.kind().as_str()])
                    .dec();
                count_live_reservations(&self.metrics.reservations, job, -1);
            }
            JournalChange::Site { old, new } => {
                self.live.note_placement_change();
                self.actors.clusters.request_look_of(&new.site);
                if old.as_ref().is_none_or(|old| old.shared != new.shared) {
                    let parts = new
                        .shared
                        .iter()
                        .flat_map(|shared| shared.wish.parts.keys());
                    let others: BTreeSet<_> = parts.filter(|site| **site != new.site).collect();
                    others
                        .into_iter()
                        .for_each(|site| self.actors.clusters.request_look_of(site));
                }
                self.actors.co_allocator.request_look_of(&());
                // A notification that was sent makes room for those of others.
                let owed_any = old.as_ref().is_some_and(|old| !old.owed.is_empty());
                if owed_any || !new.owed.is_empty() {
                    self.actors.notifier.request_look_of(&());
                }
            }
            JournalChange::Copy { key, old, new } => {
                self.live.note_placement_change();
                self.notify_of_copy_change(key, old.as_deref(), new.as_deref());
            }
            JournalChange::File { old, new, .. } => {
                self.live.note_placement_change();
                self.notify_of_file_change(old.as_deref(), new.as_deref());
            }
            JournalChange::IdsReserved { .. }
            | JournalChange::Swept(_)
            | JournalChange::Barrier => {}
        }
        if self.stream.receiver_count() > 0 {
            let _ = self.stream.send(CommittedChange {
                seq,
                change: Arc::new(change),
            });
        }
    }

    fn update_phase_counts<'a>(&self, old: Option<&Job>, new: impl Iterator<Item = &'a Arc<Job>>) {
        let jobs = &self.metrics.jobs;
        if let Some(old) = old {
            jobs.with_label_values(&[old.phase.kind().as_str()]).dec();
        }
        for job in new {
            jobs.with_label_values(&[job.phase.kind().as_str()]).inc();
        }
    }

    fn notify_of_job_change(&self, old: &Arc<Job>, new: &Arc<Job>, events: &[JobEvent]) {
        // The end of a run may give another one of its sweep its turn.
        let limited = new
            .spec
            .run
            .task
            .as_ref()
            .is_some_and(|task| task.at_once.is_some());
        // It may also make room within a reservation.
        let others_wait = limited || new.shared_reservation().is_some();
        let was_queued = matches!(old.phase, JobPhase::Queued { .. });
        let is_queued = matches!(new.phase, JobPhase::Queued { .. });
        let queues_change = was_queued || is_queued || (others_wait && new.is_final());
        if queues_change {
            lock(&self.dirty.jobs).insert(new.id);
        }
        if has_unclaimed_components(old) || has_unclaimed_components(new) {
            lock(&self.dirty.claims).insert(new.id);
            self.actors.claimer.request_look_of(&());
        }
        if old.is_flexibly_reserved() || new.is_flexibly_reserved() {
            lock(&self.dirty.promised).insert(new.id);
            self.actors.co_allocator.request_look_of(&());
        }
        let was_held = i64::from(old.held.is_some());
        let is_held = i64::from(new.held.is_some());
        self.metrics.held.add(is_held - was_held);
        count_live_reservations(&self.metrics.reservations, old, -1);
        count_live_reservations(&self.metrics.reservations, new, 1);
        if new.has_unsent_messages() {
            self.actors.notifier.request_look_of(&());
        }
        if old.phase.kind() != new.phase.kind() {
            self.update_phase_counts(Some(old), std::iter::once(new));
        }
        crate::job::count_job_step(&self.metrics, old, new, events);
        let before = cospan_domain::job::demands::needed_digests(old);
        let after = cospan_domain::job::demands::needed_digests(new);
        if before != after {
            lock(&self.dirty.copies).extend(before.symmetric_difference(&after).cloned());
            self.actors.data_manager.request_look_of(&());
        }
        crate::claimer::note_refused_claims(&self.live, &self.settings.job, (old, new), events);
        self.notify_sites(old, new);
        // Other changes of a job matter to jobs that wait, if any do.
        if queues_change || self.live.is_placement_awaited() {
            self.actors.co_allocator.request_look_of(&());
        }
    }

    /// Asks sites to look for attempts to poll, and reports ended ones to them while that matters.
    fn notify_sites(&self, old: &Job, new: &Job) {
        let view = self.view.load();
        for (index, component) in new.indexed_components() {
            let Some(placement) = &component.placement else {
                continue;
            };
            let before = old
                .components
                .get(index.0 as usize)
                .map(|component| &component.run);
            if before == Some(&component.run) {
                continue;
            }
            // Live attempts are polled already, though seldom while they wait in the queue.
            if before.is_none_or(|before| {
                before.may_live() != component.run.may_live()
                    || before.is_queued_at_site() != component.run.is_queued_at_site()
            }) {
                self.actors.clusters.request_look_of(&placement.site);
            }
            let doubted = view.sites.get(&placement.site).is_some_and(|record| {
                record.consecutive_errors > 0 || record.breaker != Breaker::Closed
            });
            let succeeded = match &component.run {
                AttemptState::Ended { how, .. } if component.charge.is_none() => {
                    *how == AttemptEnding::Succeeded
                }
                // Its claim was given back. A site that is to be charged gets that message instead.
                AttemptState::Idle
                    if component.charge.is_none() && before.is_some_and(AttemptState::may_live) =>
                {
                    false
                }
                _ => continue,
            };
            if doubted {
                let attempt = component.attempt;
                let attempt = AttemptId {
                    job: new.id,
                    component: index,
                    attempt,
                };
                // Only a hint, so that a full mailbox does no harm.
                let ended = AttemptOver { attempt, succeeded };
                let _ = self.actors.clusters.send_bounded(&placement.site, ended);
            }
        }
    }

    fn notify_of_copy_change(
        &self,
        key: &(Digest, SiteName),
        old: Option<&CopyRecord>,
        new: Option<&CopyRecord>,
    ) {
        // Its own actor knows; the copies that it read from, or reads from, do not.
        let old_source = old.and_then(transfer::source_key);
        let new_source = new.and_then(transfer::source_key);
        let gone = new.is_none().then(|| key.clone());
        self.mark_copies_dirty([old_source, new_source, gone].into_iter().flatten());
        let view = self.view.load();
        let old_usage = old.map(|copy| (copy.usage, copy.is_ready()));
        let new_usage = new.map(|copy| (copy.usage, copy.is_ready()));
        if self.settings.staging.contains_key(&key.1) && old_usage != new_usage {
            // A copy that is kept may have to make room.
            let unused =
                transfer::unused_copies_at(&view, &key.1).map(|(copy, _)| copy.content.digest);
            let unused: Vec<_> = unused.map(|digest| (digest, key.1.clone())).collect();
            self.mark_copies_dirty(unused.into_iter());
        }
        view.needs
            .get(key)
            .into_iter()
            .flatten()
            .for_each(|job| self.actors.jobs.request_look_of(job));
    }

    fn notify_of_file_change(&self, old: Option<&FileRecord>, new: Option<&FileRecord>) {
        self.mark_copies_dirty(old.into_iter().chain(new).flat_map(transfer::pinned_copies));
        // Jobs may have waited for a replica.
        self.actors.co_allocator.request_look_of(&());
    }

    fn mark_copies_dirty(&self, keys: impl Iterator<Item = (Digest, SiteName)>) {
        let keys: Vec<_> = keys.collect();
        if !keys.is_empty() {
            lock(&self.dirty.copies).extend(keys);
            self.actors.data_manager.request_look_of(&());
        }
    }
}

fn has_unclaimed_components(job: &Job) -> bool {
    let claims = matches!(
        job.phase,
        JobPhase::Placed { .. } | JobPhase::Claiming { .. }
    );
    job.restarting_components().next().is_some()
        || (claims && job.unclaimed_components().next().is_some())
}
