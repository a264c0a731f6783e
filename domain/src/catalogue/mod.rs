//! The catalogue of logical files: the content that each name stands for, and its replicas.

pub mod file_command;
pub mod file_decide;
pub mod file_event;
pub mod file_evolve;
pub mod file_state;
#[cfg(test)]
mod tests;

use std::convert::Infallible;

use crate::machine::StateMachine;
use crate::units::Timestamp;

/// The logical file as a [`StateMachine`]. It has no effects: files at sites belong to their users,
/// and are not moved or deleted with their names.
#[derive(Debug, Clone, Copy)]
pub struct FileMachine;

impl StateMachine for FileMachine {
    type State = file_state::FileRecord;
    type Command = file_command::FileCommand;
    type Event = file_event::FileEvent;
    type Rejection = file_command::FileRejection;
    type Effect = Infallible;
    type Parameters = ();

    fn decide(
        record: &file_state::FileRecord,
        (): &(),
        command: file_command::FileCommand,
        now: Timestamp,
    ) -> Result<Vec<file_event::FileEvent>, file_command::FileRejection> {
        file_decide::decide(record, command, now)
    }

    fn evolve(record: &mut file_state::FileRecord, event: &file_event::FileEvent) {
        file_evolve::evolve(record, event);
    }

    fn due(_: &file_state::FileRecord, (): &(), _: Timestamp) -> Vec<Infallible> {
        Vec::new()
    }

    fn next_wake(_: &file_state::FileRecord, (): &(), _: Timestamp) -> Option<Timestamp> {
        None
    }
}
