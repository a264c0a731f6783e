//! The catalogue of logical files: the content that each name stands for, and its replicas.

pub mod command;
pub mod decide;
pub mod event;
pub mod evolve;
pub mod state;
#[cfg(test)]
mod tests;

use std::convert::Infallible;

use crate::machine::Machine;
use crate::units::Timestamp;

/// The logical file as a [`Machine`]. It has no effects: files at sites belong to their users, and
/// are not moved or deleted with their names.
#[derive(Debug, Clone, Copy)]
pub struct FileMachine;

impl Machine for FileMachine {
    type State = state::FileRecord;
    type Command = command::FileCommand;
    type Event = event::FileEvent;
    type Rejection = command::FileRejection;
    type Effect = Infallible;
    type Parameters = ();

    fn decide(
        record: &state::FileRecord,
        (): &(),
        command: command::FileCommand,
        now: Timestamp,
    ) -> Result<Vec<event::FileEvent>, command::FileRejection> {
        decide::decide(record, command, now)
    }

    fn evolve(record: &mut state::FileRecord, event: &event::FileEvent) {
        evolve::evolve(record, event);
    }

    fn due(_: &state::FileRecord, (): &(), _: Timestamp) -> Vec<Infallible> {
        Vec::new()
    }

    fn next_wake(_: &state::FileRecord, (): &(), _: Timestamp) -> Option<Timestamp> {
        None
    }
}
