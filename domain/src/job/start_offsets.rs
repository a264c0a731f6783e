//! Components that begin later than the others of their job, by a fixed time after its start.
//!
//! They take no part in the common start, and nothing is claimed for them before it. From then on
//! each begins alone, as a restarted component does, in its own reservation; its gate stays shut
//! until its time has come.

use thiserror::Error;

use super::job_state::{AttemptState, Component, ComponentRestart, Job, RestartStep};
use super::spec::{JobSpec, JobSpecError, JobSpecLimits, RequestType};
use crate::ids::{ComponentIndex, ComponentName};
use crate::runner::runner_of;
use crate::units::{DurationMs, Timestamp};

/// The reason why a component cannot begin later than the others.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum StartOffsetError {
    #[error(
        "component {0:?} has `start_after`, but the job has no reserved start to count it from; \
         say when it may start (`[reservation]` with `earliest`, `wanted = \"always\"`, or \
         `--start`), or drop `start_after`"
    )]
    NoReservation(ComponentName),
    #[error(
        "component {0:?} has `start_after`, but the job may start without a reservation \
         (`reservation.wanted = \"if-needed\"`); set `wanted = \"always\"`, or drop `start_after`"
    )]
    IfNeeded(ComponentName),
    #[error(
        "component {0:?} has `start_after`, but Cospan moves the job forward by itself, which is \
         for components that begin together; drop `reservation.flexible`, or `start_after`"
    )]
    Moved(ComponentName),
    #[error(
        "component {0:?} has `start_after`, but components may be claimed without a reservation \
         (`reservation.unreserved`); drop one of the two"
    )]
    Unreserved(ComponentName),
    #[error(
        "component {0:?} of a flexible request has `start_after`, but its parts begin together; \
         name its components, or drop `start_after`"
    )]
    Flexible(ComponentName),
    #[error(
        "component {name:?} has `start_after`, but components of runner {runner:?} know each other \
         and begin together; drop `start_after`, or use another runner"
    )]
    WithRunner {
        name: ComponentName,
        runner: &'static str,
    },
    #[error(
        "every component has `start_after`, so that none begins at the start of the job; drop it \
         from the first, and make the others shorter by as much"
    )]
    NoneAtStart,
    #[error("component {name:?} begins {given} after the others (`start_after`); at most {max}")]
    TooLong {
        name: ComponentName,
        given: DurationMs,
        max: DurationMs,
    },
}

impl JobSpec {
    /// Returns the time from the start of the job to the start of a component.
    pub fn offset_of(&self, index: ComponentIndex) -> DurationMs {
        match self.request {
            RequestType::Flexible(_) => DurationMs::ZERO,
            RequestType::Fixed | RequestType::NonFixed => {
                let component = self.components.get(index.0 as usize);
                component.map_or(DurationMs::ZERO, |component| component.start_after)
            }
        }
    }

    /// Returns the time from the start of the job to the start of its last component.
    pub fn longest_offset(&self) -> DurationMs {
        let offsets = self
            .components
            .iter()
            .map(|component| component.start_after);
        offsets.max().unwrap_or_default()
    }

    /// Checks that the components that begin later can do so.
    pub(super) fn validate_offsets(&self, limits: &JobSpecLimits) -> Result<(), JobSpecError> {
        let mut later = self
            .components
            .iter()
            .filter(|c| c.start_after > DurationMs::ZERO);
        let Some(first) = later.next() else {
            return Ok(());
        };
        let name = first.name.clone();
        let max = limits.max_wall_time;
        let runner = runner_of(self)?;
        Err(match self.run.reservation {
            _ if matches!(self.request, RequestType::Flexible(_)) => {
                StartOffsetError::Flexible(name)
            }
            None => StartOffsetError::NoReservation(name),
            Some(wish) if wish.reserve_after.is_some() => StartOffsetError::IfNeeded(name),
            Some(wish) if wish.flexible => StartOffsetError::Moved(name),
            Some(wish) if wish.unreserved => StartOffsetError::Unreserved(name),
            _ if !runner.components_are_independent() => StartOffsetError::WithRunner {
                name,
                runner: runner.name(),
            },
            _ if later.count() + 1 == self.components.len() => StartOffsetError::NoneAtStart,
            _ => match self
                .components
                .iter()
                .find(|component| component.start_after > max)
            {
                None => return Ok(()),
                Some(component) => {
                    let name = component.name.clone();
                    let given = component.start_after;
                    StartOffsetError::TooLong { name, given, max }
                }
            },
        }
        .into())
    }
}

impl Component {
    /// Returns true if it has yet to begin for the first time in its round, which has started
    /// without it.
    pub fn is_to_begin_later(&self) -> bool {
        let is_staged = self
            .restart
            .as_ref()
            .is_some_and(|r| r.step == RestartStep::Staged);
        // A restarted component is claimed without a reservation.
        is_staged && self.acquisition().reservation_use().is_some()
    }
}

impl Job {
    /// Returns true if a component takes no part in the common start.
    pub fn begins_later(&self, index: ComponentIndex) -> bool {
        self.spec.offset_of(index) > DurationMs::ZERO
    }

    /// Iterates over the components that take part in the common start.
    pub fn common_start_components(&self) -> impl Iterator<Item = (ComponentIndex, &Component)> {
        self.indexed_components()
            .filter(|(index, _)| !self.begins_later(*index))
    }

    /// Returns the time at which a component is to begin, once the start of the job is decided.
    pub fn component_start(&self, index: ComponentIndex) -> Option<Timestamp> {
        self.start_at
            .map(|start| start + self.spec.offset_of(index))
    }

    /// Returns true if the gate of a component stays shut because its time is yet to come.
    pub(super) fn is_too_early(&self, index: ComponentIndex, now: Timestamp) -> bool {
        self.begins_later(index) && self.component_start(index).is_none_or(|at| now < at)
    }

    /// Returns the time from which on a component may be claimed alone: early enough to come to its
    /// gate.
    pub(super) fn lone_claim_time(&self, index: ComponentIndex) -> Timestamp {
        let lead = self
            .reservation
            .as_deref()
            .map(|reservation| reservation.lead);
        self.component_start(index).unwrap_or_default() - lead.unwrap_or_default()
    }

    /// Sets the components that begin later on their way, as the job has started.
    pub(super) fn begin_late_components(&mut self, at: Timestamp) {
        for index in (0..self.components.len() as u32).map(ComponentIndex) {
            let component = &self.components[index.0 as usize];
            if !self.begins_later(index) || !matches!(component.run, AttemptState::Idle) {
                continue;
            }
            let reserved = component
                .acquisition()
                .reservation_use()
                .map(|promised| promised.from);
            let not_before = self
                .lone_claim_time(index)
                .max(reserved.unwrap_or_default());
            let step = RestartStep::Staged;
            let restart = ComponentRestart {
                step,
                since: at,
                tries: 0,
                not_before,
            };
            self.components[index.0 as usize].restart = Some(restart);
        }
    }
}
