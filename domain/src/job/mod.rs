//! Jobs: their specification, their state, and their next steps.
//!
//! [`decide`] turns a command into events, [`evolve`] applies an event to the state, and
//! [`job_due`] derives the effects that are due from the state.

pub mod accounting;
mod chosen_shape;
pub mod chunk;
mod claiming;
mod component;
pub mod deadlock;
pub mod decide;
pub mod demands;
pub mod evolve;
mod inputs;
pub mod job_command;
pub mod job_due;
pub mod job_event;
pub mod job_parameters;
pub mod job_state;
mod memory_estimate;
mod outputs;
mod packed;
mod program;
mod request_type;
pub mod reservations;
pub mod run_times;
pub mod spec;
mod start_offsets;
pub mod state_table;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use packed::ProgramWordKind;

use crate::machine::StateMachine;
use crate::units::Timestamp;

/// The job as a [`StateMachine`].
#[derive(Debug, Clone, Copy)]
pub struct JobMachine;

impl StateMachine for JobMachine {
    type State = job_state::Job;
    type Command = job_command::JobCommand;
    type Event = job_event::JobEvent;
    type Rejection = job_command::JobRejection;
    type Effect = job_due::JobEffect;
    type Parameters = job_parameters::JobParameters;

    fn decide(
        job: &job_state::Job,
        parameters: &job_parameters::JobParameters,
        command: job_command::JobCommand,
        now: Timestamp,
    ) -> Result<Vec<job_event::JobEvent>, job_command::JobRejection> {
        decide::decide(job, parameters, command, now)
    }

    fn evolve(job: &mut job_state::Job, event: &job_event::JobEvent) {
        evolve::evolve(job, event);
    }

    fn due(
        job: &job_state::Job,
        _: &job_parameters::JobParameters,
        now: Timestamp,
    ) -> Vec<job_due::JobEffect> {
        job_due::due(job, now)
    }

    fn next_wake(
        job: &job_state::Job,
        parameters: &job_parameters::JobParameters,
        now: Timestamp,
    ) -> Option<Timestamp> {
        job_due::next_wake(job, parameters, now)
    }
}
