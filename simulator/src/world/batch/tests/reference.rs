//! The disciplines written for certainty, not speed: lists, and a profile that
//! is counted afresh for every question.

use super::super::{LrmJobId, QueueDiscipline};
use super::trace::TestedBatchSystem;

#[derive(Debug, Clone)]
struct ReferenceJob {
    id: LrmJobId,
    processors: u32,
    estimate: u64,
    /// Running: when it started. Queued: its reservation, if it has one.
    start: Option<u64>,
    /// Running: when it is expected to end.
    end: u64,
    /// Running: the node of each of its processors.
    on: Vec<u32>,
}

/// A batch system of lists.
#[derive(Debug)]
pub(super) struct ReferenceBatchSystem {
    discipline: QueueDiscipline,
    nodes: u32,
    per_node: u32,
    down: Vec<u32>,
    queue: Vec<ReferenceJob>,
    running: Vec<ReferenceJob>,
    draining: bool,
    fresh: Vec<LrmJobId>,
    void: bool,
    shadow: Option<(LrmJobId, Option<u64>)>,
}

impl ReferenceBatchSystem {
    pub(super) fn new(discipline: QueueDiscipline, nodes: u32, per_node: u32) -> Self {
        Self {
            discipline,
            nodes,
            per_node,
            down: Vec::new(),
            queue: Vec::new(),
            running: Vec::new(),
            draining: false,
            fresh: Vec::new(),
            void: false,
            shadow: None,
        }
    }

    fn free_places(&self) -> Vec<u32> {
        let mut places = Vec::new();
        for node in (0..self.nodes).filter(|node| !self.down.contains(node)) {
            let taken = self
                .running
                .iter()
                .flat_map(|job| &job.on)
                .filter(|on| **on == node);
            let free = self.per_node as usize - taken.count();
            places.extend(std::iter::repeat_n(node, free));
        }
        places
    }

    fn idle(&self) -> u32 {
        self.free_places().len() as u32
    }

    fn start_queued(&mut self, at: usize, now: u64) -> LrmJobId {
        let mut job = self.queue.remove(at);
        let mut on = self.free_places();
        on.truncate(job.processors as usize);
        job.start = Some(now);
        job.end = now + job.estimate;
        job.on = on;
        let id = job.id;
        self.running.push(job);
        id
    }

    /// Processors free at `at` beside running jobs and reservations, without `but`.
    fn free_at(&self, at: u64, but: LrmJobId) -> i64 {
        let up = self.nodes - self.down.len() as u32;
        let running = self.running.iter().filter(|job| at < job.end);
        let reserved = self.queue.iter().filter(|job| {
            job.id != but && job.start.is_some_and(|s| s <= at && at < s + job.estimate)
        });
        let taken: u32 = running.chain(reserved).map(|job| job.processors).sum();
        i64::from(up * self.per_node) - i64::from(taken)
    }

    /// Instants at which the number of free processors may change.
    fn instants(&self, now: u64) -> Vec<u64> {
        let mut all = vec![now];
        all.extend(self.running.iter().map(|job| job.end));
        all.extend(self.queue.iter().filter_map(|job| job.start));
        all.extend(
            self.queue
                .iter()
                .filter_map(|job| Some(job.start? + job.estimate)),
        );
        all.retain(|at| *at >= now);
        all.sort_unstable();
        all
    }

    fn earliest_start(&self, job: &ReferenceJob, now: u64) -> Option<u64> {
        let instants = self.instants(now);
        let fits = |start: u64| {
            let during = instants
                .iter()
                .filter(|at| (start..start + job.estimate).contains(*at));
            during
                .chain([&start])
                .all(|at| self.free_at(*at, job.id) >= i64::from(job.processors))
        };
        instants.iter().copied().find(|start| fits(*start))
    }

    fn reserve_queued(&mut self, now: u64) {
        let promised = self.instants(now);
        let over = promised
            .iter()
            .any(|at| self.free_at(*at, LrmJobId(u64::MAX)) < 0);
        let missed = self
            .queue
            .iter()
            .any(|job| job.start.is_some_and(|start| start < now));
        if self.void || over || missed {
            self.void = false;
            self.fresh = self.queue.iter().map(|job| job.id).collect();
            self.queue.iter_mut().for_each(|job| job.start = None);
        }
        while self.compress(now) {}
        for id in std::mem::take(&mut self.fresh) {
            if let Some(at) = self.queue.iter().position(|job| job.id == id) {
                self.queue[at].start = self.earliest_start(&self.queue[at], now);
            }
        }
    }

    fn compress(&mut self, now: u64) -> bool {
        let mut moved = false;
        for at in 0..self.queue.len() {
            if self.fresh.contains(&self.queue[at].id) {
                continue;
            }
            let place = self.earliest_start(&self.queue[at], now);
            if place.is_some_and(|place| self.queue[at].start.is_none_or(|old| place < old)) {
                self.queue[at].start = place;
                moved = true;
            }
        }
        moved
    }

    fn start_reserved(&mut self, now: u64) -> Vec<LrmJobId> {
        let due: Vec<LrmJobId> = self
            .queue
            .iter()
            .filter(|job| job.start == Some(now))
            .map(|job| job.id)
            .collect();
        let mut started = Vec::new();
        for id in due {
            let at = self.queue.iter().position(|job| job.id == id).unwrap();
            if self.queue[at].processors <= self.idle() {
                started.push(self.start_queued(at, now));
            }
        }
        started
    }

    fn start_in_order(&mut self, now: u64) -> Vec<LrmJobId> {
        let mut started = Vec::new();
        while self
            .queue
            .first()
            .is_some_and(|head| head.processors <= self.idle())
        {
            started.push(self.start_queued(0, now));
        }
        started
    }

    /// Free processors at `at` if only the running jobs count.
    fn free_of_running(&self, at: u64) -> u32 {
        let ended = self.running.iter().filter(|job| job.end <= at);
        self.idle() + ended.map(|job| job.processors).sum::<u32>()
    }

    fn schedule_easy(&mut self, now: u64) -> Vec<LrmJobId> {
        let mut started = self.start_in_order(now);
        let Some(head) = self.queue.first().cloned() else {
            return started;
        };
        let mut ends: Vec<u64> = self.running.iter().map(|job| job.end).collect();
        ends.sort_unstable();
        let shadow = ends
            .into_iter()
            .find(|end| self.free_of_running(*end) >= head.processors);
        self.shadow = Some((head.id, shadow));
        let mut at = 1;
        while at < self.queue.len() {
            let job = self.queue[at].clone();
            let in_time = shadow.is_none_or(|shadow| now + job.estimate <= shadow);
            let beside = shadow.is_some_and(|shadow| {
                self.free_of_running(shadow) >= head.processors + job.processors
            });
            if job.processors <= self.idle() && (in_time || beside) {
                started.push(self.start_queued(at, now));
            } else {
                at += 1;
            }
        }
        started
    }
}

impl TestedBatchSystem for ReferenceBatchSystem {
    fn submit(&mut self, id: LrmJobId, processors: u32, estimate: u64, _now: u64) {
        self.queue.push(ReferenceJob {
            id,
            processors,
            estimate,
            start: None,
            end: 0,
            on: Vec::new(),
        });
        self.fresh.push(id);
    }

    fn end(&mut self, id: LrmJobId, _now: u64) -> bool {
        let before = self.queue.len() + self.running.len();
        self.queue.retain(|job| job.id != id);
        self.running.retain(|job| job.id != id);
        before != self.queue.len() + self.running.len()
    }

    fn node_down(&mut self, node: u32, now: u64) -> Vec<LrmJobId> {
        if self.down.contains(&node) {
            return Vec::new();
        }
        self.down.push(node);
        self.void = true;
        let on_node = self.running.iter().filter(|job| job.on.contains(&node));
        let mut killed: Vec<LrmJobId> = on_node.map(|job| job.id).collect();
        killed.sort_unstable();
        for id in &killed {
            self.end(*id, now);
        }
        killed
    }

    fn node_up(&mut self, node: u32, _now: u64) -> bool {
        let before = self.down.len();
        self.down.retain(|down| *down != node);
        before != self.down.len()
    }

    fn drain(&mut self, drained: bool) {
        self.draining = drained;
    }

    fn schedule(&mut self, now: u64) -> Vec<LrmJobId> {
        let quiet = self.queue.is_empty() || self.idle() == 0;
        if self.draining || (quiet && self.discipline != QueueDiscipline::Conservative) {
            return Vec::new();
        }
        for job in self.running.iter_mut().filter(|job| job.end < now) {
            job.end = now + 1000;
        }
        match self.discipline {
            QueueDiscipline::Fcfs => self.start_in_order(now),
            QueueDiscipline::Easy => self.schedule_easy(now),
            QueueDiscipline::Conservative => {
                self.reserve_queued(now);
                self.start_reserved(now)
            }
        }
    }

    fn expected_start(&self, id: LrmJobId) -> Option<u64> {
        if let Some(job) = self.running.iter().find(|job| job.id == id) {
            return job.start;
        }
        let job = self.queue.iter().find(|job| job.id == id)?;
        self.shadow
            .filter(|(head, _)| *head == id)
            .map_or(job.start, |(_, shadow)| shadow)
    }
}
