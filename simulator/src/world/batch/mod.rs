//! A simulated batch system: the local resource manager (LRM) of one site.
//!
//! Pure and deterministic: time is an argument, and the same calls give the
//! same starts. Time that goes backwards is taken to stand still.
//!
//! *Calls.* Report what happened ([`BatchSystem::submit`], [`BatchSystem::end_job`],
//! [`BatchSystem::node_down`], ...), then call [`BatchSystem::schedule`] once.
//!
//! *No timers.* A job can only start when processors or the queue changed, so
//! no discipline needs to be woken at other times. A reservation always falls
//! on the expected end of a running job; if that job ends as expected, its end
//! is the wake-up, and if it does not, nobody can start.
//!
//! *Overruns.* A job that runs past its estimate is assumed to end one second from now, over and
//! over. It is not killed: that is up to the caller.
//!
//! *Cost.* A call costs O(log n) in the queued and running jobs, plus what it
//! starts. EASY also walks the running jobs up to the shadow time and the
//! candidates of the queue; the conservative discipline tries those queued
//! jobs that early ends may help.
//!
//! Deliberately absent: kinds of processors, priorities, preemption, and any
//! limit per user.

mod conservative;
mod easy;
mod nodes;
mod profile;
mod queue;
mod running;
#[cfg(test)]
mod tests;

use std::fmt;

use cospan_domain::units::{DurationMs, Timestamp};
use thiserror::Error;

use conservative::QueueReservations;
use easy::EasyShadow;
use nodes::NodePool;
use queue::{BatchQueue, NEVER, QueuedBatchJob};
use running::{RunningBatchJob, RunningBatchJobs};

/// A job's number at its batch system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LrmJobId(pub u64);

impl fmt::Display for LrmJobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The rule by which queued jobs may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueDiscipline {
    /// First come, first served: strictly in order of submission.
    Fcfs,
    /// A job may overtake if it does not delay the head of the queue (Lifka 1995). A head that
    /// needs more than the nodes in service delays nobody.
    Easy,
    /// A job may overtake if it delays nobody's reservation; each job has one (Mu'alem and
    /// Feitelson 2001).
    Conservative,
}

/// The reason why a job was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BatchSubmitError {
    /// It could never start, even with every node up.
    #[error("job {id} needs {processors} processors, but the site has {total}; ask for fewer")]
    TooLarge {
        /// The job.
        id: LrmJobId,
        /// Processors that it needs.
        processors: u32,
        /// Processors of all nodes, up or down.
        total: u32,
    },
    /// A job with this number is queued or running.
    #[error("job {id} is already queued or running; use a new number")]
    AlreadyKnown {
        /// The job.
        id: LrmJobId,
    },
}

#[derive(Debug, Clone)]
enum DisciplineState {
    Fcfs,
    /// The shadow of the head after the last scheduling, if it had to wait.
    Easy(Option<(LrmJobId, EasyShadow)>),
    Conservative(QueueReservations),
}

/// The batch system of one site with counted, equal processors.
#[derive(Debug, Clone)]
pub struct BatchSystem {
    plan: DisciplineState,
    nodes: NodePool,
    total: u32,
    queue: BatchQueue,
    running: RunningBatchJobs,
    draining: bool,
    latest: Timestamp,
}

impl BatchSystem {
    /// Makes an empty site. `processors_per_node` is reduced so that the site has at most
    /// `u32::MAX` processors.
    pub fn new(discipline: QueueDiscipline, nodes: u32, processors_per_node: u32) -> Self {
        let per_node = processors_per_node.min(u32::MAX / nodes.max(1));
        let total = nodes * per_node;
        let plan = match discipline {
            QueueDiscipline::Fcfs => DisciplineState::Fcfs,
            QueueDiscipline::Easy => DisciplineState::Easy(None),
            QueueDiscipline::Conservative => {
                DisciplineState::Conservative(QueueReservations::new(total))
            }
        };
        Self {
            plan,
            nodes: NodePool::new(nodes, per_node),
            total,
            queue: BatchQueue::new(),
            running: RunningBatchJobs::default(),
            draining: false,
            latest: Timestamp::default(),
        }
    }

    /// Puts a job at the end of the queue. `estimate` is its own estimate of its run time. No
    /// processors or no time count as one processor and 1 ms.
    ///
    /// Fails if it needs more processors than the site has, or its number is in use; nothing is
    /// queued then.
    pub fn submit(
        &mut self,
        id: LrmJobId,
        processors: u32,
        estimate: DurationMs,
        now: Timestamp,
    ) -> Result<(), BatchSubmitError> {
        self.advance_to(now);
        let processors = processors.max(1);
        if processors > self.total {
            return Err(BatchSubmitError::TooLarge {
                id,
                processors,
                total: self.total,
            });
        }
        if self.is_queued(id) || self.is_running(id) {
            return Err(BatchSubmitError::AlreadyKnown { id });
        }
        let estimate = DurationMs(estimate.0.clamp(1, u64::MAX - 1));
        self.queue.push(QueuedBatchJob {
            id,
            processors,
            estimate,
            start: NEVER,
        });
        if let DisciplineState::Conservative(reservations) = &mut self.plan {
            reservations.on_submitted(id);
        }
        Ok(())
    }

    /// Ends a job: a running one finished or was killed, or a queued one is cancelled. Returns
    /// false if the job is unknown; then nothing changes.
    pub fn end_job(&mut self, id: LrmJobId, now: Timestamp) -> bool {
        let now = self.advance_to(now);
        if let Some(job) = self.running.remove(id) {
            self.nodes.return_shares(&job.shares);
            if let DisciplineState::Conservative(reservations) = &mut self.plan {
                reservations.on_freed(job.processors, now, job.expected_end);
            }
            return true;
        }
        let Some(job) = self.queue.position(id).and_then(|at| self.queue.remove(at)) else {
            return false;
        };
        if let DisciplineState::Conservative(reservations) = &mut self.plan {
            reservations.on_cancelled(&job);
        }
        true
    }

    /// Starts the jobs that the discipline allows now, and returns them in order of start.
    pub fn schedule(&mut self, now: Timestamp) -> Vec<LrmJobId> {
        let now = self.advance_to(now);
        let idle_queue = self.queue.len() == 0 || self.nodes.idle() == 0;
        if self.draining || (idle_queue && !matches!(self.plan, DisciplineState::Conservative(_))) {
            return Vec::new();
        }
        match self.plan {
            DisciplineState::Fcfs => self.start_in_order(now),
            DisciplineState::Easy(_) => self.schedule_easy(now),
            DisciplineState::Conservative(_) => self.schedule_conservative(now),
        }
    }

    /// Takes a failed node out of service: its jobs are killed and returned in order of id, and its
    /// processors are gone. Returns nothing if the node is unknown or already down.
    pub fn node_down(&mut self, node: u32, now: Timestamp) -> Vec<LrmJobId> {
        let now = self.advance_to(now);
        if self.nodes.is_up(node) != Some(true) {
            return Vec::new();
        }
        let killed = self.running.jobs_on_node(node);
        for id in &killed {
            self.end_job(*id, now);
        }
        self.nodes.set_down(node);
        if let DisciplineState::Conservative(reservations) = &mut self.plan {
            reservations.on_node_down();
        }
        killed
    }

    /// Brings a node back. Returns false if it is unknown or was not down.
    pub fn node_up(&mut self, node: u32, now: Timestamp) -> bool {
        let now = self.advance_to(now);
        if self.nodes.is_up(node) != Some(false) {
            return false;
        }
        self.nodes.set_up(node);
        if let DisciplineState::Conservative(reservations) = &mut self.plan {
            reservations.on_node_up(self.nodes.per_node(), now);
        }
        true
    }

    /// Refuses new starts until [`BatchSystem::resume`]; submissions still queue.
    pub fn start_drain(&mut self) {
        self.draining = true;
    }

    /// Ends a drain.
    pub fn resume(&mut self) {
        self.draining = false;
    }

    /// Returns the number of jobs that wait.
    pub fn queued_count(&self) -> usize {
        self.queue.len()
    }

    /// Returns the number of jobs that run.
    pub fn running_count(&self) -> usize {
        self.running.len()
    }

    /// Returns the processors that are free on nodes that are up.
    pub fn idle_processors(&self) -> u32 {
        self.nodes.idle()
    }

    /// Returns the processors that running jobs hold.
    pub fn used_processors(&self) -> u32 {
        self.running.used()
    }

    /// Returns true if the job waits.
    pub fn is_queued(&self, id: LrmJobId) -> bool {
        self.queue.position(id).is_some()
    }

    /// Returns true if the job waits and none waits before it.
    pub fn heads_queue(&self, id: LrmJobId) -> bool {
        self.queue
            .next_job(0)
            .is_some_and(|(_, head)| head.id == id)
    }

    /// Returns true if the job runs.
    pub fn is_running(&self, id: LrmJobId) -> bool {
        self.running.get(id).is_some()
    }

    /// Returns the start of a running job.
    pub fn running_since(&self, id: LrmJobId) -> Option<Timestamp> {
        self.running.get(id).map(|job| job.start)
    }

    /// Lists the nodes of a running job.
    pub fn nodes_of(&self, id: LrmJobId) -> impl Iterator<Item = u32> {
        let job = self.running.get(id);
        job.into_iter()
            .flat_map(|job| job.shares.iter().map(|share| share.node))
    }

    /// Returns when a running job started, or when a queued one is expected to, as of the last
    /// [`BatchSystem::schedule`] that found something to do: its reservation (conservative), or the
    /// shadow time if it heads the queue (EASY). Returns `None` where the discipline does not say.
    pub fn expected_start(&self, id: LrmJobId) -> Option<Timestamp> {
        if let Some(job) = self.running.get(id) {
            return Some(job.start);
        }
        let job = self.queue.get(self.queue.position(id)?)?;
        let start = match &self.plan {
            DisciplineState::Easy(Some((head, shadow))) if *head == id => shadow.time,
            _ => job.start,
        };
        Some(start).filter(|start| *start < NEVER)
    }

    /// Returns the time of a call: `now`, or the latest time known if that is later.
    fn advance_to(&mut self, now: Timestamp) -> Timestamp {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Starts the job at a position of the queue if its processors are idle.
    fn start_at_position(&mut self, position: usize, now: Timestamp) -> Option<LrmJobId> {
        let QueuedBatchJob {
            id,
            processors,
            estimate,
            ..
        } = *self.queue.get(position)?;
        let shares = self.nodes.take_processors(processors)?;
        self.queue.remove(position);
        let expected_end = now + estimate;
        self.running.insert(
            id,
            RunningBatchJob {
                processors,
                start: now,
                expected_end,
                shares,
            },
        );
        Some(id)
    }

    fn start_in_order(&mut self, now: Timestamp) -> Vec<LrmJobId> {
        let mut started = Vec::new();
        while let Some((head, _)) = self.queue.next_job(0)
            && let Some(id) = self.start_at_position(head, now)
        {
            started.push(id);
        }
        started
    }

    fn schedule_easy(&mut self, now: Timestamp) -> Vec<LrmJobId> {
        self.running.move_overrun_ends(now);
        let mut started = self.start_in_order(now);
        let Some((mut from, head)) = self.queue.next_job(0) else {
            self.plan = DisciplineState::Easy(None);
            return started;
        };
        let mut shadow =
            EasyShadow::of_queue_head(head.processors, self.nodes.idle(), &self.running);
        self.plan = DisciplineState::Easy(Some((head.id, shadow)));
        while self.nodes.idle() > 0 {
            let idle = self.nodes.idle();
            let Some((position, job)) = self
                .queue
                .next_job_where(from + 1, |least: &queue::LeastNeeds| {
                    shadow.may_overtake(least, idle, now)
                })
            else {
                break;
            };
            shadow.count_overtaking(&job, now);
            started.extend(self.start_at_position(position, now));
            from = position;
        }
        started
    }

    fn schedule_conservative(&mut self, now: Timestamp) -> Vec<LrmJobId> {
        let overruns = self.running.move_overrun_ends(now);
        let in_service = self.nodes.processors_in_service();
        if let DisciplineState::Conservative(reservations) = &mut self.plan {
            reservations.update_all(&mut self.queue, &self.running, &overruns, in_service, now);
        }
        let mut started = Vec::new();
        let mut from = 0;
        while let Some((position, _)) = self.queue.next_job_where(from, |least| least.start <= now)
        {
            started.extend(self.start_at_position(position, now));
            from = position + 1;
        }
        started
    }
}
