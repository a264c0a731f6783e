//! What a job says of how it is run, whatever its runner.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use super::sweep::SweepTask;
use super::{RunnerError, runner_of};
use crate::acquire::{
    AcquisitionMode, AcquisitionOptions, InvalidPreferences, InvalidTerms, Molding, Preferences,
    ReservationTerms,
};
use crate::bid::Weights;
use crate::ids::{ReservationName, RunnerName, TargetName};
use crate::job::spec::{JobSpec, RequestType};
use crate::sparse::Usual;
use crate::units::DurationMs;

/// How a job is run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunOptions {
    /// Its runner; `None` for the default one.
    pub runner: Option<RunnerName>,
    /// Which run of a sweep it is.
    pub task: Option<SweepTask>,
    /// The warning that its payloads get before their wall time ends.
    pub warning: Option<Warning>,
    /// Who is told when it has ended.
    pub notify: BTreeSet<TargetName>,
    /// What is restarted when a component fails.
    pub restart_scope: RestartScope,
    /// How its processors are got.
    pub acquisition: AcquisitionOptions,
    /// The start that it is to be promised, if it wants a reservation.
    pub reservation: Option<ReservationTerms>,
    /// The reservation on whose processors it runs, with other jobs that name it.
    pub within: Option<ReservationName>,
    /// How the sites that are asked for its reservation are ranked; `None`: as its policy has them.
    pub preferences: Option<Preferences>,
    /// How much each dimension counts where sites bid for it; `None`: as on the whole grid.
    pub weights: Option<Weights>,
    /// How a flexible request may run, beside as it asks.
    pub molding: Molding,
}

impl Usual for RunOptions {
    fn usual() -> &'static Self {
        static USUAL: LazyLock<RunOptions> = LazyLock::new(RunOptions::default);
        &USUAL
    }
}

/// What is restarted when a component of a running job fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RestartScope {
    /// All of them, together.
    #[default]
    Job,
    /// That one, while the others go on; for components that do not talk to each other.
    Component,
}

/// A signal ahead of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warning {
    /// Which.
    pub signal: Signal,
    /// So long before the wall time ends; above 0 and below the wall time.
    pub before: DurationMs,
}

/// Signals that a payload may be warned with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[allow(missing_docs, reason = "named after the signals")]
pub enum Signal {
    #[default]
    Usr1,
    Usr2,
    Term,
    Int,
    Hup,
}

impl Signal {
    /// Its name without SIG, as `kill -s` takes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Signal::Usr1 => "USR1",
            Signal::Usr2 => "USR2",
            Signal::Term => "TERM",
            Signal::Int => "INT",
            Signal::Hup => "HUP",
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl JobSpec {
    /// Checks the reservation that it wants, if it wants one.
    pub(crate) fn validate_reservation(&self) -> Result<(), InvalidTerms> {
        let wish = &self.run.reservation;
        let within = &self.run.within;
        if wish.is_none() && within.is_none() {
            return Ok(());
        }
        if wish.is_some() && within.is_some() {
            return Err(InvalidTerms::WithinAndOwn);
        }
        if within.is_some() && self.run.restart_scope == RestartScope::Component {
            return Err(InvalidTerms::RestartWithin);
        }
        if let RequestType::Flexible(bounds) = &self.request {
            match wish {
                None => return Err(InvalidTerms::FlexibleWithin),
                Some(_) if !bounds.splits.is_empty() => return Err(InvalidTerms::FlexibleSplits),
                Some(wish) if wish.unreserved => return Err(InvalidTerms::FlexibleUnreserved),
                Some(_) => {}
            }
        }
        if self.run.acquisition.mode == AcquisitionMode::Queued {
            return Err(InvalidTerms::Queued);
        }
        wish.as_ref().map_or(Ok(()), ReservationTerms::validate)
    }

    /// Checks what it says of how its sites are ranked.
    pub(crate) fn validate_preferences(&self) -> Result<(), InvalidPreferences> {
        match &self.run.preferences {
            Some(_) if self.run.reservation.is_none() => Err(InvalidPreferences::NoReservation),
            Some(_) if matches!(self.request, RequestType::Flexible(_)) => {
                Err(InvalidPreferences::Flexible)
            }
            Some(preferences) => preferences.validate(),
            None => Ok(()),
        }
    }

    /// Checks what it says of how it is run.
    pub(crate) fn validate_run(&self) -> Result<(), RunnerError> {
        let runner = runner_of(self)?;
        if self.run.restart_scope == RestartScope::Component {
            if !runner.components_are_independent() {
                return Err(RunnerError::ScopeWithRunner {
                    runner: runner.name(),
                });
            }
            if !self.rerunnable {
                return Err(RunnerError::ScopeForbidden);
            }
        }
        let shortest = self
            .run
            .molding
            .shapes
            .iter()
            .map(|shape| shape.run_time)
            .min();
        let wall_time = shortest.unwrap_or(self.wall_time).min(self.wall_time);
        if let Some(Warning { before, .. }) = self.run.warning
            && (before == DurationMs::ZERO || before >= wall_time)
        {
            return Err(RunnerError::Warning { before, wall_time });
        }
        match self
            .components
            .iter()
            .find(|component| component.restart.is_some())
        {
            Some(component) if !self.rerunnable => {
                Err(RunnerError::RestartForbidden(component.name.clone()))
            }
            Some(_) | None => Ok(()),
        }
    }
}
