//! The rules for classes: the form of their conditions, and combinations that make no sense.

use cospan_domain::ids::{KeyName, RunnerName};
use cospan_domain::job::spec::Priority;
use cospan_domain::queue::JobClassRule;
use cospan_domain::runner::find_runner;
use toml::de::DeValue;

use super::cross_checks::CrossChecker;
use super::sections::{Class, PriorityRule};
use super::value::{OptionValue, quote};

impl OptionValue for KeyName {
    fn form() -> String {
        "the name of a key".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        KeyName::new(&String::read(value)?).map_err(|error| error.to_string())
    }

    fn show(&self) -> String {
        quote(self.as_str())
    }
}

impl OptionValue for RunnerName {
    fn form() -> String {
        "the name of a runner".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        let name = String::read(value)?;
        find_runner(&name).map_err(|error| error.to_string())?;
        RunnerName::new(&name).map_err(|error| error.to_string())
    }

    fn show(&self) -> String {
        quote(self.as_str())
    }
}

impl From<Class> for Priority {
    fn from(class: Class) -> Self {
        match class {
            Class::SuperHigh => Priority::SuperHigh,
            Class::High => Priority::High,
            Class::Low => Priority::Low,
            Class::SuperLow => Priority::SuperLow,
        }
    }
}

impl PriorityRule {
    /// The rule in the form that the intake uses.
    pub(crate) fn as_class_rule(&self) -> JobClassRule {
        JobClassRule {
            owner: self.key.clone(),
            runner: self.runner.clone(),
            min_wall_time: self.min_wall_time,
            max_wall_time: self.max_wall_time,
            class: self.class.map(Priority::from),
            highest: self.highest.map(Priority::from),
        }
    }
}

impl CrossChecker<'_> {
    /// Checks each rule by itself, then after those before it.
    pub(super) fn check_classes(&mut self) {
        let rules: Vec<JobClassRule> = self
            .config
            .priority
            .iter()
            .map(PriorityRule::as_class_rule)
            .collect();
        for (i, rule) in rules.iter().enumerate() {
            let number = i + 1;
            if let (Some(least), Some(most)) = (rule.min_wall_time, rule.max_wall_time)
                && least > most
            {
                let least = least.show();
                let most = most.show();
                let message = format!(
                    "min_wall_time = {least} is above max_wall_time = {most} in [[priority]] \
                     number {number}: it matches no job"
                );
                self.add_error(
                    &format!("priority[{i}].min_wall_time"),
                    message,
                    "lower it, or raise max_wall_time",
                );
            }
            if let (Some(class), Some(highest)) = (rule.class, rule.highest)
                && class > highest
            {
                let message = format!(
                    "class = \"{class}\" is above highest = \"{highest}\" in [[priority]] number \
                     {number}: jobs would get what they may not ask for"
                );
                self.add_error(
                    &format!("priority[{i}].class"),
                    message,
                    "lower it, or raise highest",
                );
            }
            if let Some(first) = rules[..i]
                .iter()
                .position(|earlier| earlier.covers_rule(rule))
            {
                let message = format!(
                    "[[priority]] number {number} never counts: number {} matches every job that \
                     it matches",
                    first + 1
                );
                self.add_warning(
                    &format!("priority[{i}]"),
                    message,
                    "put it before that one, or drop it",
                );
            }
        }
    }
}
