//! A site on this machine: a directory tree, a number of processors, real processes.
//!
//! Every attempt runs through the wrapper, in its own process group, with its output in files. All
//! that ties it to us is the bell at its gate, whose end it survives as it survives ours: a new
//! [`LocalSite`] on the same root takes it up from the files that it left. Number, start time and
//! boot identify a process; nothing else is ever signalled.
//!
//! Below the root: `site-id` (without it the directory is not the site), `spool/<tag>/` (what the
//! wrapper reads), `attempts/<tag>/` (made by the wrapper), `live/<tag>` (what uses resources),
//! `gone/` (being removed), `owner` (which control plane has it).

mod attempt_processes;
pub(crate) mod attempt_root;
mod attempt_watch;
mod end_attempt;
mod final_evidence;
mod gate_bell;
mod live_attempts;
mod live_entry;
mod local_reservations;
pub mod machine;
mod measure_latency;
mod read_evidence;
pub(crate) mod root_check;
pub(crate) mod root_owner;
mod site_calls;
mod spawn_wrapper;
mod sweeper;
mod uptime;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cospan_domain::ids::{AttemptTag, HostName, InstanceId, LrmId, SiteName};
use cospan_domain::labels::SiteLabels;
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, DurationUs, Timestamp};

use self::attempt_root::VerifiedSiteRoot;
use self::attempt_watch::WatcherWaker;
use self::live_attempts::LiveAttempts;
use self::root_owner::RootLock;
use self::sweeper::TreeRemover;
use crate::blocking_calls::BlockingCalls;
use crate::clock::SteadyClock;
use crate::files::attached_files::{AttachedFiles, AttachedRoot, RootGuard};
use crate::files::{FileArea, FileAreaConfig};
use crate::ping;
use crate::port::{
    AcceptedAttempt, AttemptSubmitRequest, Gate, GateDecision, GateState, Site, SiteCopies,
    SiteDescription, SiteError, SiteFiles, SiteMonitor, SiteQueue, SiteReservations, SiteStatus,
    TagLookupAnswer,
};
use crate::root_place;
use crate::wrapper::attempt_words::AttemptAuthenticator;

/// The configuration of a local site.
#[derive(Debug, Clone)]
pub struct LocalSiteConfig {
    /// The name of the site.
    pub name: SiteName,
    /// The directory tree of the site; an absolute path.
    pub root: PathBuf,
    /// All resources that it has.
    pub total: Resources,
    /// The labels of the site.
    pub labels: SiteLabels,
    /// Environment of the payloads; nothing else of ours reaches them.
    pub environment: BTreeMap<String, String>,
    /// True if it grants reservations.
    pub reservations: bool,
    /// The shell that runs the wrapper.
    pub shell: PathBuf,
    /// The time from TERM to KILL when an attempt is ended.
    pub grace: DurationMs,
    /// The interval at which a wrapper looks at its gate without a hint.
    pub poll: DurationMs,
    /// The longest that a call may take.
    pub deadline: DurationMs,
    /// A file with the number of processors that others use, read at each status.
    pub foreign_load: Option<PathBuf>,
    /// The command line of the agent that copies and digests files; see [`FileAreaConfig::agent`].
    pub agent: Vec<OsString>,
    /// A copy has failed if no byte moves for this long.
    pub stall: DurationMs,
    /// The command line that measures how far a host is, which is its last argument; it
    /// prints what `ping` prints.
    pub ping: Vec<String>,
    /// Roots of the sites on this machine that copies may come from.
    pub neighbours: BTreeMap<SiteName, PathBuf>,
    /// The seal that proves what wrappers wrote; none if left out.
    pub seal: AttemptAuthenticator,
    /// The control plane that is to have the root for itself; `None`: nobody is kept out.
    pub owner: Option<InstanceId>,
    /// The data directory of that control plane, for whoever finds that the root is in use.
    pub data_directory: PathBuf,
}

impl LocalSiteConfig {
    /// Makes one with ordinary settings, an ordinary `PATH` as its environment, and no neighbours.
    pub fn new(name: SiteName, root: PathBuf, total: Resources, agent: Vec<OsString>) -> Self {
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        Self {
            name,
            root,
            total,
            labels: SiteLabels::new(),
            environment: [("PATH".to_owned(), path.to_owned())].into(),
            reservations: true,
            shell: "/bin/sh".into(),
            grace: DurationMs::from_secs(5),
            poll: DurationMs::from_secs(5),
            deadline: DurationMs::from_secs(10),
            foreign_load: None,
            agent,
            stall: DurationMs::from_secs(60),
            ping: ping::ping_command(),
            neighbours: BTreeMap::new(),
            seal: AttemptAuthenticator::without_words(),
            owner: None,
            data_directory: PathBuf::new(),
        }
    }
}

/// A site on this machine. A clone is another handle of it.
#[derive(Debug, Clone)]
pub struct LocalSite {
    shared: Arc<LocalSiteState>,
    calls: BlockingCalls,
    files: AttachedFiles,
}

/// The state that calls, endings and the watcher share.
#[derive(Debug)]
struct LocalSiteState {
    config: LocalSiteConfig,
    ledger: Mutex<LiveAttempts>,
    hold: RootLock,
    sweeper: TreeRemover,
    /// Attempts whose ending a thread drives.
    ending: Mutex<BTreeSet<AttemptTag>>,
    changes: tokio::sync::watch::Sender<u64>,
    waker: WatcherWaker,
    /// The reason why nothing can be begun, as the latest status found.
    trouble: Mutex<Option<String>>,
}

impl LocalSite {
    /// Makes the site of this configuration. Touches nothing: a site that is not there now may come
    /// back, and says so in each call.
    ///
    /// # Errors
    /// `Refused` if the root or the agent is not an absolute path.
    pub fn new(config: LocalSiteConfig) -> Result<Self, SiteError> {
        let area = FileArea::new(FileAreaConfig {
            root: config.root.clone(),
            attempts: attempt_root::ATTEMPTS.to_owned(),
            agent: config.agent.clone(),
            stall: Duration::from_millis(config.stall.0),
        })?;
        let calls = BlockingCalls::new(config.deadline);
        let shared = Arc::new(LocalSiteState {
            config,
            ledger: Mutex::new(LiveAttempts::default()),
            hold: RootLock::default(),
            sweeper: TreeRemover::default(),
            ending: Mutex::default(),
            changes: tokio::sync::watch::Sender::new(0),
            waker: WatcherWaker::new(),
            trouble: Mutex::default(),
        });
        let root = AttachedRoot {
            area,
            guard: shared.clone(),
            name: shared.config.name.clone(),
            path: shared.config.root.clone(),
            neighbours: shared.config.neighbours.clone(),
        };
        Ok(Self {
            shared,
            files: AttachedFiles::new(root, calls.clone()),
            calls,
        })
    }

    /// Returns its configuration.
    pub fn config(&self) -> &LocalSiteConfig {
        &self.shared.config
    }

    /// Makes a directory the root of a new site, or finds that it is already.
    ///
    /// # Errors
    /// The directory cannot be made, is another site's, or must not be one: see [`root_place`].
    pub fn make_root(&self) -> Result<(), SiteError> {
        let config = &self.shared.config;
        root_place::check_root_place(&config.root, &config.name)
            .map_err(|error| root_refusal(config, &error))?;
        VerifiedSiteRoot::initialise_root(&config.root, &config.name).map_err(|error| {
            let remedy = "see that the server's account may write there, and that there is room";
            root_refusal(config, &format_args!("{error}; {remedy}"))
        })?;
        self.files.known_area().prepare_root()
    }

    /// Takes the root for its owner, before anything is done there, and mends what a power cut left
    /// of its marker. A root that is not there now is taken once it is.
    ///
    /// # Errors
    /// `OutOfOrder` if another control plane has it, with both names and the remedy; `NotSent` if
    /// it cannot be prepared.
    pub fn take_root(&self) -> Result<(), SiteError> {
        let config = &self.shared.config;
        // A marker that cannot be mended is an error each time that the root is opened.
        let _ = VerifiedSiteRoot::mend_marker(&config.root, &config.name);
        let Ok(root) = VerifiedSiteRoot::open(&config.root, &config.name) else {
            return Ok(());
        };
        // A root with a disorder is not taken either: each call reports it.
        if !matches!(root.find_disorder(), Ok(None)) {
            return Ok(());
        }
        self.shared.ensure_root_is_ours(&root)
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<LocalSiteState>) -> Result<T, SiteError> + Send + 'static,
    ) -> Result<T, SiteError> {
        let shared = self.shared.clone();
        self.calls.run(move || work(&shared)).await
    }
}

fn root_refusal(config: &LocalSiteConfig, error: &dyn std::fmt::Display) -> SiteError {
    let place = config.root.display();
    SiteError::Refused(format!(
        "{place} cannot be the root of {}: {error}",
        config.name
    ))
}

impl LocalSiteState {
    fn open_root(&self) -> Result<VerifiedSiteRoot, SiteError> {
        let root =
            VerifiedSiteRoot::open(&self.config.root, &self.config.name).map_err(|error| {
                SiteError::NotSent(format!("{}: {error}", self.config.root.display()))
            })?;
        self.ensure_root_is_ours(&root)?;
        Ok(root.with_authenticator(&self.config.seal))
    }

    /// Opens the root if all our directories and files in it are in order.
    fn open_sound_root(&self) -> Result<VerifiedSiteRoot, SiteError> {
        let config = &self.config;
        // This comes before locking, which opens a file of it.
        if let Ok(root) = VerifiedSiteRoot::open(&config.root, &config.name)
            && let Some(disorder) = root.find_disorder().map_err(|e| not_done_error(&e))?
        {
            return Err(SiteError::OutOfOrder(disorder));
        }
        self.open_root()
    }

    fn lock_ledger(&self) -> MutexGuard<'_, LiveAttempts> {
        // A panic while it was locked left whole entries; their truth is on disk.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RootGuard for LocalSiteState {
    fn check(&self) -> Result<(), SiteError> {
        self.open_root().map(drop)
    }
}

/// Returns the time here, which is the control plane's: nobody sets it.
fn steady_now() -> Timestamp {
    SteadyClock::of_process().now()
}

/// Makes an error for a call that did nothing.
fn not_done_error(error: &std::io::Error) -> SiteError {
    SiteError::NotSent(error.to_string())
}

/// Makes an error for a call whose effect nobody knows.
fn outcome_unknown_error(error: &std::io::Error) -> SiteError {
    SiteError::OutcomeUnknown(error.to_string())
}

#[async_trait]
impl SiteQueue for LocalSite {
    /// Each call makes sure that the root is locked for us, if it should be.
    fn is_ours_alone(&self) -> bool {
        self.shared.config.owner.is_some()
    }

    async fn status(&self, tags: &[AttemptTag]) -> Result<SiteStatus, SiteError> {
        let tags = tags.to_vec();
        self.run_blocking(move |shared| shared.status(&tags)).await
    }

    async fn submit(&self, order: &AttemptSubmitRequest) -> Result<AcceptedAttempt, SiteError> {
        let order = order.clone();
        self.run_blocking(move |shared| shared.submit(&order)).await
    }

    async fn find_by_tag(&self, tag: AttemptTag) -> Result<TagLookupAnswer, SiteError> {
        self.run_blocking(move |shared| shared.find_by_tag(tag))
            .await
    }

    async fn cancel(&self, tag: AttemptTag, _lrm_id: Option<&LrmId>) -> Result<(), SiteError> {
        self.run_blocking(move |shared| shared.cancel(tag)).await
    }

    /// There is no queue: whatever was submitted has been started.
    async fn withdraw(&self, _tag: AttemptTag, _lrm_id: &LrmId) -> Result<(), SiteError> {
        Ok(())
    }

    async fn remove_attempt(&self, tag: AttemptTag) -> Result<(), SiteError> {
        self.run_blocking(move |shared| shared.remove_attempt(tag))
            .await
    }

    async fn list_attempts(&self) -> Result<Vec<AttemptTag>, SiteError> {
        self.run_blocking(|shared| shared.list_attempts()).await
    }
}

#[async_trait]
impl Gate for LocalSite {
    async fn decide_gate(
        &self,
        tag: AttemptTag,
        decision: &GateDecision,
    ) -> Result<GateState, SiteError> {
        let decision = decision.clone();
        self.run_blocking(move |shared| shared.decide_gate(tag, &decision))
            .await
    }
}

#[async_trait]
impl SiteMonitor for LocalSite {
    async fn describe(&self) -> Result<SiteDescription, SiteError> {
        self.run_blocking(|shared| shared.describe()).await
    }

    async fn round_trip(&self, to: &HostName) -> Result<DurationUs, SiteError> {
        self.measure_round_trip(to).await
    }

    fn changes(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        Some(self.shared.changes.subscribe())
    }

    fn trouble(&self) -> Option<String> {
        self.shared
            .trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Site for LocalSite {
    fn name(&self) -> &SiteName {
        &self.shared.config.name
    }

    fn monitor(&self) -> &dyn SiteMonitor {
        self
    }

    fn queue(&self) -> &dyn SiteQueue {
        self
    }

    fn gate(&self) -> &dyn Gate {
        self
    }

    fn files(&self) -> &dyn SiteFiles {
        &self.files
    }

    fn copies(&self) -> &dyn SiteCopies {
        &self.files
    }

    fn reservations(&self) -> Option<&dyn SiteReservations> {
        self.shared.config.reservations.then_some(self)
    }
}
