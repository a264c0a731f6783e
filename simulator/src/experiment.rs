//! Runs a workload through one control plane, from its first submission to the end of its last job.
//! `cospan simulate` and the benchmarks use it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use cospan_actors::actor_settings::ActorSettings;
use cospan_actors::api::ControlPlane;
use cospan_actors::api::command::{ApiCommand, ApiRefusal, ApiRequest, JobSubmission};
use cospan_actors::journal::JournalChange;
use cospan_domain::ids::{
    Attempt, ComponentIndex, JobId, KeyName, LogicalName, RelPath, Round, SiteName,
};
use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::units::{DurationMs, Timestamp};
use tokio::sync::broadcast::error::RecvError;

use super::call_faults::CallFaultModel;
use super::control_plane_run::{
    ControlPlaneRun, RunEnd, RunPlan, SimEnvironment, run_control_plane,
};
use super::reservation_usage::ReservationLog;
use super::world_handle::WorldHandle;
use crate::world::SimulatedWorld;

/// A job with the time of its submission.
#[derive(Debug, Clone)]
pub struct TimedSubmission {
    /// Time of the submission.
    pub at: Timestamp,
    pub spec: Arc<JobSpec>,
}

/// Jobs in the order of their submissions.
pub type TimedSubmissions = Box<dyn Iterator<Item = Result<TimedSubmission>>>;

/// The input of a run.
pub struct ExperimentInput {
    /// The world at `begins`.
    pub world: SimulatedWorld,
    /// Settings of the control plane.
    pub settings: ActorSettings,
    /// Jobs in order of submission, generated when their time has come.
    pub jobs: TimedSubmissions,
    /// Number of jobs.
    pub count: usize,
    /// Start of the run.
    pub begins: Timestamp,
    /// Seed of the control plane and of the calls to its sites.
    pub seed: u64,
    /// Faults of calls.
    pub call_faults: CallFaultModel,
}

/// Everything that happens around the jobs of an experiment.
#[derive(Debug, Clone, Default)]
pub struct ExperimentSurroundings {
    /// Failures of nodes, in order of time.
    pub failures: Vec<NodeFailure>,
    /// Files that are registered before the first job is submitted: a name, and the place of one
    /// replica.
    pub files: Vec<(LogicalName, SiteName, RelPath)>,
    /// Time at which the run ends, whatever is still running; `None`: at the end of the last job.
    pub until: Option<Timestamp>,
    /// Jobs of one name are copies of each other: when one has finished, the others are cancelled.
    pub first_counts: bool,
}

/// The way in which a node fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeFailureMode {
    /// The node is down, and whatever runs there dies.
    Down,
    /// The node looks idle, and everything that is started on it fails at once.
    BlackHole,
}

/// A failure of a node, with its repair.
#[derive(Debug, Clone)]
pub struct NodeFailure {
    pub how: NodeFailureMode,
    /// Time of the failure.
    pub at: Timestamp,
    pub site: SiteName,
    /// Index of the node, from 0.
    pub node: u32,
    /// Time from the failure until the node is back.
    pub repair: DurationMs,
}

/// The result of an experiment; of each job only what the caller keeps.
pub struct ExperimentOutcome<T> {
    /// Time at which the last job ended, or the run was stopped.
    pub ended: Timestamp,
    /// Jobs in order of their ends, followed by those that had not ended.
    pub jobs: Vec<T>,
    /// Number of jobs that waited for placement, from each moment on.
    pub queue: Vec<(Timestamp, u32)>,
    /// The world at the end.
    pub world: Arc<WorldHandle>,
    /// Number of changes that became durable.
    pub changes: u64,
    /// Number of calls to sites.
    pub calls: u64,
    /// Number of messages that actors handled.
    pub messages: u64,
    /// Number of components that went to another site while they were claimed.
    pub moved: u64,
    /// The round of each attempt, as far as its site answered.
    pub rounds: BTreeMap<AttemptKey, Round>,
    /// Confirmed reservations of jobs.
    pub bookings: ReservationLog,
}

/// An attempt of a component of a job.
pub type AttemptKey = (JobId, ComponentIndex, Attempt);

/// A callback with the time of the world, and the number of jobs that have ended.
pub type ProgressCallback = Rc<dyn Fn(Timestamp, usize)>;

/// Runs an experiment to its end, with its surroundings. Of each job that ends only the result of
/// `keep` is kept: there may be very many jobs.
///
/// # Errors
/// Fails if a job or a file is refused, or if the control plane ends by itself.
pub fn run_experiment<T: 'static>(
    experiment: ExperimentInput,
    surroundings: ExperimentSurroundings,
    keep: fn(&Job) -> T,
    progress: ProgressCallback,
) -> Result<ExperimentOutcome<T>> {
    let ExperimentInput {
        world,
        settings,
        jobs,
        count,
        begins,
        seed,
        call_faults,
    } = experiment;
    let environment = SimEnvironment::new(world, call_faults, settings);
    let plan = RunPlan::undisturbed(begins, seed);
    let messages = cospan_actors::chaos::handled_message_count();
    let watched = Rc::new(RefCell::new(WatchedJobs::new(keep)));
    watched.borrow_mut().first_counts = surroundings.first_counts;
    let seen = watched.clone();
    let world = environment.world.clone();
    let ExperimentSurroundings {
        failures,
        files,
        until,
        ..
    } = surroundings;
    let calls = Rc::new(Cell::new(0));
    let made = calls.clone();
    let end = run_control_plane(&environment, plan, move |plane_run| async move {
        let kill_switch = plane_run.kill_switch.clone();
        let watching = actix_rt::spawn(watch_jobs(plane_run.clone(), seen, count, progress));
        actix_rt::spawn(fail_nodes(plane_run.clone(), world, failures));
        let work = async {
            register_files(&plane_run, files).await?;
            submit_jobs(&plane_run, jobs).await?;
            watching
                .await
                .map_err(|panic| anyhow!("whoever counts the jobs broke: {panic}"))?
        };
        let over = async {
            match until {
                Some(at) => plane_run.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let done = tokio::select! {
            biased;
            done = work => done,
            () = over => Ok(()),
        };
        made.set(kill_switch.call_count());
        done
    })?;
    let ended = match end {
        RunEnd::Done(at, done) => done.map(|()| at)?,
        RunEnd::Killed(at) => bail!("the control plane ended by itself at {} ms", at.0),
    };
    let WatchedJobs {
        ended: mut jobs,
        live,
        queue,
        changes,
        moved,
        rounds,
        bookings,
        ..
    } = watched.replace(WatchedJobs::new(keep));
    jobs.extend(live.into_values().map(|job| keep(&job)));
    Ok(ExperimentOutcome {
        ended,
        jobs,
        queue,
        world: environment.world,
        changes,
        calls: calls.get(),
        messages: cospan_actors::chaos::handled_message_count() - messages,
        moved,
        rounds,
        bookings,
    })
}

/// State that is recorded while jobs come and go.
struct WatchedJobs<T> {
    keep: fn(&Job) -> T,
    waiting: BTreeSet<JobId>,
    live: BTreeMap<JobId, Arc<Job>>,
    ended: Vec<T>,
    queue: Vec<(Timestamp, u32)>,
    changes: u64,
    moved: u64,
    rounds: BTreeMap<AttemptKey, Round>,
    bookings: ReservationLog,
    first_counts: bool,
    /// Copies of jobs that have finished, to be cancelled.
    superfluous: Vec<JobId>,
}

impl<T> WatchedJobs<T> {
    fn new(keep: fn(&Job) -> T) -> Self {
        let waiting = BTreeSet::new();
        let live = BTreeMap::new();
        let ended = Vec::new();
        let queue = Vec::new();
        let rounds = BTreeMap::new();
        let first_counts = false;
        let superfluous = Vec::new();
        let changes = 0;
        let moved = 0;
        let bookings = ReservationLog::default();
        Self {
            keep,
            waiting,
            live,
            ended,
            queue,
            changes,
            moved,
            rounds,
            bookings,
            first_counts,
            superfluous,
        }
    }

    fn record_change(&mut self, change: &JournalChange, now: Timestamp) {
        self.changes += 1;
        match change {
            JournalChange::NewJobs(jobs) => {
                self.waiting.extend(jobs.iter().map(|job| job.id));
                self.live
                    .extend(jobs.iter().map(|job| (job.id, job.clone())));
            }
            JournalChange::Job { old, new, events } => {
                self.moved += events
                    .iter()
                    .filter(|event: &&JobEvent| {
                        matches!(event.what, JobEventKind::ComponentMoved { .. })
                    })
                    .count() as u64;
                self.record_rounds(new, events);
                self.bookings.record_events(new, events);
                if matches!(new.phase, JobPhase::Queued { .. }) {
                    self.waiting.insert(new.id)
                } else {
                    self.waiting.remove(&new.id)
                };
                if new.is_final() {
                    drop(self.live.remove(&new.id));
                } else {
                    drop(self.live.insert(new.id, new.clone()));
                }
                if new.is_final() && !old.is_final() {
                    self.mark_superfluous_copies(new);
                    self.ended.push((self.keep)(new));
                }
            }
            _ => return,
        }
        let length = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        match self.queue.last_mut() {
            Some((at, last)) if *at == now => *last = length,
            Some((_, last)) if *last == length => {}
            _ => self.queue.push((now, length)),
        }
    }
}

impl<T> WatchedJobs<T> {
    /// Marks the copies of a finished job as superfluous.
    fn mark_superfluous_copies(&mut self, job: &Job) {
        if self.first_counts && matches!(job.phase, JobPhase::Finished { .. }) {
            let of_name = self
                .live
                .values()
                .filter(|other| other.spec.name == job.spec.name);
            self.superfluous.extend(of_name.map(|other| other.id));
        }
    }

    /// Records the round of each submitted attempt.
    fn record_rounds(&mut self, job: &Job, events: &[JobEvent]) {
        for event in events {
            let (JobEventKind::AttemptSubmitted { component, .. }
            | JobEventKind::SubmissionUncertain { component, .. }) = &event.what
            else {
                continue;
            };
            if let Some(of) = job.components.get(component.0 as usize) {
                self.rounds
                    .insert((job.id, *component, of.attempt), job.round);
            }
        }
    }
}

async fn watch_jobs<T>(
    plane_run: ControlPlaneRun,
    watched: Rc<RefCell<WatchedJobs<T>>>,
    count: usize,
    progress: ProgressCallback,
) -> Result<()> {
    const TELL_EVERY: usize = 256;
    let mut changes = plane_run.plane.subscribe_to_changes();
    loop {
        let ended = watched.borrow().ended.len();
        if ended >= count {
            return Ok(());
        }
        match changes.recv().await {
            Ok(committed) => {
                watched
                    .borrow_mut()
                    .record_change(&committed.change, plane_run.clock.now());
                let superfluous = std::mem::take(&mut watched.borrow_mut().superfluous);
                if !superfluous.is_empty() {
                    actix_rt::spawn(cancel_jobs(plane_run.plane.clone(), superfluous));
                }
                let now_ended = watched.borrow().ended.len();
                if now_ended != ended && now_ended.is_multiple_of(TELL_EVERY) {
                    progress(plane_run.clock.now(), now_ended);
                }
            }
            Err(RecvError::Lagged(missed)) => bail!("{missed} changes were not counted"),
            Err(RecvError::Closed) => bail!("the control plane is gone"),
        }
    }
}

/// Cancels jobs. Jobs that ended meanwhile refuse, which is fine.
async fn cancel_jobs(plane: ControlPlane, jobs: Vec<JobId>) {
    if let Ok(by) = KeyName::new("simulated") {
        let _ = plane
            .execute_command(ApiCommand {
                by,
                what: ApiRequest::Cancel(jobs),
            })
            .await;
    }
}

/// Makes nodes fail at their times.
async fn fail_nodes(
    plane_run: ControlPlaneRun,
    world: Arc<WorldHandle>,
    failures: Vec<NodeFailure>,
) {
    for NodeFailure {
        how,
        at,
        site,
        node,
        repair,
    } in failures
    {
        plane_run.sleep_until(at).await;
        world.act_at(plane_run.clock.now(), |world| {
            if let Some(site) = world.index_of(&site) {
                match how {
                    NodeFailureMode::Down => world.kill_node(site, node, repair),
                    NodeFailureMode::BlackHole => world.make_black_hole(site, node, repair),
                }
            }
        });
    }
}

async fn wait_until_ready(plane_run: &ControlPlaneRun) {
    while !plane_run.plane.is_ready() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

async fn register_files(
    plane_run: &ControlPlaneRun,
    files: Vec<(LogicalName, SiteName, RelPath)>,
) -> Result<()> {
    wait_until_ready(plane_run).await;
    let by = KeyName::new("simulated")?;
    for (name, site, path) in files {
        let what = ApiRequest::AddFile {
            name: name.clone(),
            site,
            path,
            replace: false,
            reaches_all: false,
        };
        let answer = plane_run
            .plane
            .execute_command(ApiCommand {
                by: by.clone(),
                what,
            })
            .await;
        answer.map_err(|refusal| anyhow!("the file {name} was refused: {refusal}"))?;
    }
    Ok(())
}

/// Submits each job at its time, jobs of one moment together.
async fn submit_jobs(plane_run: &ControlPlaneRun, jobs: TimedSubmissions) -> Result<()> {
    const AT_ONCE: usize = 500;
    wait_until_ready(plane_run).await;
    let by = KeyName::new("simulated")?;
    let mut jobs = jobs.peekable();
    while let Some(first) = jobs.next().transpose()? {
        let at = first.at;
        let mut together = vec![first];
        while together.len() < AT_ONCE
            && let Some(next) = jobs.next_if(|next: &Result<TimedSubmission>| {
                next.as_ref().is_ok_and(|next| next.at == at)
            })
        {
            together.push(next?);
        }
        plane_run.sleep_until(at).await;
        let submissions: Vec<JobSubmission> = together
            .into_iter()
            .map(|job: TimedSubmission| JobSubmission {
                allow_unplaceable: true,
                ..JobSubmission::from_spec(job.spec)
            })
            .collect();
        loop {
            let what = ApiRequest::Submit(submissions.clone());
            match plane_run
                .plane
                .execute_command(ApiCommand {
                    by: by.clone(),
                    what,
                })
                .await
            {
                Ok(_) => break,
                Err(ApiRefusal::Busy { .. }) => {
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
                Err(refusal) => bail!("a job was refused: {refusal}"),
            }
        }
    }
    Ok(())
}
