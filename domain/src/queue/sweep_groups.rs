//! Sweeps with a limit: decides which of their waiting runs have their turn.
//!
//! Runs that are placed, held or running count. Of those that wait, as many have their turn as the
//! limit leaves room for, lowest number first. Only they are in the placement queues.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::JobId;
use crate::job::job_state::{Job, JobPhase};

/// Sweeps with a limit of runs at once, by their first job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SweepGroups(BTreeMap<JobId, SweepGroup>);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct SweepGroup {
    limit: usize,
    waiting: BTreeSet<JobId>,
    busy: BTreeSet<JobId>,
    turn: BTreeSet<JobId>,
}

impl SweepGroups {
    /// Notes the phase of a job. Returns its sweep, if that has a limit.
    pub fn record_phase(&mut self, job: &Job) -> Option<JobId> {
        let task = job.spec.run.task.as_ref()?;
        let limit = task.at_once?;
        let group = self.0.entry(task.group).or_default();
        group.limit = limit as usize;
        group.waiting.remove(&job.id);
        group.busy.remove(&job.id);
        match job.phase {
            JobPhase::Queued { .. } if job.frozen_by.is_some() || job.held.is_some() => {}
            JobPhase::Queued { .. } => drop(group.waiting.insert(job.id)),
            JobPhase::Finished { .. } | JobPhase::Failed { .. } | JobPhase::Cancelled { .. } => {}
            _ => drop(group.busy.insert(job.id)),
        }
        Some(task.group)
    }

    /// Gives turns again, and returns the jobs that got one or lost it. Jobs of `offered` have an
    /// open proposal: they keep their turn, for they may be placed at any moment.
    pub fn give_turns(
        &mut self,
        group: JobId,
        offered: impl Iterator<Item = JobId>,
    ) -> BTreeSet<JobId> {
        let Some(state) = self.0.get_mut(&group) else {
            return BTreeSet::new();
        };
        let mut turn: BTreeSet<JobId> = offered.filter(|id| state.waiting.contains(id)).collect();
        let room = state
            .limit
            .saturating_sub(state.busy.len())
            .saturating_sub(turn.len());
        let next: Vec<JobId> = state
            .waiting
            .iter()
            .filter(|id| !turn.contains(id))
            .take(room)
            .copied()
            .collect();
        turn.extend(next);
        let changed = turn.symmetric_difference(&state.turn).copied().collect();
        state.turn = turn;
        if state.waiting.is_empty() && state.busy.is_empty() {
            self.0.remove(&group);
        }
        changed
    }

    /// Returns true if a waiting job may be tried: it has its turn, or needs none.
    pub fn has_turn(&self, job: &Job) -> bool {
        match job
            .spec
            .run
            .task
            .as_ref()
            .filter(|task| task.at_once.is_some())
        {
            None => true,
            Some(task) => self
                .0
                .get(&task.group)
                .is_some_and(|group| group.turn.contains(&job.id)),
        }
    }

    /// Lists all sweeps with a limit.
    pub fn limited_sweeps(&self) -> Vec<JobId> {
        self.0.keys().copied().collect()
    }
}
