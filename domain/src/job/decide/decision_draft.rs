//! The events decided so far, and the state after them.

use std::borrow::Cow;

use crate::ids::{Attempt, ComponentIndex};
use crate::job::evolve::evolve;
use crate::job::job_command::{JobCommand, JobRejection};
use crate::job::job_event::{JobEvent, JobEventKind};
use crate::job::job_parameters::JobParameters;
use crate::job::job_state::{Component, Job, JobPhase};
use crate::units::Timestamp;

/// The events decided so far. Each is applied at once, so that later decisions are made on the
/// state after it.
pub(super) struct DecisionDraft<'a> {
    /// The job, copied at the first event: most looks find nothing new.
    pub(super) job: Cow<'a, Job>,
    pub(super) parameters: &'a JobParameters,
    pub(super) now: Timestamp,
    /// True if the command is a look: reports that came until now have been applied.
    looks: bool,
    events: Vec<JobEvent>,
}

impl<'a> DecisionDraft<'a> {
    pub(super) fn new(
        job: &'a Job,
        parameters: &'a JobParameters,
        now: Timestamp,
        command: &JobCommand,
    ) -> Self {
        let looks = matches!(command, JobCommand::Look(_));
        Self {
            job: Cow::Borrowed(job),
            parameters,
            now,
            looks,
            events: Vec::new(),
        }
    }

    /// Returns true if the reports that came from sites and others until now have been applied.
    pub(super) fn is_look_command(&self) -> bool {
        self.looks
    }

    /// Returns true if the wait until this time was in vain. Only a look can decide that, because
    /// sightings are applied before it: another command may be late itself, and what the job waited
    /// for may have been seen since.
    pub(super) fn is_deadline_over(&self, time: Timestamp) -> bool {
        self.looks && time <= self.now
    }

    pub(super) fn emit(&mut self, what: JobEventKind) {
        let event = JobEvent { at: self.now, what };
        evolve(self.job.to_mut(), &event);
        self.events.push(event);
    }

    pub(super) fn event_count(&self) -> usize {
        self.events.len()
    }

    /// Returns a component in its state after the events so far.
    pub(super) fn component(&self, index: ComponentIndex) -> Option<&Component> {
        self.job.components.get(index.0 as usize)
    }

    pub(super) fn into_events(self) -> Vec<JobEvent> {
        self.events
    }

    /// Returns the component if this is still its latest attempt and something of it may live.
    pub(super) fn current_component(
        &self,
        index: ComponentIndex,
        attempt: Attempt,
    ) -> Result<&Component, JobRejection> {
        self.job
            .components
            .get(index.0 as usize)
            .filter(|component| component.attempt == attempt && component.run.may_live())
            .ok_or(JobRejection::Stale)
    }

    /// Returns true if a component's attempt is being ended: with its round, or by itself.
    pub(super) fn is_ending(&self, index: ComponentIndex) -> bool {
        let component = self.job.components.get(index.0 as usize);
        matches!(self.job.phase, JobPhase::Aborting { .. })
            || component.is_some_and(|component| component.given_back)
    }

    /// Iterates over the indexes of all components, without a borrow.
    pub(super) fn component_indexes(&self) -> impl Iterator<Item = ComponentIndex> + use<> {
        (0..self.job.components.len() as u32).map(ComponentIndex)
    }
}
