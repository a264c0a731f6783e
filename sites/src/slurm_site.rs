//! A cluster under Slurm, driven by an ordinary account of it.
//!
//! The agent script does all work there, through [`crate::exec`]. The site's root is a directory
//! that its nodes share; below it is what a local site has, too: `site-id`, `spool/<tag>/`,
//! `attempts/<tag>/`, `gone/`. A job is ours if it was submitted below this root and has the number
//! that Slurm gave to an attempt, or its name or comment. Nothing is ever
//! done to a job by its number before it was looked at.

mod accounts;
mod agent_calls;
mod attempt_numbers;
mod attempt_state;
#[cfg(test)]
mod cancels_tests;
#[cfg(test)]
mod clock_tests;
pub mod cluster_check;
pub mod cluster_remains;
mod errors;
pub mod findings;
#[cfg(test)]
mod forgotten_tests;
mod hosts;
mod idle_estimate;
mod latest_reports;
mod nodes;
mod occupancy;
mod option_check;
mod options;
mod partitions;
mod polls;
#[cfg(test)]
mod polls_tests;
mod queue;
mod reservation_rights;
mod root_ownership;
mod signs_of_life;
mod slurm_reservations;
#[cfg(test)]
mod slurm_reservations_tests;
mod times;
mod trial_findings;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cospan_domain::acquisition::SitePartitions;
use cospan_domain::ids::{AttemptTag, HostName, InstanceId, LrmId, SiteName};
use cospan_domain::labels::SiteLabels;
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, DurationUs, Timestamp};
use tokio::time::Instant;

use self::root_ownership::RootOwnershipKind;
use crate::agent::{self, SiteAgentAnswer, SiteAgentClient, SiteAgentRequest};
use crate::blocking_calls::BlockingCalls;
use crate::clock::SteadyClock;
use crate::exec::{CommandChannel, CommandExecutor, ExecCommand, ProgramOrScript};
use crate::files::attached_files::{AttachedFiles, AttachedRoot, RootGuard};
use crate::files::remote_file_area::RemoteFileArea;
use crate::files::{FileArea, FileAreaConfig, RootedFiles, SourcesBySite};
use crate::local_site::attempt_root::{ATTEMPTS, VerifiedSiteRoot};
use crate::ping;
use crate::port::{
    AcceptedAttempt, AttemptSubmitRequest, Gate, GateDecision, GateState, Site, SiteCopies,
    SiteDescription, SiteError, SiteFiles, SiteMonitor, SiteQueue, SiteReservations, SiteStatus,
    TagLookupAnswer,
};
use crate::wrapper::attempt_words::AttemptAuthenticator;
use crate::wrapper::parameters::SlowPollTiming;

pub use option_check::check_option;
pub use options::LANES;
pub use times::parse_time;

/// Slurm's part of the agent's script.
const MANAGER: &str = include_str!("slurm/slurm.sh");

/// The part that reserves.
const RESERVES: &str = include_str!("slurm/reservations.sh");

/// The part that submits.
const SUBMITS: &str = concat!(
    include_str!("slurm/variables.sh"),
    include_str!("slurm/submission.sh")
);

/// The part that unsets what start files set.
const VARIABLES: &str = include_str!("slurm/variables.sh");

/// A program that measures a round trip for longer than this has no answer.
const PING_LONGEST: Duration = Duration::from_secs(20);

/// The configuration of a site under Slurm.
#[derive(Debug, Clone)]
pub struct SlurmSiteConfig {
    /// The name of the site.
    pub name: SiteName,
    /// The directory tree of the site, as this machine and all nodes of the cluster name it.
    pub root: PathBuf,
    /// All that may be used of it; never more processors than its partition has. Memory and GPUs
    /// that are not named are those of its nodes.
    pub total: Resources,
    /// The labels of the site.
    pub labels: SiteLabels,
    /// Configuration file of Slurm that names the cluster; the installation's own if left out.
    pub slurm_conf: Option<PathBuf>,
    /// Partition to submit to; Slurm's default if left out.
    pub partition: Option<String>,
    /// Account to charge.
    pub account: Option<String>,
    /// Quality of service.
    pub qos: Option<String>,
    /// Features that nodes must have.
    pub constraint: Option<String>,
    /// Reservation to run in.
    pub reservation: Option<String>,
    /// True if it grants reservations: the account may make them in Slurm.
    pub reservations: bool,
    /// True if a component that cannot start at once may wait in Slurm's queue.
    pub queues: bool,
    /// True if nothing is claimed: every component waits in the queue.
    pub queues_only: bool,
    /// The time from TERM to KILL when an attempt is ended; shortened to what Slurm leaves.
    pub grace: DurationMs,
    /// The interval at which a wrapper looks at its gate.
    pub poll: DurationMs,
    /// For this long Slurm is not asked again about its nodes, nor about attempts that it said wait
    /// or run, if their files say no more.
    pub memory: DurationMs,
    /// The longest that a status query may take: after half of it Slurm has no answer, and the
    /// files of attempts are read without.
    pub query: DurationMs,
    /// The longest that a call may take.
    pub deadline: DurationMs,
    /// Command line of the agent that copies and digests files; see [`FileAreaConfig::agent`].
    pub copy_agent: Vec<OsString>,
    /// A copy has failed if no byte moves for this long.
    pub stall: DurationMs,
    /// The command line that measures how far a host is, which is its last argument.
    pub ping: Vec<String>,
    /// Roots of the sites on this machine that copies may come from.
    pub neighbours: BTreeMap<SiteName, PathBuf>,
    /// Sites whose copies pass through this process.
    pub sources: SourcesBySite,
    /// The seal that proves what wrappers wrote; none if left out.
    pub seal: AttemptAuthenticator,
    /// The control plane that is to have the root for itself; `None`: nobody is kept out.
    pub owner: Option<InstanceId>,
    /// The data directory of that control plane, for whoever finds that the root is in use.
    pub data_directory: PathBuf,
}

impl SlurmSiteConfig {
    /// Makes one with ordinary settings, in the default partition.
    pub fn new(name: SiteName, root: PathBuf, total: Resources, copy_agent: Vec<OsString>) -> Self {
        Self {
            name,
            root,
            total,
            labels: SiteLabels::new(),
            slurm_conf: None,
            partition: None,
            account: None,
            qos: None,
            constraint: None,
            reservation: None,
            reservations: false,
            queues: true,
            queues_only: false,
            grace: DurationMs::from_secs(5),
            poll: DurationMs::from_secs(1),
            memory: DurationMs::from_secs(10),
            query: DurationMs::from_secs(10),
            deadline: DurationMs::from_secs(20),
            copy_agent,
            stall: DurationMs::from_secs(60),
            ping: ping::ping_command(),
            neighbours: BTreeMap::new(),
            sources: SourcesBySite::new(),
            seal: AttemptAuthenticator::without_words(),
            owner: None,
            data_directory: PathBuf::new(),
        }
    }

    /// Makes the files of a site whose root this machine has.
    fn attach_files(&self, name: SiteName, root: PathBuf) -> Result<AttachedFiles, SiteError> {
        let area = FileArea::new(FileAreaConfig {
            root: root.clone(),
            attempts: ATTEMPTS.to_owned(),
            agent: self.copy_agent.clone(),
            stall: Duration::from_millis(self.stall.0),
        })?;
        let guard = Arc::new(MarkedRoot {
            name: name.clone(),
            path: root.clone(),
        });
        let root = AttachedRoot {
            area,
            guard,
            name,
            path: root,
            neighbours: self.neighbours.clone(),
        };
        Ok(AttachedFiles::new(root, BlockingCalls::new(self.deadline)))
    }
}

/// A root that has the marker of its site.
#[derive(Debug)]
struct MarkedRoot {
    name: SiteName,
    path: PathBuf,
}

impl RootGuard for MarkedRoot {
    fn check(&self) -> Result<(), SiteError> {
        VerifiedSiteRoot::open(&self.path, &self.name)
            .map(drop)
            .map_err(|error| SiteError::NotSent(format!("{}: {error}", self.path.display())))
    }
}

/// Facts that Slurm reports of itself.
#[derive(Debug, Clone, Default)]
struct SlurmClusterFacts {
    /// The time from TERM to KILL of a job that Slurm ends.
    kill_wait: Option<DurationMs>,
    /// Memory and GPUs of the site's partition.
    amounts: BTreeMap<Arc<str>, u64>,
    /// The partitions of the cluster.
    lanes: SitePartitions,
    /// True if any of its nodes has disk that Slurm counts.
    counts_disk: bool,
    /// True if jobs get memory of their own, which others then do not have.
    counts_memory: bool,
    /// True if `squeue` tells a name of each run of a job.
    tells_runs: bool,
}

/// The interval at which a wrapper looks at its gate after a long wait.
pub const SELDOM: SlowPollTiming = SlowPollTiming {
    poll: DurationMs::from_secs(5),
    after: DurationMs::from_secs(60),
};

/// The part of KillWait that is not the payload's: Slurm then kills its
/// wrapper too, which must report.
const BEFORE_KILL: DurationMs = DurationMs::from_secs(2);

/// Reads a setting of Slurm's configuration.
fn slurm_setting<'a>(answer: &'a SiteAgentAnswer, name: &str) -> Option<&'a str> {
    answer.values_of("config").find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// Returns true if a Slurm of this version has a name of each run, and `squeue` a letter for it.
fn version_tells_runs(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u32>);
    matches!((parts.next(), parts.next()), (Some(Ok(year)), Some(Ok(month))) if (year, month) >= (26, 5))
}

/// Reads `5 sec`.
fn parse_kill_wait(text: &str) -> Option<DurationMs> {
    text.split(' ')
        .next()?
        .parse()
        .ok()
        .map(DurationMs::from_secs)
}

/// Returns the time from TERM to KILL of a payload: shorter than what Slurm gives a job itself.
fn payload_grace(wanted: DurationMs, kill_wait: Option<DurationMs>) -> DurationMs {
    let most = kill_wait.map_or(wanted, |wait| {
        DurationMs(wait.0.saturating_sub(BEFORE_KILL.0))
    });
    most.min(wanted).max(DurationMs::from_secs(1))
}

/// A cluster under Slurm.
#[derive(Debug)]
pub struct SlurmSite {
    config: SlurmSiteConfig,
    agent: SiteAgentClient,
    files: Box<dyn RootedFiles>,
    facts: Mutex<Option<SlurmClusterFacts>>,
    /// The times since when no process of an attempt has been seen.
    over: Mutex<BTreeMap<AttemptTag, Instant>>,
    /// The times of the first request to end an attempt.
    told_to_end: Mutex<BTreeMap<AttemptTag, Instant>>,
    heard: Mutex<latest_reports::LatestSlurmReports>,
    held: RootOwnershipKind,
    /// The reason why nothing can be begun there, as its latest status said.
    trouble: Mutex<Option<String>>,
}

impl SlurmSite {
    /// Makes a cluster whose root this machine has as well, reached
    /// through `exec`. Touches nothing.
    ///
    /// # Errors
    /// `Refused` if the root or the agent is not an absolute path, or the root
    /// cannot be a word of a line.
    pub fn new(config: SlurmSiteConfig, exec: Arc<dyn CommandExecutor>) -> Result<Self, SiteError> {
        let agent = make_agent(&config, exec)?;
        let files = config.attach_files(config.name.clone(), config.root.clone())?;
        Ok(Self::with_parts(
            config,
            agent,
            Box::new(files),
            RootOwnershipKind::Here(Arc::default()),
        ))
    }

    /// Makes a cluster whose root this machine does not have: files go through `exec`, too. Its
    /// inputs come from the neighbours. Touches nothing.
    ///
    /// # Errors
    /// As for [`SlurmSite::new`].
    pub fn with_remote_root(
        config: SlurmSiteConfig,
        exec: Arc<dyn CommandExecutor>,
    ) -> Result<Self, SiteError> {
        let agent = make_agent(&config, exec)?;
        let mut sources = config.sources.clone();
        for (name, root) in config
            .neighbours
            .iter()
            .filter(|(name, _)| **name != config.name)
        {
            let files = config.attach_files(name.clone(), root.clone())?;
            sources.insert(name.clone(), Arc::new(files));
        }
        let files = RemoteFileArea::new(agent.clone(), sources);
        Ok(Self::with_parts(
            config,
            agent,
            Box::new(files),
            RootOwnershipKind::There(Mutex::default()),
        ))
    }

    /// Makes the files of such a cluster, to be read only.
    ///
    /// # Errors
    /// As for [`SlurmSite::new`].
    pub fn remote_source_files(
        config: &SlurmSiteConfig,
        exec: Arc<dyn CommandExecutor>,
    ) -> Result<Arc<dyn RootedFiles>, SiteError> {
        Ok(Arc::new(RemoteFileArea::new(
            make_agent(config, exec)?,
            SourcesBySite::new(),
        )))
    }

    fn with_parts(
        config: SlurmSiteConfig,
        agent: SiteAgentClient,
        files: Box<dyn RootedFiles>,
        held: RootOwnershipKind,
    ) -> Self {
        let facts = Mutex::default();
        let heard = Mutex::default();
        let trouble = Mutex::default();
        let over = Mutex::default();
        let told_to_end = Mutex::default();
        Self {
            config,
            agent,
            files,
            facts,
            over,
            told_to_end,
            heard,
            held,
            trouble,
        }
    }

    /// Makes a directory the root of a new site, or finds that it is already.
    ///
    /// # Errors
    /// The directory cannot be made, is another site's, or must not be one: see
    /// [`crate::root_place`].
    pub async fn make_root(&self) -> Result<(), SiteError> {
        self.agent.initialise_root().await?;
        self.files.prepare().await
    }

    /// Returns all that may be used of it: if its configuration names no amount, that of its nodes.
    fn usable_total(&self) -> Resources {
        let facts = self.lock_facts();
        let amounts = facts.as_ref().map(|facts| &facts.amounts);
        self.partition_total(amounts.unwrap_or(&BTreeMap::new()))
    }

    /// Returns the same of a partition that has these amounts.
    fn partition_total(&self, amounts: &BTreeMap<Arc<str>, u64>) -> Resources {
        let mut total = self.config.total.clone();
        for (name, count) in amounts {
            total.others.entry(name.clone()).or_insert(*count);
        }
        total
    }

    fn lock_facts(&self) -> MutexGuard<'_, Option<SlurmClusterFacts>> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if Slurm is known to have a name of each run.
    fn tells_runs(&self) -> bool {
        let facts = self.lock_facts();
        facts.as_ref().is_some_and(|facts| facts.tells_runs)
    }

    fn lock_reports(&self) -> MutexGuard<'_, latest_reports::LatestSlurmReports> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_over_since(&self) -> MutexGuard<'_, BTreeMap<AttemptTag, Instant>> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_cancelled_at(&self) -> MutexGuard<'_, BTreeMap<AttemptTag, Instant>> {
        self.told_to_end
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn make_agent(
    config: &SlurmSiteConfig,
    exec: Arc<dyn CommandExecutor>,
) -> Result<SiteAgentClient, SiteError> {
    // A line of `squeue` has it between bars.
    let root = &config.root;
    if !root.is_absolute()
        || root
            .to_str()
            .is_none_or(|root: &str| root.contains(|c: char| c.is_control() || c == '|'))
    {
        let why =
            format!("the root {root:?} is not absolute, has a bar, or is no text of one line");
        return Err(SiteError::Refused(why));
    }
    Ok(SiteAgentClient {
        exec,
        text: agent::agent_script(SUBMITS, &[MANAGER, RESERVES]),
        site: config.name.clone(),
        root: root.clone(),
        environment: agent_environment(config),
        deadline: Duration::from_millis(config.deadline.0),
    })
}

fn agent_environment(config: &SlurmSiteConfig) -> BTreeMap<OsString, OsString> {
    let conf = config.slurm_conf.iter();
    conf.map(|path| ("SLURM_CONF".into(), path.clone().into_os_string()))
        .collect()
}

/// Returns the control plane's time.
fn steady_now() -> Timestamp {
    SteadyClock::of_process().now()
}

#[async_trait]
impl SiteQueue for SlurmSite {
    fn check_option(&self, option: &Arc<str>) -> Option<Result<(), String>> {
        Some(check_option(option).map(drop).map_err(|error| match error {
            SiteError::Unfit(why) => why,
            other => other.to_string(),
        }))
    }

    async fn status(&self, tags: &[AttemptTag]) -> Result<SiteStatus, SiteError> {
        self.status_of(tags).await
    }

    async fn submit(&self, order: &AttemptSubmitRequest) -> Result<AcceptedAttempt, SiteError> {
        self.submit_attempt(order).await
    }

    async fn find_by_tag(&self, tag: AttemptTag) -> Result<TagLookupAnswer, SiteError> {
        self.find_submissions(tag).await
    }

    /// Ends whatever is in the queue under the tag; the number is not used.
    async fn cancel(&self, tag: AttemptTag, _lrm_id: Option<&LrmId>) -> Result<(), SiteError> {
        self.end_attempt(tag).await
    }

    async fn withdraw(&self, tag: AttemptTag, lrm_id: &LrmId) -> Result<(), SiteError> {
        let words = ["withdraw", &tag.to_string(), lrm_id.as_str()];
        let answer = self
            .agent
            .send_request(&words, SiteAgentRequest::default())
            .await;
        self.forget_queue();
        answer?;
        Ok(())
    }

    async fn remove_attempt(&self, tag: AttemptTag) -> Result<(), SiteError> {
        self.remove_remains(tag).await
    }

    async fn list_attempts(&self) -> Result<Vec<AttemptTag>, SiteError> {
        self.list_tags().await
    }
}

#[async_trait]
impl Gate for SlurmSite {
    async fn decide_gate(
        &self,
        tag: AttemptTag,
        decision: &GateDecision,
    ) -> Result<GateState, SiteError> {
        self.decide_at_gate(tag, decision).await
    }
}

#[async_trait]
impl SiteMonitor for SlurmSite {
    async fn describe(&self) -> Result<SiteDescription, SiteError> {
        self.describe_site().await
    }

    async fn round_trip(&self, to: &HostName) -> Result<DurationUs, SiteError> {
        self.files.check_root().await?;
        let words = self.config.ping.iter().map(OsString::from);
        let command = ExecCommand {
            work: ProgramOrScript::Program(words.chain([to.as_str().into()]).collect()),
            lane: CommandChannel::Control,
            input: Vec::new(),
            environment: [("LC_ALL".into(), "C".into())].into(),
            deadline: PING_LONGEST,
            output_max: 64 << 10,
        };
        let line = self.config.ping.join(" ");
        let why = match self.agent.exec.run(command).await {
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                if let Some(shortest) = ping::parse_shortest_round_trip(&text) {
                    return Ok(shortest);
                }
                output.ended.to_string()
            }
            Err(error) => error.to_string(),
        };
        Err(SiteError::OutcomeUnknown(format!(
            "\"{line} {to}\" tells nothing: {why}"
        )))
    }

    fn trouble(&self) -> Option<String> {
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Site for SlurmSite {
    fn name(&self) -> &SiteName {
        &self.config.name
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
        &*self.files
    }

    fn copies(&self) -> &dyn SiteCopies {
        &*self.files
    }

    fn reservations(&self) -> Option<&dyn SiteReservations> {
        self.config.reservations.then_some(self)
    }
}
