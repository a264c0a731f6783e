//! A world of sites in memory, the actors that move files, and a paused clock.

mod memory_site;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::System;
use cospan_domain::catalogue::file_state::{CatalogueEntry, FileRecord};
use cospan_domain::content::Content;
use cospan_domain::deduction::LeakedDeduction;
use cospan_domain::ids::{
    Attempt, ComponentName, Digest, InstanceId, JobId, KeyName, LogicalName, RelPath, Round,
    SiteName,
};
use cospan_domain::job::job_state::{
    AttemptEnding, AttemptState, Component, Job, JobPhase, OutputCollection, SetbackCounts,
};
use cospan_domain::job::spec::{
    ComponentSpec, ExecutableSource, FileReference, InputPortion, InputSpec, JobSpec,
    OutputDestination, OutputSpec, Priority, Program, RequestType, UnreachableAction,
};
use cospan_domain::placed::{ContentSource, Placement};
use cospan_domain::resources::Resources;
use cospan_domain::transfer::copy_state::{CopyPhase, CopyRecord};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Timestamp};
use cospan_sites::port::{InspectedFile, Site};
use cospan_storage::memory::{self, MemoryDisk};
use cospan_storage::record::RecordLoader;
use prometheus::Registry;

use super::CopyKey;
use crate::actor_settings::{ActorSettings, StagingLimits};
use crate::api::ControlPlane;
use crate::clock::RuntimeClock;
use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::deductions::DeductionHolder;
use crate::journal::{AppendChange, view_of_records};
use crate::metrics::ControlPlaneMetrics;
use crate::notifier::tests::FakeNoticeSender;
use crate::supervision::{ActorBuilder, ActorId, ActorKind, Escalation, LifeGuard};
use crate::wiring::{self, ActorWorkshop, ControlPlaneParts, report_channel};
pub(crate) use memory_site::FakeSite;

/// Runs a test in its own system, under a clock that jumps from timer to timer.
pub(crate) fn run_paused<F: Future<Output = ()> + 'static>(test: impl FnOnce() -> F) {
    let system = System::with_tokio_rt(|| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime")
    });
    // As a task among the actors', so that a test that yields lets one of theirs run.
    let ended = system.block_on(async { actix_rt::spawn(test()).await });
    if let Err(problem) = ended {
        std::panic::resume_unwind(problem.into_panic());
    }
}

pub(crate) fn site(name: &str) -> SiteName {
    SiteName::new(name).expect("a site's name")
}

pub(crate) fn name(text: &str) -> LogicalName {
    LogicalName::new(text).expect("a file's name")
}

pub(crate) fn path(text: &str) -> RelPath {
    RelPath::new(text).expect("a path")
}

pub(crate) fn key() -> KeyName {
    KeyName::new("alice").expect("a key's name")
}

/// Content that takes ten seconds over the links of [`MemoryWorld`].
pub(crate) fn content(seed: u8) -> Content {
    Content {
        digest: Digest([seed; 32]),
        size: Bytes(1_250_000),
    }
}

/// Builds the actors that move files; the others have no part in this world.
struct TransferActorBuilder(Arc<ActorWorkshop>);

impl ActorBuilder for TransferActorBuilder {
    fn build(&self, id: &ActorId, mut guard: LifeGuard, _: bool) {
        match id.kind() {
            ActorKind::Information
            | ActorKind::DataManager
            | ActorKind::Cluster
            | ActorKind::Transfer => self.0.build_actor(id, guard),
            _ => guard.disarm(),
        }
    }

    fn escalate(&self, id: &ActorId, _: Escalation) {
        panic!("{id} died too often");
    }
}

/// Everything.
pub(crate) struct MemoryWorld {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) workshop: Arc<ActorWorkshop>,
    pub(crate) sites: FakeSites,
    pub(crate) letters: Arc<FakeNoticeSender>,
    /// Why the process would have ended.
    pub(crate) fatal: Arc<Mutex<Vec<String>>>,
    disk: MemoryDisk,
}

type FakeSites = BTreeMap<SiteName, Arc<FakeSite>>;
type JournalReportReceiver = tokio::sync::mpsc::UnboundedReceiver<crate::journal::JournalReport>;

fn fake_sites(names: &[&str]) -> FakeSites {
    names
        .iter()
        .map(|text| (site(text), Arc::new(FakeSite::new(&site(text)))))
        .collect()
}

impl MemoryWorld {
    /// A world with these sites, each with a link of 1 Mbit/s to each other one.
    pub(crate) fn new(names: &[&str]) -> Self {
        Self::with_settings(names, |_| ())
    }

    /// The same with every actor, put together as in the server.
    pub(crate) fn with_all_actors(names: &[&str]) -> Self {
        Self::with_all_actors_and_settings(names, |_| {})
    }

    /// The same, with other settings.
    pub(crate) fn with_all_actors_and_settings(
        names: &[&str],
        change: impl FnOnce(&mut ActorSettings),
    ) -> Self {
        let disk = MemoryDisk::default();
        let now = Timestamp(1_000_000);
        let sites = fake_sites(names);
        let mut settings = test_settings(sites.keys());
        change(&mut settings);
        Self::start_world(sites, settings, disk, now, |parts, reports| {
            wiring::start_all(parts, Vec::new(), reports)
        })
    }

    /// The same, where copies are bounded and kept.
    pub(crate) fn with_staging_limits(names: &[&str], at: &str, staging: StagingLimits) -> Self {
        Self::with_settings(names, |settings| {
            settings.staging = BTreeMap::from([(site(at), staging)])
        })
    }

    /// The same, with other settings.
    pub(crate) fn with_settings(names: &[&str], change: impl FnOnce(&mut ActorSettings)) -> Self {
        let sites = fake_sites(names);
        let mut settings = test_settings(sites.keys());
        change(&mut settings);
        Self::with_disk(sites, settings, MemoryDisk::default(), Timestamp(1_000_000))
    }

    fn with_disk(
        sites: FakeSites,
        settings: ActorSettings,
        disk: MemoryDisk,
        now: Timestamp,
    ) -> Self {
        Self::start_world(sites, settings, disk, now, |parts, reports| {
            let names: Vec<_> = parts.sites.iter().map(|site| site.name().clone()).collect();
            let workshop = Arc::new(ActorWorkshop::new(parts));
            workshop.start_journal(Box::new(TransferActorBuilder(workshop.clone())), reports);
            let shared = &workshop.shared;
            names
                .into_iter()
                .for_each(|site| shared.start_actor(ActorId::Cluster(site)));
            shared.start_actor(ActorId::Information);
            shared.start_actor(ActorId::DataManager);
            workshop
        })
    }

    fn start_world(
        sites: FakeSites,
        settings: ActorSettings,
        disk: MemoryDisk,
        now: Timestamp,
        start: impl FnOnce(ControlPlaneParts, JournalReportReceiver) -> Arc<ActorWorkshop>,
    ) -> Self {
        let (sink, reports) = report_channel();
        let mut loader = RecordLoader::default();
        let instance = InstanceId::from_random(7);
        let opened = memory::open_and_load(&disk, instance, sink, &mut |stored| {
            loader.take_stored_value(stored).expect("a record")
        });
        let opened = opened.expect("a store in memory");
        let view = view_of_records(loader.finish().expect("records"));
        let letters = Arc::new(FakeNoticeSender::default());
        let fatal = Arc::<Mutex<Vec<String>>>::default();
        let problems = fatal.clone();
        let parts = ControlPlaneParts {
            clock: Arc::new(RuntimeClock::starting_at(now)),
            seed: opened.epoch.0,
            settings,
            instance: opened.instance,
            former: opened.former,
            epoch: opened.epoch,
            view,
            metrics: Arc::new(ControlPlaneMetrics::new(&Registry::new()).expect("metrics")),
            sites: sites
                .values()
                .map(|site| site.clone() as Arc<dyn Site>)
                .collect(),
            store: opened.journal,
            messenger: letters.clone(),
            // An earlier one is told that it lost the store.
            on_fatal: Box::new(move |problem| problems.lock().expect("whole").push(problem.into())),
        };
        let workshop = start(parts, reports);
        Self {
            shared: workshop.shared.clone(),
            workshop,
            sites,
            letters,
            fatal,
            disk,
        }
    }

    /// The same sites and what was durable, under a control plane that knows
    /// nothing else. The earlier one reaches neither sites nor store any more.
    pub(crate) async fn restart(self) -> Self {
        let (sites, settings, disk, now) = self.stop_world().await;
        Self::with_disk(sites, settings, disk, now)
    }

    /// The same with every actor, put together as in the server.
    pub(crate) async fn restart_with_all_actors(self) -> Self {
        let (sites, settings, disk, now) = self.stop_world().await;
        Self::start_world(sites, settings, disk, now, |parts, reports| {
            wiring::start_all(parts, Vec::new(), reports)
        })
    }

    async fn stop_world(self) -> (FakeSites, ActorSettings, MemoryDisk, Timestamp) {
        // Its actors keep their timers, but no call of theirs reaches a site.
        for site in self.sites.keys() {
            self.shared
                .actors
                .remove_actor(&ActorId::Cluster(site.clone()));
        }
        self.settle().await;
        let now = self.shared.clock.now();
        let settings = ActorSettings::clone(&self.shared.settings);
        (self.sites, settings, self.disk, now)
    }

    /// The control plane as its edge holds it.
    pub(crate) fn control_plane(&self) -> ControlPlane {
        self.workshop.control_plane()
    }

    /// A life of an actor that makes plans.
    pub(crate) fn deduction_holder(&self) -> DeductionHolder {
        DeductionHolder::new(self.shared.deductions.clone(), self.shared.view.clone())
    }

    /// What is deducted from sites and owned by no job.
    pub(crate) fn deduction_leaks(&self) -> Vec<LeakedDeduction> {
        let now = self.shared.clock.now();
        let view = self.shared.view.load();
        self.shared.deductions.find_leaks(&view, now)
    }

    /// Lets everything that can happen at this instant happen.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Waits for a condition: up to a day of the world's time.
    pub(crate) async fn wait_until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        for _ in 0..864_000 {
            if condition(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!(
            "never: {what}; copies are {:#?}",
            self.shared.view.load().copies
        );
    }

    pub(crate) fn fake_site(&self, name: &str) -> &FakeSite {
        &self.sites[&site(name)]
    }

    pub(crate) fn copy_record(&self, key: &CopyKey) -> Option<Arc<CopyRecord>> {
        self.shared.view.load().copies.get(key).cloned()
    }

    pub(crate) fn is_copy_ready(&self, key: &CopyKey) -> bool {
        self.copy_record(key).is_some_and(|copy| copy.is_ready())
    }

    pub(crate) fn is_copying(&self, key: &CopyKey) -> bool {
        self.copy_record(key)
            .is_some_and(|copy| matches!(copy.phase, CopyPhase::Copying { .. }))
    }

    pub(crate) async fn append(&self, change: JournalChange) {
        self.shared
            .journal()
            .send(AppendChange(change))
            .await
            .expect("a journal")
            .expect("durable");
    }

    /// Puts a file at a site and in the catalogue.
    pub(crate) async fn add_file(&self, text: &str, content: Content, at: &[&str]) {
        let place = FilePlace::User(path(text));
        let replicas = at.iter().map(|at| (site(at), place.clone())).collect();
        for at in at {
            let found = InspectedFile {
                content,
                directory: false,
            };
            self.fake_site(at)
                .lock_state()
                .files
                .insert(place.clone(), found);
        }
        let entry = CatalogueEntry {
            content,
            directory: false,
            replicas,
            registered_at: self.shared.clock.now(),
            registered_by: key(),
            stamps: BTreeMap::new(),
        };
        let file = Arc::new(FileRecord {
            name: name(text),
            entry: Some(entry),
        });
        self.append(JournalChange::File {
            name: name(text),
            old: None,
            new: Some(file),
        })
        .await;
    }

    /// A job, placed, that needs content at a site.
    pub(crate) async fn place_job(&self, id: u64, content: Content, at: &str) {
        self.place_reading(
            id,
            ContentSource {
                content,
                from: site(at),
                chunk: None,
            },
            at,
        )
        .await;
    }

    /// A job, placed at a site, that reads this there.
    pub(crate) async fn place_reading(&self, id: u64, source: ContentSource, at: &str) {
        let queued = Arc::new(queued_job(id, source.content));
        self.append(JournalChange::NewJobs(vec![queued.clone()]))
            .await;
        let mut job = Job::clone(&queued);
        let now = self.shared.clock.now();
        job.phase = JobPhase::Placed {
            at: now,
            start_estimate: now,
        };
        let placement = Placement {
            share: None,
            acquisition: Default::default(),
            site: site(at),
            sources: vec![source],
            transfer_time: DurationMs::ZERO,
        };
        job.components = vec![Component {
            placement: Some(placement),
            ..Component::default()
        }];
        self.change_job(id, job).await;
    }

    /// A job that ran at one site and has left content that belongs at another.
    pub(crate) async fn add_collecting_job(&self, id: u64, content: Content, from: &str, to: &str) {
        let mut job = queued_job(id, content);
        let mut spec = JobSpec::clone(&job.spec);
        let collect = OutputDestination::ToSite {
            site: site(to),
            register: name("result"),
        };
        spec.components[0].outputs = vec![OutputSpec {
            path: path("out"),
            collect,
        }];
        job.spec = Arc::new(spec);
        self.append(JournalChange::NewJobs(vec![Arc::new(job.clone())]))
            .await;
        job.phase = JobPhase::Collecting {
            since: self.shared.clock.now(),
        };
        let site = site(from);
        let sources = Vec::new();
        let placement = Placement {
            site,
            sources,
            transfer_time: DurationMs::ZERO,
            share: None,
            acquisition: Default::default(),
        };
        job.components = vec![Component {
            placement: Some(placement),
            attempt: Attempt(3),
            run: AttemptState::Ended {
                how: AttemptEnding::Succeeded,
                at: self.shared.clock.now(),
            },
            collected: vec![OutputCollection {
                content: Some(content),
                done: false,
            }],
            ..Component::default()
        }];
        self.change_job(id, job).await;
    }

    pub(crate) async fn finish_job(&self, id: u64) {
        let mut job = Job::clone(&self.shared.view.load().jobs[&JobId(id)]);
        let at = self.shared.clock.now();
        job.phase = JobPhase::Finished { at };
        for component in &mut job.components {
            let how = AttemptEnding::Succeeded;
            component.run = AttemptState::Ended { how, at };
        }
        self.change_job(id, job).await;
    }

    /// A change that nobody decided on.
    pub(crate) async fn change_job(&self, id: u64, mut new: Job) {
        new.revision += 1;
        let old = self.shared.view.load().jobs[&JobId(id)].clone();
        self.append(JournalChange::Job {
            old,
            new: Arc::new(new),
            events: Vec::new(),
        })
        .await;
    }
}

/// A job in its queue that reads content under the name `input`.
pub(crate) fn queued_job(id: u64, content: Content) -> Job {
    let program = Program {
        executable: ExecutableSource::AtSite("true".into()),
        arguments: Vec::new(),
        environment: BTreeMap::new(),
        directory: None,
        setup: Vec::new(),
    };
    let file = FileReference {
        name: name("input"),
        bound: Some(content),
    };
    let component = ComponentSpec {
        name: ComponentName::new("only").expect("a name"),
        site: None,
        resources: Resources::default(),
        constraints: Vec::new(),
        program: program.into(),
        inputs: vec![InputSpec {
            file,
            path: path("input"),
            feed: InputPortion::Whole,
        }],
        outputs: Vec::new(),
        at: BTreeMap::new(),
        restart: None,
        start_after: DurationMs::ZERO,
    };
    let spec = JobSpec {
        name: None,
        request: RequestType::NonFixed,
        components: vec![component],
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
    Job {
        id: JobId(id),
        spec: Arc::new(spec),
        owner: key(),
        idempotency: None,
        submitted_at: Timestamp(0),
        priority: Priority::Low,
        frozen_by: None,
        held: None,
        phase: JobPhase::Queued {
            since: Timestamp(0),
            not_before: Timestamp(0),
        },
        round: Round(0),
        inputs_here: false,
        start_at: None,
        components: Vec::new(),
        setbacks: SetbackCounts::default(),
        next_claim: None,
        preempting: Vec::new(),
        promoted: false,
        instants: Default::default(),
        placed_by: None,
        wish: Default::default(),
        reservation: None,
        told: Default::default(),
        revision: 1,
    }
}

fn test_settings<'a>(sites: impl Iterator<Item = &'a SiteName> + Clone) -> ActorSettings {
    let pairs = sites
        .clone()
        .flat_map(|from| sites.clone().map(move |to| (from, to)));
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
        poll_interval: DurationMs::from_secs(5),
        reconcile_interval: DurationMs::from_secs(300),
        submit_settle: BTreeMap::new(),
        transfer: Default::default(),
        bids: Default::default(),
        links: pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to): (&SiteName, &SiteName)| {
                ((from.clone(), to.clone()), BitsPerSecond(1_000_000))
            })
            .collect(),
        network: Default::default(),
        staging: BTreeMap::new(),
        calls_per_site: 8,
        keep_attempts: DurationMs::from_secs(3_600),
        keep_jobs: DurationMs::from_secs(3_600),
        job_memory: crate::actor_settings::JobMemoryLimits::UNBOUNDED,
        intake_bound: 64,
        webhooks: BTreeMap::new(),
        targets: ["team", "gone"]
            .map(|name| (name.parse().expect("a name"), name.into()))
            .into(),
        tell_for: DurationMs::from_secs(3_600),
        fallback_tick: None,
    }
}
