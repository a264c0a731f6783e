//! A simulated cluster: its batch system, our attempts, local users, contents.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use cospan_domain::content::Content;
use cospan_domain::ids::{AttemptTag, Digest, RelPath, SiteName};
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use cospan_sites::port::AttemptObservation;

use super::attempt::{AttemptStage, SimulatedAttempt};
use super::batch::{BatchSystem, LrmJobId, QueueDiscipline};
use super::copies::SimulatedCopy;
use super::double_submissions::DoubleSubmission;
use super::site_faults::PresentSiteFaults;
use super::waiting_local_users::WaitingLocalJobs;
use super::world_reservations::SimulatedReservations;

/// The description of a simulated cluster.
#[derive(Debug, Clone)]
pub struct ClusterSpec {
    pub name: SiteName,
    pub nodes: u32,
    /// Processors of each node.
    pub processors_per_node: u32,
    /// Discipline by which its batch system chooses among queued jobs.
    pub discipline: QueueDiscipline,
    /// Jobs of its local users, in order of time.
    pub local_jobs: Vec<LocalJob>,
    /// Files of its users, by path.
    pub files: BTreeMap<RelPath, Content>,
    /// True if it says that components may wait in its queue for hours.
    pub queues: bool,
    /// True if it grants reservations. Then nothing waits in its batch system.
    pub reserves: bool,
}

/// A job of a local user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalJob {
    /// Time of the submission.
    pub at: Timestamp,
    pub processors: u32,
    pub run_time: DurationMs,
    /// Estimate of the user for the run time.
    pub estimate: DurationMs,
}

/// The start of a local user's job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalJobStart {
    /// Time of the submission.
    pub submitted: Timestamp,
    /// Time of the start.
    pub began: Timestamp,
    pub run_time: DurationMs,
}

/// The owner of a batch job.
#[derive(Debug, Clone)]
pub(super) enum BatchJobOwner {
    Ours(AttemptTag),
    /// `said`: the user's estimate of the run time; the site knows no more.
    Local {
        submitted: Timestamp,
        run_time: DurationMs,
        said: DurationMs,
        processors: u32,
    },
}

/// The load of a cluster from one moment until the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterLoadStep {
    /// Begin of the step.
    pub at: Timestamp,
    /// Processors on which our payloads run.
    pub running: u32,
    /// Processors that we hold without a payload.
    pub held: u32,
    /// Processors of local users.
    pub local: u32,
    /// Processors of nodes that are down.
    pub down: u32,
}

/// Time within which a batch system that forgot a start makes up for it.
const STARTED_AGAIN: DurationMs = DurationMs(60_000);

/// A simulated cluster.
pub struct SimulatedCluster {
    pub(super) name: SiteName,
    pub(super) nodes: u32,
    pub(super) processors: u32,
    pub(super) discipline: QueueDiscipline,
    pub(super) batch: BatchSystem,
    pub(super) occupants: BTreeMap<LrmJobId, BatchJobOwner>,
    pub(super) attempts: BTreeMap<AttemptTag, SimulatedAttempt>,
    /// Batch jobs of ours in addition to those of the attempts.
    pub(super) doubles: BTreeMap<(AttemptTag, LrmJobId), DoubleSubmission>,
    /// Nodes that are in service, but fail everything that is started on them.
    pub(super) black_holes: BTreeSet<u32>,
    /// Directories that were taken before a wrapper could make them.
    pub(super) taken: BTreeSet<AttemptTag>,
    pub(super) store: BTreeMap<Digest, Bytes>,
    pub(super) files: BTreeMap<RelPath, Content>,
    pub(super) copies: BTreeMap<String, SimulatedCopy>,
    local_jobs: VecDeque<LocalJob>,
    pub(super) queues: bool,
    next_job: u64,
    load: Vec<ClusterLoadStep>,
    local_running: u32,
    local_ended: u64,
    pub(super) local_starts: Vec<LocalJobStart>,
    pub(super) ailments: PresentSiteFaults,
    /// `None`: the site grants no reservations.
    pub(super) leases: Option<SimulatedReservations>,
    /// Waiting local users, if the site grants reservations.
    pub(super) waiting: WaitingLocalJobs,
}

/// Shows the state of the batch system, to find out why nothing moves.
impl fmt::Display for SimulatedCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            processors,
            batch,
            ailments,
            ..
        } = self;
        write!(
            f,
            "{name}: {} of {processors} processors idle, ",
            batch.idle_processors()
        )?;
        write!(
            f,
            "{} running and {} queued of which ",
            batch.running_count(),
            batch.queued_count()
        )?;
        write!(f, "{} are known, {ailments:?}", self.occupants.len())
    }
}

impl SimulatedCluster {
    pub(super) fn new(spec: ClusterSpec, now: Timestamp) -> Self {
        let processors = spec.nodes * spec.processors_per_node;
        let idle = ClusterLoadStep {
            at: now,
            running: 0,
            held: 0,
            local: 0,
            down: 0,
        };
        Self {
            name: spec.name,
            nodes: spec.nodes,
            processors,
            discipline: spec.discipline,
            batch: BatchSystem::new(spec.discipline, spec.nodes, spec.processors_per_node),
            occupants: BTreeMap::new(),
            attempts: BTreeMap::new(),
            doubles: BTreeMap::new(),
            black_holes: BTreeSet::new(),
            taken: BTreeSet::new(),
            store: BTreeMap::new(),
            files: spec.files,
            copies: BTreeMap::new(),
            local_jobs: spec.local_jobs.into(),
            queues: spec.queues,
            next_job: 1,
            load: vec![idle],
            local_running: 0,
            local_ended: 0,
            local_starts: Vec::new(),
            ailments: PresentSiteFaults::default(),
            leases: spec.reserves.then(SimulatedReservations::default),
            waiting: WaitingLocalJobs::default(),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &SiteName {
        &self.name
    }

    /// Returns what it observes of an attempt.
    pub(super) fn observe_attempt(&self, tag: AttemptTag) -> AttemptObservation {
        match self.attempts.get(&tag) {
            // The wrapper's evidence wins over the batch system's opinion.
            Some(attempt) if attempt.is_live() || attempt.has_directory() => {
                attempt.observe_stage()
            }
            _ if self.taken.contains(&tag) => AttemptObservation::Void,
            Some(attempt) => attempt.observe_stage(),
            None => AttemptObservation::Absent,
        }
    }

    /// Returns all its processors, up or down.
    pub fn processors(&self) -> u32 {
        self.processors
    }

    /// Returns the idle processors that nobody waits for; `None` while it has a fault, or does not
    /// show its true state.
    pub fn spare_processors(&self) -> Option<u32> {
        let nobody_waits = self.batch.queued_count() == 0 && self.waiting.is_empty();
        (nobody_waits && !self.ailments.hinders_work()).then(|| self.batch.idle_processors())
    }

    /// Returns the spare processors that are not reserved for `length` from now.
    pub fn spare_for(&self, length: DurationMs, now: Timestamp) -> Option<u32> {
        let spare = self.spare_processors();
        spare.map(|idle| {
            if self.grants_reservations() {
                idle.min(self.free_for(length, now))
            } else {
                idle
            }
        })
    }

    /// Returns its load since the beginning.
    pub fn load(&self) -> &[ClusterLoadStep] {
        &self.load
    }

    /// Returns its present faults.
    pub fn present_faults(&self) -> &PresentSiteFaults {
        &self.ailments
    }

    /// Returns the number of local jobs that ran to their end.
    pub fn local_ended_count(&self) -> u64 {
        self.local_ended
    }

    /// Lists the starts of local jobs, with their submissions.
    pub fn local_starts(&self) -> &[LocalJobStart] {
        &self.local_starts
    }

    /// Lists the contents in its store.
    pub fn contents(&self) -> impl Iterator<Item = Digest> {
        self.store.keys().copied()
    }

    /// Returns the number of incomplete copies with partial data.
    pub fn partial_copies(&self) -> usize {
        self.copies.len()
    }

    pub(super) fn next_free_number(&mut self) -> LrmJobId {
        while self.occupants.contains_key(&LrmJobId(self.next_job)) {
            self.next_job += 1;
        }
        self.next_job += 1;
        LrmJobId(self.next_job - 1)
    }

    pub(super) fn next_local_submission(&self) -> Option<Timestamp> {
        self.local_jobs.front().map(|job| job.at)
    }

    /// Returns the next job of a local user.
    pub(super) fn take_next_local_job(&mut self) -> Option<LocalJob> {
        self.local_jobs.pop_front()
    }

    /// Hands a local user's job to the batch system.
    pub(super) fn submit_local_to_batch(&mut self, job: LocalJob, now: Timestamp) {
        let number = self.next_free_number();
        let LocalJob {
            at: submitted,
            run_time,
            processors,
            estimate,
        } = job;
        if self.batch.submit(number, processors, estimate, now).is_ok() {
            let said = estimate.max(run_time);
            let local = BatchJobOwner::Local {
                submitted,
                run_time,
                said,
                processors,
            };
            self.occupants.insert(number, local);
        }
    }

    pub(super) fn mark_started(&mut self, tag: AttemptTag, job: LrmJobId) {
        if !self.start_double(tag, job)
            && let Some(attempt) = self.attempts.get_mut(&tag)
        {
            attempt.stage = AttemptStage::Starting;
        }
    }

    /// Returns true if one of the nodes of a running batch job fails everything that is started on
    /// it.
    pub(super) fn runs_in_a_black_hole(&self, job: LrmJobId) -> bool {
        !self.black_holes.is_empty()
            && self
                .batch
                .nodes_of(job)
                .any(|node| self.black_holes.contains(&node))
    }

    /// Makes numbers from this one on free again.
    pub(super) fn reuse_numbers(&mut self, job: LrmJobId) {
        self.next_job = self.next_job.min(job.0);
    }

    /// Ends a batch job: its processors are free.
    pub(super) fn end_batch_job(&mut self, job: LrmJobId, now: Timestamp) {
        self.batch.end_job(job, now);
        self.occupants.remove(&job);
    }

    /// Ends a local user's job. Returns `false` if it was killed before; its number may be reused
    /// by then.
    pub(super) fn end_local_job(&mut self, job: LrmJobId, now: Timestamp) -> bool {
        let Some(BatchJobOwner::Local { run_time, .. }) = self.occupants.get(&job) else {
            return false;
        };
        let since = self.batch.running_since(job);
        let runs = since.is_some_and(|since| since + *run_time <= now);
        if runs {
            self.end_batch_job(job, now);
            self.local_ended += 1;
        }
        runs
    }

    /// Removes a batch job that died with its node. Returns the tag and its stage, if it was ours.
    pub(super) fn remove_killed(&mut self, job: LrmJobId) -> Option<(AttemptTag, &'static str)> {
        let BatchJobOwner::Ours(tag) = self.occupants.remove(&job)? else {
            return None;
        };
        let is_double = self.doubles.remove(&(tag, job)).is_some();
        let had_directory = self
            .attempts
            .get(&tag)
            .is_some_and(SimulatedAttempt::has_directory);
        if is_double || (!had_directory && self.stand_for_double(tag)) {
            return None;
        }
        let attempt = self.attempts.get_mut(&tag)?;
        let began = matches!(attempt.stage, AttemptStage::Running { .. });
        let step = attempt.stage_name();
        attempt.stage = AttemptStage::Lost {
            began,
            detail: "its node failed",
        };
        Some((tag, step))
    }

    /// Loses what was submitted after `since`, with its numbers. Jobs that were already started are
    /// ended by their node, which finds that nobody knows them. Jobs that ended after `since` wait
    /// for a while to be started again. Returns the lost attempts, with their stages.
    pub(super) fn forget_since(
        &mut self,
        since: Timestamp,
        now: Timestamp,
    ) -> Vec<(AttemptTag, &'static str)> {
        for attempt in self.attempts.values_mut() {
            if matches!(&attempt.stage, AttemptStage::Exited(exit) if exit.ended_at > since) {
                attempt.forgotten_until = now + STARTED_AGAIN;
            }
        }
        let lost: Vec<(AttemptTag, LrmJobId, &'static str)> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| attempt.submitted_at > since && attempt.is_live())
            .map(|(tag, attempt)| (*tag, attempt.lrm, attempt.stage_name()))
            .collect();
        let mut gone = Vec::new();
        for (tag, job, step) in lost {
            self.end_batch_job(job, now);
            self.reuse_numbers(job);
            if !self.continue_without_batch_job(tag) {
                gone.push((tag, step));
            }
        }
        gone
    }

    /// Forgets the batch job of an attempt. Returns true if the attempt goes on with another one.
    fn continue_without_batch_job(&mut self, tag: AttemptTag) -> bool {
        let had_directory = self
            .attempts
            .get(&tag)
            .is_some_and(SimulatedAttempt::has_directory);
        if !had_directory && self.stand_for_double(tag) {
            return true;
        }
        if let Some(attempt) = self.attempts.get_mut(&tag)
            && attempt.stage != AttemptStage::Queued
        {
            let began = matches!(attempt.stage, AttemptStage::Running { .. });
            attempt.stage = AttemptStage::Lost {
                began,
                detail: "its scheduler forgot it",
            };
        } else {
            self.attempts.remove(&tag);
        }
        false
    }

    /// Records the load if it has changed.
    pub(super) fn record_load(&mut self, now: Timestamp) {
        let mut running = 0;
        let mut held = 0;
        let mut local = 0;
        for (job, occupant) in &self.occupants {
            match occupant {
                BatchJobOwner::Ours(tag) => match self.attempts.get(tag) {
                    Some(attempt) if attempt.lrm != *job => {
                        let double = self.doubles.get(&(*tag, *job));
                        let double = double.filter(|_| self.batch.is_running(*job));
                        held += double.map_or(0, |double| double.processors);
                    }
                    Some(attempt) if attempt.holds_without_payload() => held += attempt.processors,
                    Some(SimulatedAttempt {
                        stage: AttemptStage::Running { .. },
                        processors,
                        ..
                    }) => {
                        running += processors;
                    }
                    _ => {}
                },
                BatchJobOwner::Local { processors, .. } if self.batch.is_running(*job) => {
                    local += processors;
                }
                BatchJobOwner::Local { .. } => {}
            }
        }
        self.local_running = local;
        let down = self.processors - self.batch.used_processors() - self.batch.idle_processors();
        let step = ClusterLoadStep {
            at: now,
            running,
            held,
            local,
            down,
        };
        match self.load.last_mut() {
            Some(last) if ClusterLoadStep { at: now, ..*last } == step => {}
            Some(last) if last.at == now => *last = step,
            _ => self.load.push(step),
        }
    }
}
