//! Copies of content at sites: a machine for each (content, site), the choice of a source, and
//! transfer times.

pub mod command;
pub mod decide;
pub mod due;
pub mod event;
pub mod evolve;
pub mod latencies;
pub mod links;
pub mod parameters;
pub mod place;
pub mod progress;
pub mod rates;
pub mod state;
#[cfg(test)]
mod tests;

use crate::machine::Machine;
use crate::units::Timestamp;

#[derive(Debug, Clone, Copy)]
pub struct CopyMachine;

impl Machine for CopyMachine {
    type State = state::CopyRecord;
    type Command = command::CopyCommand;
    type Event = event::CopyEvent;
    type Rejection = command::CopyRejection;
    type Effect = due::CopyEffect;
    type Parameters = parameters::CopyParameters;

    fn decide(
        record: &state::CopyRecord,
        parameters: &parameters::CopyParameters,
        command: command::CopyCommand,
        now: Timestamp,
    ) -> Result<Vec<event::CopyEvent>, command::CopyRejection> {
        decide::decide(record, parameters, command, now)
    }

    fn evolve(record: &mut state::CopyRecord, event: &event::CopyEvent) {
        evolve::evolve(record, event);
    }

    fn due(
        record: &state::CopyRecord,
        parameters: &parameters::CopyParameters,
        now: Timestamp,
    ) -> Vec<due::CopyEffect> {
        due::due(record, parameters, now)
    }

    fn next_wake(
        record: &state::CopyRecord,
        parameters: &parameters::CopyParameters,
        now: Timestamp,
    ) -> Option<Timestamp> {
        due::next_wake(record, parameters, now)
    }
}
