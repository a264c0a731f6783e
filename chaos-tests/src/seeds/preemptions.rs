//! Judges preemption by its published rules: only lower priorities give way, no job too often or
//! after what must not run twice may have begun, and a round preempts once. The decisions are taken
//! from the events of the jobs, and priorities are followed from the beginning.

use std::collections::{BTreeMap, BTreeSet};

use cospan_actors::api::CommittedView;
use cospan_domain::ids::JobId;
use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::job::job_state::{AbortCause, Job};
use cospan_domain::job::spec::Priority;
use cospan_domain::units::{DurationMs, Timestamp};

use super::queueing::Stalled;

/// A job that gave way so often is spared from then on.
const TIMES_MAX: u32 = 3;
/// Longest time between the plan and its effect.
const UNDER_WAY: DurationMs = DurationMs(120_000);

/// A job's priority, and since when by the clock of the control plane.
#[derive(Debug, Clone, Copy)]
struct Class {
    priority: Priority,
    /// True if it rose by waiting.
    promoted: bool,
    since: Timestamp,
}

impl Class {
    fn is_settled(self, now: Timestamp, stalled: Stalled<'_>) -> bool {
        let settled = self.since + UNDER_WAY;
        settled < now && settled + stalled(self.since) < now
    }
}

/// Preemptions so far.
#[derive(Debug, Default)]
pub(super) struct Preemptions {
    classes: BTreeMap<JobId, Class>,
    times: BTreeMap<JobId, u32>,
    /// Jobs whose round has preempted.
    waves: BTreeSet<JobId>,
}

impl Preemptions {
    /// Starts over for another control plane; what became durable right before the death of the
    /// last was seen by nobody.
    pub(super) fn begin_life(&mut self, view: &CommittedView, now: Timestamp) {
        self.classes.clear();
        self.waves.clear();
        view.jobs.values().for_each(|job| self.enter(job, now));
    }

    /// Records a new job: it never had another priority.
    pub(super) fn arrive(&mut self, job: &Job) {
        self.enter(job, Timestamp(0));
    }

    fn enter(&mut self, job: &Job, since: Timestamp) {
        let class = Class {
            priority: job.priority,
            promoted: job.promoted,
            since,
        };
        self.classes.insert(job.id, class);
    }

    /// Records what happened to a job, and lists what must not have.
    pub(super) fn record_events(
        &mut self,
        job: &Job,
        events: &[JobEvent],
        stalled: Stalled<'_>,
    ) -> Vec<String> {
        let found = events
            .iter()
            .filter_map(|event: &JobEvent| self.judge_event(job, &event.what, event.at, stalled));
        found
            .map(|text| format!("job {}: {text}", job.id))
            .collect()
    }

    fn judge_event(
        &mut self,
        job: &Job,
        what: &JobEventKind,
        now: Timestamp,
        stalled: Stalled<'_>,
    ) -> Option<String> {
        match what {
            JobEventKind::PriorityChanged { to, by } => {
                let class = Class {
                    priority: *to,
                    promoted: by.is_none(),
                    since: now,
                };
                self.classes.insert(job.id, class);
                None
            }
            JobEventKind::JobPlaced { .. } => {
                self.waves.remove(&job.id);
                None
            }
            JobEventKind::ComponentsClaimed { preempting, .. } if !preempting.is_empty() => {
                let again = !self.waves.insert(job.id);
                let class = self
                    .classes
                    .get(&job.id)
                    .filter(|class| class.is_settled(now, stalled));
                let may_not = class
                    .is_some_and(|class| class.promoted || class.priority == Priority::SuperLow);
                match (again, may_not) {
                    (true, _) => Some("its round preempts a second time".to_owned()),
                    (_, true) => Some(format!("it preempts as {class:?}")),
                    _ => None,
                }
            }
            JobEventKind::RoundAborted {
                why: AbortCause::Preempted { by },
                ..
            } => self.yield_processors(job, *by, now, stalled),
            _ => None,
        }
    }

    fn yield_processors(
        &mut self,
        job: &Job,
        by: JobId,
        now: Timestamp,
        stalled: Stalled<'_>,
    ) -> Option<String> {
        if job.start_at.is_some() && !job.spec.rerunnable {
            return Some("it gives way although it may have begun and must not run twice".into());
        }
        let times = self.times.entry(job.id).or_default();
        *times += 1;
        if *times > TIMES_MAX {
            return Some(format!("it gives way for the {times}th time"));
        }
        let own = self.settled_class(job.id, now, stalled)?;
        let other = self.settled_class(by, now, stalled)?;
        let lower = own.priority < other.priority;
        (!lower).then(|| format!("as {own:?} it gives way to job {by} as {other:?}"))
    }

    fn settled_class(&self, id: JobId, now: Timestamp, stalled: Stalled<'_>) -> Option<Class> {
        let class = self.classes.get(&id).copied();
        class.filter(|class| class.is_settled(now, stalled))
    }
}
