//! The class of a job: the one that its user asks for, within the rules of the system.
//!
//! KOALA's priorities are given by system policy (run time, application type, user). The first rule
//! that matches a job applies to it. Without rules every user may ask for any class.

use thiserror::Error;

use crate::ids::{KeyName, RunnerName};
use crate::job::spec::{JobSpec, Priority};
use crate::runner::DEFAULT_RUNNER;
use crate::units::DurationMs;

/// The properties of a job that rules look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobClassProperties<'j> {
    /// The key that submitted it.
    pub owner: &'j KeyName,
    /// The name of its runner.
    pub runner: &'j str,
    /// The wall time: the run time as its user estimates it.
    pub wall_time: DurationMs,
}

impl<'j> JobClassProperties<'j> {
    /// Takes the traits from a job of this owner.
    pub fn for_job(owner: &'j KeyName, spec: &'j JobSpec) -> Self {
        let runner = spec
            .run
            .runner
            .as_ref()
            .map_or(DEFAULT_RUNNER, RunnerName::as_str);
        Self {
            owner,
            runner,
            wall_time: spec.wall_time,
        }
    }
}

/// A rule. A condition that is `None` holds for every job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobClassRule {
    /// Only jobs that were submitted with this key.
    pub owner: Option<KeyName>,
    /// Only jobs of this runner.
    pub runner: Option<RunnerName>,
    /// Only jobs of at least this wall time.
    pub min_wall_time: Option<DurationMs>,
    /// Only jobs of at most this wall time.
    pub max_wall_time: Option<DurationMs>,
    /// Class of jobs that name none.
    pub class: Option<Priority>,
    /// Highest class that may be asked for.
    pub highest: Option<Priority>,
}

impl JobClassRule {
    fn matches_job(&self, job: &JobClassProperties<'_>) -> bool {
        self.owner.as_ref().is_none_or(|owner| owner == job.owner)
            && self
                .runner
                .as_ref()
                .is_none_or(|runner| runner.as_str() == job.runner)
            && self
                .min_wall_time
                .is_none_or(|least| job.wall_time >= least)
            && self.max_wall_time.is_none_or(|most| job.wall_time <= most)
    }

    /// Returns true if this rule matches every job that `later` matches, so that `later` behind it
    /// never applies.
    pub fn covers_rule(&self, later: &JobClassRule) -> bool {
        (self.owner.is_none() || self.owner == later.owner)
            && (self.runner.is_none() || self.runner == later.runner)
            && self.least_wall_time() <= later.least_wall_time()
            && self.most_wall_time() >= later.most_wall_time()
    }

    fn least_wall_time(&self) -> DurationMs {
        self.min_wall_time.unwrap_or(DurationMs::ZERO)
    }

    fn most_wall_time(&self) -> u64 {
        self.max_wall_time.map_or(u64::MAX, |most| most.0)
    }

    /// Returns the class of jobs that name none.
    fn default_class(&self) -> Priority {
        self.class.unwrap_or_else(|| {
            let class = Priority::default();
            self.highest.map_or(class, |most| class.min(most))
        })
    }
}

/// The way in which a class is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassRequest {
    /// True if no class is named: the rules give one.
    pub names_none: bool,
    /// True if no rule binds the key that asks.
    pub uncapped: bool,
}

/// The class of a job, and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssignedClass {
    pub class: Priority,
    /// True if the job names no class, and the rules gave it one.
    pub given: bool,
    /// The number of the rule that applies to the job, from 1, in the configuration.
    pub rule: Option<usize>,
}

/// The error for a class that a rule does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the priority {asked} is above {highest}, the highest that [[priority]] number {rule} of the \
     configuration allows this job"
)]
pub struct ClassLimitError {
    /// The class that was asked for.
    pub asked: Priority,
    /// The highest class that is allowed.
    pub highest: Priority,
    /// The rule's number in the configuration, from 1.
    pub rule: usize,
}

impl ClassLimitError {
    /// Advises the user.
    pub fn remedy(&self) -> String {
        format!("ask for at most {}, or ask an administrator", self.highest)
    }
}

/// Decides the class of a job that asks for `asked`.
///
/// # Errors
/// The class is above what the job's rule allows, and that rule binds the key that asks.
pub fn decide_class(
    asked: Priority,
    how: ClassRequest,
    job: &JobClassProperties<'_>,
    rules: &[JobClassRule],
) -> Result<AssignedClass, ClassLimitError> {
    let rule = (1..).zip(rules).find(|(_, rule)| rule.matches_job(job));
    let class = match rule {
        None if how.names_none => Priority::default(),
        Some((_, rule)) if how.names_none => rule.default_class(),
        Some((
            number,
            JobClassRule {
                highest: Some(highest),
                ..
            },
        )) if asked > *highest && !how.uncapped => {
            return Err(ClassLimitError {
                asked,
                highest: *highest,
                rule: number,
            });
        }
        _ => asked,
    };
    Ok(AssignedClass {
        class,
        given: how.names_none,
        rule: rule.map(|(number, _)| number),
    })
}
