//! Options of a job that say how it runs, for any runner.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use super::sweep::SweepTask;
use super::{RunnerError, runner_of};
use crate::acquisition::{
    AcquisitionMode, AcquisitionOptions, MoldingOptions, RankingPreferences,
    RankingPreferencesError, ReservationTerms, ReservationTermsError,
};
use crate::bid::DimensionWeights;
use crate::boxed_default::SharedDefault;
use crate::ids::{ReservationName, RunnerName, TargetName};
use crate::job::spec::{JobSpec, RequestType};
use crate::units::DurationMs;

/// The options that say how a job runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunOptions {
    /// The name of its runner; `None` for the default one.
    pub runner: Option<RunnerName>,
    /// The run of a sweep that it is.
    pub task: Option<SweepTask>,
    /// The warning that its payloads get before their wall time ends.
    pub warning: Option<EndWarning>,
    /// The targets that are notified when it has ended.
    pub notify: BTreeSet<TargetName>,
    /// The components that are restarted when one fails.
    pub restart_scope: RestartScope,
    /// The ways in which it may get its processors.
    pub acquisition: AcquisitionOptions,
    /// The terms of its reservation, if it wants one.
    pub reservation: Option<ReservationTerms>,
    /// The shared reservation on whose processors it runs, with other jobs that name it.
    pub within: Option<ReservationName>,
    /// The ranking of the sites that are asked for its reservation; `None`: the order of its
    /// policy.
    pub preferences: Option<RankingPreferences>,
    /// The weight of each dimension when sites bid for it; `None`: the weights of the whole grid.
    pub weights: Option<DimensionWeights>,
    /// The other shapes in which a flexible request may run.
    pub molding: MoldingOptions,
}

impl SharedDefault for RunOptions {
    fn shared_default() -> &'static Self {
        static USUAL: LazyLock<RunOptions> = LazyLock::new(RunOptions::default);
        &USUAL
    }
}

/// The components that are restarted when one of a running job fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RestartScope {
    /// All of them, together.
    #[default]
    Job,
    /// The failed one, while the others go on; for components that do not talk to each other.
    Component,
}

/// A signal ahead of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndWarning {
    pub signal: PayloadSignal,
    /// Time before the end of the wall time; above 0 and below the wall time.
    pub before: DurationMs,
    /// Those who get it.
    pub to: SignalReceiver,
}

/// The processes of a payload that get a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SignalReceiver {
    /// All of them.
    #[default]
    Payload,
    /// The first of them alone, which is the script if there is one.
    Script,
    /// Those that it started as steps of its batch system's job (`srun`), without itself; all of them
    /// where the site has no steps.
    Steps,
}

impl SignalReceiver {
    /// Returns its name in job files and for the wrapper.
    pub fn as_str(self) -> &'static str {
        match self {
            SignalReceiver::Payload => "payload",
            SignalReceiver::Script => "script",
            SignalReceiver::Steps => "steps",
        }
    }
}

/// The signals that a payload may be warned with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[allow(missing_docs, reason = "named after the signals")]
pub enum PayloadSignal {
    #[default]
    Usr1,
    Usr2,
    Term,
    Int,
    Hup,
}

impl PayloadSignal {
    /// Returns its name without SIG, as `kill -s` takes it.
    pub fn as_str(self) -> &'static str {
        match self {
            PayloadSignal::Usr1 => "USR1",
            PayloadSignal::Usr2 => "USR2",
            PayloadSignal::Term => "TERM",
            PayloadSignal::Int => "INT",
            PayloadSignal::Hup => "HUP",
        }
    }
}

impl fmt::Display for PayloadSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl JobSpec {
    /// Checks the reservation that it wants, if it wants one.
    pub(crate) fn validate_reservation(&self) -> Result<(), ReservationTermsError> {
        let wish = &self.run.reservation;
        let within = &self.run.within;
        if wish.is_none() && within.is_none() {
            return Ok(());
        }
        if wish.is_some() && within.is_some() {
            return Err(ReservationTermsError::WithinAndOwn);
        }
        if within.is_some() && self.run.restart_scope == RestartScope::Component {
            return Err(ReservationTermsError::RestartWithin);
        }
        if let RequestType::Flexible(bounds) = &self.request {
            match wish {
                None => return Err(ReservationTermsError::FlexibleWithin),
                Some(_) if !bounds.splits.is_empty() => {
                    return Err(ReservationTermsError::FlexibleSplits);
                }
                Some(wish) if wish.unreserved => {
                    return Err(ReservationTermsError::FlexibleUnreserved);
                }
                Some(_) => {}
            }
        }
        if self.run.acquisition.mode == AcquisitionMode::Queued {
            return Err(ReservationTermsError::Queued);
        }
        wish.as_ref().map_or(Ok(()), ReservationTerms::validate)
    }

    /// Checks its preferences for the ranking of sites.
    pub(crate) fn validate_preferences(&self) -> Result<(), RankingPreferencesError> {
        match &self.run.preferences {
            Some(_) if self.run.reservation.is_none() => {
                Err(RankingPreferencesError::NoReservation)
            }
            Some(_) if matches!(self.request, RequestType::Flexible(_)) => {
                Err(RankingPreferencesError::Flexible)
            }
            Some(preferences) => preferences.validate(),
            None => Ok(()),
        }
    }

    /// Checks the options that say how it runs.
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
        if let Some(EndWarning { before, .. }) = self.run.warning
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
