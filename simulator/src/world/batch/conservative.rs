//! Conservative backfilling: every queued job has a reservation, made at the
//! earliest place that takes nothing from the reservations before it (A. Mu'alem
//! and D. Feitelson, IEEE TPDS 12(6), 2001, section 2.1).
//!
//! When processors become free early, the schedule is compressed: in queue order each job moves to
//! the earliest possible place, until no job can move. A new place can exist only where processors
//! became free since the last time, so only the jobs that such a [`ProcessorGain`] may help are
//! tried.
//!
//! A reservation that cannot be kept (an overrun, a failed node, a drain)
//! makes all of them void; they are made anew in queue order.

use cospan_domain::units::{DurationMs, Timestamp};

use super::LrmJobId;
use super::profile::{FreeProcessorProfile, WantedOpening};
use super::queue::{BatchQueue, LeastNeeds, NEVER, QueuedBatchJob};
use super::running::{JobOverrun, RunningBatchJobs};

/// Number of separate gains above which they are merged.
const GAINS_MAX: usize = 12;

/// Processors that became free between two instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessorGain {
    from: u64,
    to: u64,
    /// Least that was free there before: a job that needs no more gains nothing.
    before: i64,
    /// Most that is free there now: a job that needs more gains nothing.
    since: i64,
}

impl ProcessorGain {
    fn helps_job(&self, job: &QueuedBatchJob) -> bool {
        let needed = i64::from(job.processors);
        self.before < needed && needed <= self.since && self.from < job.start.0
    }

    fn merge(self, other: Self) -> Self {
        Self {
            from: self.from.min(other.from),
            to: self.to.max(other.to),
            before: self.before.min(other.before),
            since: self.since.max(other.since),
        }
    }
}

#[derive(Debug, Clone, Default)]
struct ProcessorGains {
    list: Vec<ProcessorGain>,
    most: i64,
}

impl ProcessorGains {
    fn add_gain(&mut self, mut gain: ProcessorGain) {
        self.most = self.most.max(gain.since);
        let together = self.list.len() >= GAINS_MAX;
        let mut kept = Vec::with_capacity(self.list.len() + 1);
        for known in self.list.drain(..) {
            let apart = known.to < gain.from || gain.to < known.from;
            if apart && !together {
                kept.push(known);
            } else {
                gain = gain.merge(known);
            }
        }
        kept.push(gain);
        self.list = kept;
    }

    /// Returns true if some job among those with these least needs may be helped.
    fn may_help(&self, least: &LeastNeeds) -> bool {
        i64::from(least.processors) <= self.most
    }

    /// Returns the span that covers every gain that helps the job.
    fn helpful_span(&self, job: &QueuedBatchJob) -> Option<(u64, u64)> {
        let helpful = self.list.iter().filter(|gain| gain.helps_job(job));
        helpful
            .map(|gain| (gain.from, gain.to))
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

/// The reservations of all queued jobs, and what remains free.
#[derive(Debug, Clone)]
pub(super) struct QueueReservations {
    profile: FreeProcessorProfile,
    gains: ProcessorGains,
    /// Jobs submitted since the last update; without a reservation yet.
    fresh: Vec<LrmJobId>,
    void: bool,
}

impl QueueReservations {
    pub(super) fn new(processors: u32) -> Self {
        Self {
            profile: FreeProcessorProfile::new(0, i64::from(processors)),
            gains: ProcessorGains::default(),
            fresh: Vec::new(),
            void: false,
        }
    }

    pub(super) fn on_submitted(&mut self, id: LrmJobId) {
        self.fresh.push(id);
    }

    /// Frees `processors` from `now` on that were taken up to `until`.
    pub(super) fn on_freed(&mut self, processors: u32, now: Timestamp, until: Timestamp) {
        self.add_free(processors, now.0, until.0);
    }

    pub(super) fn on_cancelled(&mut self, job: &QueuedBatchJob) {
        if job.start < NEVER {
            self.add_free(job.processors, job.start.0, (job.start + job.estimate).0);
        }
    }

    pub(super) fn on_node_down(&mut self) {
        self.void = true;
    }

    pub(super) fn on_node_up(&mut self, processors: u32, now: Timestamp) {
        self.add_free(processors, now.0, u64::MAX);
    }

    fn on_overrun(&mut self, overrun: &JobOverrun) {
        let from = overrun.expected_before.0;
        let to = overrun.expected_now.0;
        self.profile
            .add_change(from, to, -i64::from(overrun.processors));
        self.void |= self.profile.free_range(from, to).0 < 0;
    }

    fn add_free(&mut self, processors: u32, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let processors = i64::from(processors);
        self.profile.add_change(from, to, processors);
        let (least, most) = self.profile.free_range(from, to);
        self.gains.add_gain(ProcessorGain {
            from,
            to,
            before: least - processors,
            since: most,
        });
    }

    /// Updates every reservation to `now`.
    pub(super) fn update_all(
        &mut self,
        queue: &mut BatchQueue,
        running: &RunningBatchJobs,
        overruns: &[JobOverrun],
        in_service: u32,
        now: Timestamp,
    ) {
        self.profile.advance_to(now.0);
        for overrun in overruns {
            self.on_overrun(overrun);
        }
        if self.void || queue.least_needs().start < now {
            self.rebuild(queue, running, in_service, now);
            return;
        }
        let placed = self
            .fresh
            .iter()
            .find_map(|id| queue.position(*id))
            .unwrap_or(usize::MAX);
        self.compress(queue, placed, now);
        for id in std::mem::take(&mut self.fresh) {
            if let Some(position) = queue.position(id)
                && let Some(job) = queue.get(position).copied()
                // A number that was cancelled and reused since then is here twice.
                && job.start == NEVER
            {
                self.place_job(queue, position, &job, now);
            }
        }
    }

    fn rebuild(
        &mut self,
        queue: &mut BatchQueue,
        running: &RunningBatchJobs,
        in_service: u32,
        now: Timestamp,
    ) {
        *self = Self::new(in_service);
        self.profile.advance_to(now.0);
        for (end, processors) in running.expected_ends() {
            self.profile.add_change(0, end.0, -i64::from(processors));
        }
        let mut from = 0;
        while let Some((position, job)) = queue.next_job(from) {
            self.place_job(queue, position, &job, now);
            from = position + 1;
        }
    }

    fn place_job(
        &mut self,
        queue: &mut BatchQueue,
        position: usize,
        job: &QueuedBatchJob,
        now: Timestamp,
    ) {
        let wanted = WantedOpening {
            processors: i64::from(job.processors),
            length: job.estimate.0,
            from: now.0,
            before: u64::MAX,
            until: u64::MAX,
        };
        let start = self
            .profile
            .earliest_opening(&wanted)
            .map_or(NEVER, Timestamp);
        queue.set_start(position, start);
        if start < NEVER {
            let end = start + job.estimate;
            self.profile
                .add_change(start.0, end.0, -i64::from(job.processors));
        }
    }

    /// Compresses the reservations of the jobs before position `placed`.
    fn compress(&mut self, queue: &mut BatchQueue, placed: usize, now: Timestamp) {
        let mut gains = std::mem::take(&mut self.gains);
        while !gains.list.is_empty() {
            let mut from = 0;
            while let Some((position, job)) = queue.next_job_where(from, |l| gains.may_help(l))
                && position < placed
            {
                from = position + 1;
                if let Some(span) = gains.helpful_span(&job)
                    && let Some(gain) = self.move_job_up(queue, position, &job, span, now)
                {
                    gains.add_gain(gain);
                    self.gains.add_gain(gain);
                }
            }
            // The moves may have freed room for jobs ahead of the moved ones.
            gains = std::mem::take(&mut self.gains);
        }
    }

    /// Moves a job to an earlier place that overlaps `span`, if there is one, and returns the gain
    /// where it was.
    ///
    /// Places that overlap the job's own reservation count: from its start on, its own processors
    /// are available to it.
    fn move_job_up(
        &mut self,
        queue: &mut BatchQueue,
        position: usize,
        job: &QueuedBatchJob,
        span: (u64, u64),
        now: Timestamp,
    ) -> Option<ProcessorGain> {
        let DurationMs(length) = job.estimate;
        let processors = i64::from(job.processors);
        let old = job.start.0;
        let from = now.0.max(span.0.saturating_sub(length));
        let before = span.1.min(old);
        let wanted = WantedOpening {
            processors,
            length,
            from,
            before,
            until: old,
        };
        let start = self.profile.earliest_opening(&wanted)?;
        queue.set_start(position, Timestamp(start));
        self.profile
            .add_change(start, start.saturating_add(length), -processors);
        if old == NEVER.0 {
            return None;
        }
        self.profile
            .add_change(old, old.saturating_add(length), processors);
        let from = old.max(start.saturating_add(length));
        let to = old.saturating_add(length);
        let (least, most) = self.profile.free_range(from, to);
        Some(ProcessorGain {
            from,
            to,
            before: least - processors,
            since: most,
        })
    }
}
