//! Jobs: their specification, their state, and their next steps.
//!
//! [`decide`] turns a command into events, [`evolve`] applies an event to the state, and [`due`]
//! derives the effects that are due from the state.

pub mod accounting;
pub mod chunk;
mod claiming;
pub mod command;
mod component;
pub mod deadlock;
pub mod decide;
pub mod demands;
pub mod due;
pub mod event;
pub mod evolve;
mod footprint;
mod inputs;
mod later;
mod outputs;
mod packed;
pub mod parameters;
mod program;
mod request;
pub mod reservation;
mod shape;
pub mod spec;
pub mod state;
pub mod table;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use packed::WordPlace;

use crate::machine::Machine;
use crate::units::Timestamp;

/// The job as a [`Machine`].
#[derive(Debug, Clone, Copy)]
pub struct JobMachine;

impl Machine for JobMachine {
    type State = state::Job;
    type Command = command::JobCommand;
    type Event = event::JobEvent;
    type Rejection = command::JobRejection;
    type Effect = due::JobEffect;
    type Parameters = parameters::JobParameters;

    fn decide(
        job: &state::Job,
        parameters: &parameters::JobParameters,
        command: command::JobCommand,
        now: Timestamp,
    ) -> Result<Vec<event::JobEvent>, command::JobRejection> {
        decide::decide(job, parameters, command, now)
    }

    fn evolve(job: &mut state::Job, event: &event::JobEvent) {
        evolve::evolve(job, event);
    }

    fn due(job: &state::Job, _: &parameters::JobParameters, now: Timestamp) -> Vec<due::JobEffect> {
        due::due(job, now)
    }

    fn next_wake(
        job: &state::Job,
        parameters: &parameters::JobParameters,
        now: Timestamp,
    ) -> Option<Timestamp> {
        due::next_wake(job, parameters, now)
    }
}
