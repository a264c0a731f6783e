//! Copies of content at sites: a machine for each (content, site), the choice of a source, and
//! transfer times.

pub mod copy_command;
pub mod copy_decide;
pub mod copy_due;
pub mod copy_event;
pub mod copy_evolve;
pub mod copy_parameters;
pub mod copy_state;
pub mod file_place;
pub mod link_bandwidth;
pub mod measured_bandwidth;
pub mod measured_latency;
pub mod stall_clock;
#[cfg(test)]
mod tests;

use crate::machine::StateMachine;
use crate::units::Timestamp;

#[derive(Debug, Clone, Copy)]
pub struct CopyMachine;

impl StateMachine for CopyMachine {
    type State = copy_state::CopyRecord;
    type Command = copy_command::CopyCommand;
    type Event = copy_event::CopyEvent;
    type Rejection = copy_command::CopyRejection;
    type Effect = copy_due::CopyEffect;
    type Parameters = copy_parameters::CopyParameters;

    fn decide(
        record: &copy_state::CopyRecord,
        parameters: &copy_parameters::CopyParameters,
        command: copy_command::CopyCommand,
        now: Timestamp,
    ) -> Result<Vec<copy_event::CopyEvent>, copy_command::CopyRejection> {
        copy_decide::decide(record, parameters, command, now)
    }

    fn evolve(record: &mut copy_state::CopyRecord, event: &copy_event::CopyEvent) {
        copy_evolve::evolve(record, event);
    }

    fn due(
        record: &copy_state::CopyRecord,
        parameters: &copy_parameters::CopyParameters,
        now: Timestamp,
    ) -> Vec<copy_due::CopyEffect> {
        copy_due::due(record, parameters, now)
    }

    fn next_wake(
        record: &copy_state::CopyRecord,
        parameters: &copy_parameters::CopyParameters,
        now: Timestamp,
    ) -> Option<Timestamp> {
        copy_due::next_wake(record, parameters, now)
    }
}
