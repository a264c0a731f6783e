//! Tests of the copy's machine as a whole.

mod copy_world;
mod life;
mod trouble;

use crate::content::Content;
use crate::ids::{Digest, RelPath, SiteName};
use crate::machine::StateMachine;
use crate::transfer::CopyMachine;
use crate::transfer::copy_command::{CopyCommand, CopyRejection, CopySighting, CopyStartAnswer};
use crate::transfer::copy_due::CopyEffect;
use crate::transfer::copy_event::{CopyEvent, TryFaultSide};
use crate::transfer::copy_parameters::CopyParameters;
use crate::transfer::copy_state::{CopyPhase, CopyRecord, CopyTry, CopyTrySource, TryNonce};
use crate::transfer::file_place::FilePlace;
use crate::units::{Bytes, DurationMs, Timestamp};

/// A record with its clock, driven by commands.
#[derive(Debug, Clone)]
struct CopyTestBench {
    record: CopyRecord,
    parameters: CopyParameters,
    now: Timestamp,
    journal: Vec<CopyEvent>,
}

impl CopyTestBench {
    fn new() -> Self {
        let content = Content {
            digest: Digest([7; 32]),
            size: Bytes(1_000_000),
        };
        Self {
            record: CopyRecord::new(content, SiteName::new("delft").unwrap()),
            parameters: CopyParameters::default(),
            now: Timestamp(1_000_000),
            journal: Vec::new(),
        }
    }

    /// Needed, ordered from a site under this nonce, and taken.
    fn new_copying(from: &str, nonce: u64) -> Self {
        let mut bench = Self::new();
        bench.event_names(CopyCommand::Need);
        bench.begin_try(from, nonce).unwrap();
        bench.apply_start_answer(nonce, CopyStartAnswer::Taken);
        bench
    }

    fn new_ready(nonce: u64) -> Self {
        let mut bench = Self::new_copying("leiden", nonce);
        assert_eq!(
            bench.apply_sighting(nonce, CopySighting::Complete),
            ["CopyCompleted"]
        );
        bench
    }

    fn apply_command(&mut self, command: CopyCommand) -> Result<Vec<CopyEvent>, CopyRejection> {
        let events = CopyMachine::decide(&self.record, &self.parameters, command, self.now)?;
        for event in &events {
            CopyMachine::evolve(&mut self.record, event);
        }
        self.journal.extend(events.iter().cloned());
        Ok(events)
    }

    fn event_names(&mut self, command: CopyCommand) -> Vec<&'static str> {
        self.apply_command(command)
            .unwrap()
            .iter()
            .map(|event| event.what.name())
            .collect()
    }

    fn begin_try(&mut self, from: &str, nonce: u64) -> Result<Vec<CopyEvent>, CopyRejection> {
        self.apply_command(CopyCommand::Begin {
            source: try_source(from),
            nonce: TryNonce(nonce),
        })
    }

    fn apply_start_answer(&mut self, nonce: u64, answer: CopyStartAnswer) -> Vec<&'static str> {
        self.event_names(CopyCommand::StartAnswered {
            nonce: TryNonce(nonce),
            answer,
        })
    }

    fn apply_sighting(&mut self, nonce: u64, seen: CopySighting) -> Vec<&'static str> {
        self.event_names(CopyCommand::Observed {
            nonce: TryNonce(nonce),
            seen,
        })
    }

    fn fail_try(&mut self, nonce: u64, blame: TryFaultSide) -> Vec<&'static str> {
        self.apply_sighting(
            nonce,
            CopySighting::Failed {
                blame,
                detail: "it broke".into(),
            },
        )
    }

    fn due(&self) -> Vec<CopyEffect> {
        CopyMachine::due(&self.record, &self.parameters, self.now)
    }

    fn next_wake(&self) -> Option<Timestamp> {
        CopyMachine::next_wake(&self.record, &self.parameters, self.now)
    }

    fn wait_secs(&mut self, secs: u64) {
        self.now.0 += secs * 1000;
    }

    /// Waits until the clock alone makes something due.
    fn wait_for_wake(&mut self) {
        self.now = self.next_wake().expect("something to wait for");
    }
}

fn try_source(site: &str) -> CopyTrySource {
    CopyTrySource {
        site: SiteName::new(site).unwrap(),
        place: FilePlace::User(RelPath::new("data/in").unwrap()),
    }
}

fn copy_try(site: &str, nonce: u64) -> CopyTry {
    CopyTry {
        source: try_source(site),
        nonce: TryNonce(nonce),
    }
}
