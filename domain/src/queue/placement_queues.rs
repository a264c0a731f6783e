//! The waiting jobs and their indexes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use super::cycle::QueueTurns;
use super::queue_parameters::QueueParameters;
use super::shapes::{WaitingShapeId, WaitingShapes};
use super::starvation_guard::StarvationGuard;
use super::tries::{PlacementTries, QueueDecision};
use super::waiting_job::{QueueStanding, WaitingCondition, WaitingJob};
use crate::ids::JobId;
use crate::job::spec::Priority;
use crate::placement::{PlacementRequest, SitePairHistory};
use crate::units::Timestamp;

/// The four placement queues. Entering, changing and leaving cost O(log n).
#[derive(Debug, Clone)]
pub struct PlacementQueues {
    pub(super) parameters: QueueParameters,
    pub(super) turns: QueueTurns,
    pub(super) shapes: WaitingShapes,
    pub(super) history: SitePairHistory,
    pub(super) starvation_guard: Option<StarvationGuard>,
    entries: BTreeMap<JobId, QueueEntry>,
    /// All waiting jobs, head to tail within a class.
    order: BTreeSet<(Priority, Timestamp, JobId)>,
    /// Jobs that scans try, by shape.
    ready: BTreeSet<(Priority, WaitingShapeId, Timestamp, JobId)>,
    /// Jobs that back off, by the time that ends.
    backed_off: BTreeSet<(Timestamp, JobId)>,
    tries: BTreeMap<JobId, PlacementTries>,
    lengths: [usize; 4],
    /// The number of jobs with an open proposal.
    offered: usize,
    arrivals: u64,
}

#[derive(Debug, Clone)]
struct QueueEntry {
    priority: Priority,
    entered: Timestamp,
    max_tries: Option<u32>,
    shape: WaitingShapeId,
    condition: WaitingCondition,
    /// Rises each time a job becomes ready: a scan tries only those that were ready when it began
    /// (vector QS-7).
    arrival: u64,
}

/// A waiting job's place among those of its shape.
pub(super) type QueuePlace = (Timestamp, JobId, WaitingShapeId);

impl PlacementQueues {
    /// Creates four empty queues; `history` is the seed of Close-to-Files' table.
    pub fn new(parameters: QueueParameters, history: SitePairHistory) -> Self {
        Self {
            turns: QueueTurns::new(&parameters),
            parameters,
            history,
            starvation_guard: None,
            shapes: WaitingShapes::default(),
            entries: BTreeMap::new(),
            order: BTreeSet::new(),
            ready: BTreeSet::new(),
            backed_off: BTreeSet::new(),
            tries: BTreeMap::new(),
            lengths: [0; 4],
            offered: 0,
            arrivals: 0,
        }
    }

    /// The history table of Close-to-Files as it is now.
    pub fn history(&self) -> &SitePairHistory {
        &self.history
    }

    /// The processors that the last scan withheld, with the job they are for.
    pub fn active_withholding(&self) -> Option<&StarvationGuard> {
        self.starvation_guard.as_ref()
    }

    /// Adds a waiting job, or updates it; called after its event was committed. An open proposal
    /// stays so until it is decided.
    pub fn insert(&mut self, waiting: WaitingJob) {
        let before = self.entries.get(&waiting.job).map(|entry| entry.condition);
        let shape = self.shapes.add_job(waiting.request);
        let condition = match (waiting.frozen, before == Some(WaitingCondition::Offered)) {
            (true, _) => WaitingCondition::Frozen,
            (false, true) => WaitingCondition::Offered,
            // It becomes ready at the next `wake`, if that time is past.
            (false, false) if waiting.not_before > Timestamp(0) => {
                WaitingCondition::BackedOff(waiting.not_before)
            }
            (false, false) => WaitingCondition::Ready,
        };
        let WaitingJob {
            job,
            priority,
            entered,
            max_tries,
            ..
        } = waiting;
        if let Some(old) = self.entries.get_mut(&job).filter(|old| {
            (old.priority, old.entered, old.shape, old.condition)
                == (priority, entered, shape, condition)
        }) {
            old.max_tries = max_tries;
            self.shapes.release_job(shape);
            return;
        }
        if before.is_some() {
            self.remove(job);
        }
        if let Some(tries) = self.tries.get_mut(&job) {
            tries.enter_class(priority);
        }
        self.order.insert((priority, entered, job));
        self.lengths[priority as usize] += 1;
        let entry = QueueEntry {
            priority,
            entered,
            max_tries,
            shape,
            condition,
            arrival: 0,
        };
        self.entries.insert(job, entry);
        self.add_to_index(job);
    }

    /// Removes a job that waits no more. Its try count is kept, since it may come back; see
    /// [`PlacementQueues::forget_job`].
    pub fn remove(&mut self, job: JobId) {
        self.remove_from_index(job);
        if let Some(entry) = self.entries.remove(&job) {
            self.order.remove(&(entry.priority, entry.entered, job));
            self.lengths[entry.priority as usize] -= 1;
            self.shapes.release_job(entry.shape);
        }
    }

    /// Removes all traces of a job that has ended.
    pub fn forget_job(&mut self, job: JobId) {
        self.remove(job);
        self.tries.remove(&job);
    }

    /// Notes that a job applied what followed from its tries, or could not.
    pub fn clear_decision(&mut self, job: JobId) {
        if let Some(tries) = self.tries.get_mut(&job) {
            tries.clear_pending();
        }
    }

    /// Withdraws the proposal for a job: the next scan tries it again.
    pub fn withdraw_proposal(&mut self, job: JobId) {
        self.set_condition(job, WaitingCondition::Offered, WaitingCondition::Ready);
    }

    /// Makes the jobs ready whose back-off is over.
    pub fn wake_backed_off(&mut self, now: Timestamp) {
        while let Some(&(until, job)) = self.backed_off.first() {
            if until > now {
                break;
            }
            self.set_condition(
                job,
                WaitingCondition::BackedOff(until),
                WaitingCondition::Ready,
            );
        }
    }

    /// The end of the first back-off, if any job backs off.
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.backed_off.first().map(|&(until, _)| until)
    }

    /// The number of waiting jobs.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if no job waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns true if a job waits that has no open proposal.
    pub fn has_jobs_without_proposal(&self) -> bool {
        self.entries.len() > self.offered
    }

    /// The number of different requests among the waiting jobs.
    pub fn shape_count(&self) -> usize {
        self.shapes.len()
    }

    /// Lists the jobs of a class, head to tail.
    pub fn jobs_of_class(&self, class: Priority) -> impl Iterator<Item = JobId> + '_ {
        self.entries_of_class(class).map(|&(_, _, job)| job)
    }

    /// The number of waiting jobs of a class.
    pub fn count_waiting(&self, class: Priority) -> usize {
        self.lengths[class as usize]
    }

    /// Returns the place of a job in its queue; `None` if it does not wait.
    pub fn standing_of(&self, job: JobId) -> Option<QueueStanding> {
        let entry = self.entries.get(&job)?;
        let ahead = self
            .entries_of_class(entry.priority)
            .take_while(|&&(_, _, other)| other != job)
            .count();
        Some(QueueStanding {
            priority: entry.priority,
            ahead,
            condition: entry.condition,
            tries: self.tries.get(&job).map_or(0, |tries| tries.total),
            refusal: self.shapes.last_refusal(entry.shape).cloned(),
        })
    }

    pub fn parameters(&self) -> &QueueParameters {
        &self.parameters
    }

    fn entries_of_class(
        &self,
        class: Priority,
    ) -> impl Iterator<Item = &(Priority, Timestamp, JobId)> {
        let from = (class, Timestamp(0), JobId(0));
        self.order
            .range(from..=(class, Timestamp(u64::MAX), JobId(u64::MAX)))
    }

    fn add_to_index(&mut self, job: JobId) {
        let Some(entry) = self.entries.get_mut(&job) else {
            return;
        };
        match entry.condition {
            WaitingCondition::Ready => {
                self.arrivals += 1;
                entry.arrival = self.arrivals;
                self.ready
                    .insert((entry.priority, entry.shape, entry.entered, job));
            }
            WaitingCondition::BackedOff(until) => {
                self.backed_off.insert((until, job));
            }
            WaitingCondition::Offered => self.offered += 1,
            WaitingCondition::Frozen => {}
        }
    }

    fn remove_from_index(&mut self, job: JobId) {
        let Some(entry) = self.entries.get(&job) else {
            return;
        };
        match entry.condition {
            WaitingCondition::Ready => {
                self.ready
                    .remove(&(entry.priority, entry.shape, entry.entered, job));
            }
            WaitingCondition::BackedOff(until) => {
                self.backed_off.remove(&(until, job));
            }
            WaitingCondition::Offered => self.offered -= 1,
            WaitingCondition::Frozen => {}
        }
    }

    fn set_condition(&mut self, job: JobId, from: WaitingCondition, to: WaitingCondition) {
        if self
            .entries
            .get(&job)
            .is_none_or(|entry| entry.condition != from)
        {
            return;
        }
        self.remove_from_index(job);
        if let Some(entry) = self.entries.get_mut(&job) {
            entry.condition = to;
        }
        self.add_to_index(job);
    }

    // What a scan needs.

    pub(super) fn condition_of(&self, job: JobId) -> Option<WaitingCondition> {
        self.entries.get(&job).map(|entry| entry.condition)
    }

    pub(super) fn request_of(&self, job: JobId) -> Option<(WaitingShapeId, Arc<PlacementRequest>)> {
        let shape = self.entries.get(&job)?.shape;
        Some((shape, self.shapes.request_of_shape(shape)?.clone()))
    }

    pub(super) fn arrival_count(&self) -> u64 {
        self.arrivals
    }

    pub(super) fn mark_proposed(&mut self, job: JobId) {
        self.set_condition(job, WaitingCondition::Ready, WaitingCondition::Offered);
    }

    pub(super) fn has_ready(&self, class: Priority) -> bool {
        self.first_of_shape_after(class, None).is_some()
    }

    /// Returns the first ready job of the first shape after `after`.
    pub(super) fn first_of_shape_after(
        &self,
        class: Priority,
        after: Option<WaitingShapeId>,
    ) -> Option<QueuePlace> {
        let from = (
            class,
            WaitingShapeId(after.map_or(0, |id| id.0 + 1)),
            Timestamp(0),
            JobId(0),
        );
        let &(found, shape, entered, job) = self.ready.range(from..).next()?;
        (found == class).then_some((entered, job, shape))
    }

    /// Returns the next ready job of the same shape.
    pub(super) fn next_of_shape(&self, class: Priority, place: QueuePlace) -> Option<QueuePlace> {
        let (entered, job, shape) = place;
        let after = (Excluded((class, shape, entered, job)), Unbounded);
        let &(found, next_shape, entered, job) = self.ready.range(after).next()?;
        ((found, next_shape) == (class, shape)).then_some((entered, job, shape))
    }

    /// Returns true if a job is still ready at this place, and has been since `arrivals`.
    pub(super) fn was_ready_since(
        &self,
        class: Priority,
        place: QueuePlace,
        arrivals: u64,
    ) -> bool {
        let (entered, job, shape) = place;
        self.entries.get(&job).is_some_and(|entry| {
            entry.condition == WaitingCondition::Ready
                && entry.arrival <= arrivals
                && (entry.priority, entry.shape, entry.entered) == (class, shape, entered)
        })
    }

    /// Returns the job behind `after` in a class.
    pub(super) fn next_in_class(
        &self,
        class: Priority,
        after: Option<(Timestamp, JobId)>,
    ) -> Option<(Timestamp, JobId)> {
        let start = match after {
            Some((entered, job)) => Excluded((class, entered, job)),
            None => std::ops::Bound::Included((class, Timestamp(0), JobId(0))),
        };
        let &(found, entered, job) = self.order.range((start, Unbounded)).next()?;
        (found == class).then_some((entered, job))
    }

    /// Counts a failed try of a job that has been ready since `arrivals`.
    pub(super) fn count_try(
        &mut self,
        job: JobId,
        arrivals: u64,
        now: Timestamp,
    ) -> Option<Option<QueueDecision>> {
        let entry = self.entries.get(&job)?;
        if entry.condition != WaitingCondition::Ready || entry.arrival > arrivals {
            return None;
        }
        let tries = self
            .tries
            .entry(job)
            .or_insert_with(|| PlacementTries::new(entry.priority));
        tries.count_failed(job, entry.max_tries, &self.parameters, now)
    }
}
