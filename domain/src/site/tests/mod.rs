//! Tests of the site's machine as a whole.

mod automaton;
mod availability_tests;
mod breaker;
mod operators;
mod owners;
mod shared;
mod site_property_tests;
mod together;

use std::sync::Arc;

use crate::ids::{Attempt, ComponentIndex, JobId, KeyName, SiteName};
use crate::machine::StateMachine;
use crate::site::SiteMachine;
use crate::site::failure::FailureClass;
use crate::site::site_command::{OperatorCommand, SiteCommand, SiteRejection};
use crate::site::site_event::SiteEvent;
use crate::site::site_parameters::SiteParameters;
use crate::site::site_state::{AttemptId, SiteNotificationKind, SiteRecord};
use crate::units::{PerMillion, Timestamp};

/// A record with its clock, driven by commands.
#[derive(Debug, Clone)]
struct SiteTestBench {
    record: SiteRecord,
    parameters: SiteParameters,
    now: Timestamp,
    journal: Vec<SiteEvent>,
}

impl SiteTestBench {
    fn new() -> Self {
        Self {
            record: SiteRecord::new(SiteName::new("delft").unwrap()),
            parameters: SiteParameters::default(),
            now: Timestamp(1_000_000),
            journal: Vec::new(),
        }
    }

    /// A site whose breaker opened after three errors, at the time of its first probe.
    fn due_for_a_probe() -> Self {
        let mut bench = Self::new();
        (1..=3).for_each(|job| drop(bench.record_error(job)));
        bench.wait_secs(60);
        bench
    }

    fn apply_command(&mut self, command: SiteCommand) -> Result<Vec<SiteEvent>, SiteRejection> {
        let events = SiteMachine::decide(&self.record, &self.parameters, command, self.now)?;
        for event in &events {
            SiteMachine::evolve(&mut self.record, event);
        }
        self.journal.extend(events.iter().cloned());
        Ok(events)
    }

    fn event_names(&mut self, command: SiteCommand) -> Vec<&'static str> {
        self.apply_command(command)
            .unwrap()
            .iter()
            .map(|event| event.what.name())
            .collect()
    }

    fn record_error(&mut self, job: u64) -> Vec<&'static str> {
        self.event_names(error_command(job, FailureClass::Site))
    }

    fn record_success(&mut self, job: u64) -> Vec<&'static str> {
        self.event_names(SiteCommand::RecordSuccess {
            attempt: attempt(job),
        })
    }

    fn start_probe(&mut self, job: u64) -> Result<Vec<SiteEvent>, SiteRejection> {
        self.apply_command(SiteCommand::StartProbe {
            probe: attempt(job),
            owner: None,
            may_probe: true,
        })
    }

    fn apply_operation(&mut self, what: OperatorCommand) -> Result<Vec<SiteEvent>, SiteRejection> {
        self.apply_command(SiteCommand::Operate { by: key(), what })
    }

    fn owed_notifications(&self) -> Vec<SiteNotificationKind> {
        self.record
            .owed
            .iter()
            .map(|notification| notification.kind)
            .collect()
    }

    fn wait_secs(&mut self, secs: u64) {
        self.now.0 += secs * 1000;
    }
}

fn attempt(job: u64) -> AttemptId {
    AttemptId {
        job: JobId(job),
        component: ComponentIndex(0),
        attempt: Attempt(1),
    }
}

fn key() -> KeyName {
    KeyName::new("ops").unwrap()
}

fn error_command(job: u64, class: FailureClass) -> SiteCommand {
    SiteCommand::RecordError {
        attempt: attempt(job),
        owner: None,
        class,
        detail: text(&format!("job {job} was lost")),
        isolated: false,
        jitter: PerMillion(0),
    }
}

fn text(text: &str) -> Arc<str> {
    text.into()
}
