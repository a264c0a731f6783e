//! The queue of waiting jobs, searchable by what a job needs.
//!
//! Jobs lie in slots in queue order. A segment tree over the slots holds the least processors,
//! estimate and reserved start below each of its nodes, so a search skips whole stretches of jobs
//! that cannot match. Removal leaves a gap; when the slots run out, the gaps are closed and the
//! room is doubled if needed. So appending and removing cost O(log n) amortised.

use std::collections::BTreeMap;

use cospan_domain::units::{DurationMs, Timestamp};

use super::LrmJobId;

/// Stands for "no reservation".
pub(super) const NEVER: Timestamp = Timestamp(u64::MAX);

/// A job that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueuedBatchJob {
    pub(super) id: LrmJobId,
    pub(super) processors: u32,
    pub(super) estimate: DurationMs,
    /// Reserved start; [`NEVER`] without a reservation.
    pub(super) start: Timestamp,
}

/// The least of each need among some jobs, not necessarily of the same job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeastNeeds {
    pub(super) processors: u32,
    pub(super) estimate: DurationMs,
    pub(super) start: Timestamp,
}

impl LeastNeeds {
    const OF_NONE: LeastNeeds = LeastNeeds {
        processors: u32::MAX,
        estimate: DurationMs(u64::MAX),
        start: NEVER,
    };

    fn of(job: &QueuedBatchJob) -> Self {
        Self {
            processors: job.processors,
            estimate: job.estimate,
            start: job.start,
        }
    }

    fn minimum(self, other: Self) -> Self {
        Self {
            processors: self.processors.min(other.processors),
            estimate: self.estimate.min(other.estimate),
            start: self.start.min(other.start),
        }
    }
}

/// Waiting jobs in order of submission. A position stays valid until the next
/// [`BatchQueue::push`].
#[derive(Debug, Clone)]
pub(super) struct BatchQueue {
    slots: Vec<Option<QueuedBatchJob>>,
    /// Node `n` has children `2n` and `2n + 1`; the root is 1, the leaves are
    /// the last `room` nodes.
    least: Vec<LeastNeeds>,
    room: usize,
    position: BTreeMap<LrmJobId, usize>,
}

impl BatchQueue {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            least: vec![LeastNeeds::OF_NONE; 2],
            room: 1,
            position: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.position.len()
    }

    pub(super) fn position(&self, id: LrmJobId) -> Option<usize> {
        self.position.get(&id).copied()
    }

    pub(super) fn get(&self, position: usize) -> Option<&QueuedBatchJob> {
        self.slots.get(position)?.as_ref()
    }

    /// Returns the least needs of all waiting jobs.
    pub(super) fn least_needs(&self) -> LeastNeeds {
        self.least[1]
    }

    pub(super) fn push(&mut self, job: QueuedBatchJob) {
        if self.slots.len() == self.room {
            self.close_gaps();
        }
        let position = self.slots.len();
        self.slots.push(Some(job));
        self.position.insert(job.id, position);
        self.set_leaf(position, LeastNeeds::of(&job));
    }

    pub(super) fn remove(&mut self, position: usize) -> Option<QueuedBatchJob> {
        let job = self.slots.get_mut(position)?.take()?;
        self.position.remove(&job.id);
        self.set_leaf(position, LeastNeeds::OF_NONE);
        Some(job)
    }

    pub(super) fn set_start(&mut self, position: usize, start: Timestamp) {
        if let Some(Some(job)) = self.slots.get_mut(position) {
            job.start = start;
            let leaf = LeastNeeds::of(job);
            self.set_leaf(position, leaf);
        }
    }

    /// Returns the first job at or after `from`.
    pub(super) fn next_job(&self, from: usize) -> Option<(usize, QueuedBatchJob)> {
        self.next_job_where(from, |_| true)
    }

    /// Returns the first job at or after `from` that satisfies `wanted`. For the least of a group,
    /// `wanted` must hold whenever it holds for a member.
    pub(super) fn next_job_where(
        &self,
        from: usize,
        wanted: impl Fn(&LeastNeeds) -> bool,
    ) -> Option<(usize, QueuedBatchJob)> {
        if from >= self.slots.len() {
            return None;
        }
        let mut node = self.room + from;
        loop {
            let least = &self.least[node];
            if *least != LeastNeeds::OF_NONE && wanted(least) {
                if node >= self.room {
                    let position = node - self.room;
                    return self.get(position).map(|job| (position, *job));
                }
                node *= 2;
                continue;
            }
            while node % 2 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
    }

    fn set_leaf(&mut self, position: usize, leaf: LeastNeeds) {
        let mut node = self.room + position;
        self.least[node] = leaf;
        while node > 1 {
            node /= 2;
            let both = self.least[2 * node].minimum(self.least[2 * node + 1]);
            if self.least[node] == both {
                return;
            }
            self.least[node] = both;
        }
    }

    fn close_gaps(&mut self) {
        self.slots.retain(Option::is_some);
        self.room = (2 * self.slots.len()).next_power_of_two().max(64);
        self.least = vec![LeastNeeds::OF_NONE; 2 * self.room];
        for (position, job) in self.slots.iter().flatten().enumerate() {
            self.position.insert(job.id, position);
            self.least[self.room + position] = LeastNeeds::of(job);
        }
        for node in (1..self.room).rev() {
            self.least[node] = self.least[2 * node].minimum(self.least[2 * node + 1]);
        }
    }
}
