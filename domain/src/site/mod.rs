//! Sites: their errors, their breaker, the commands of operators, and whether they take work.
//!
//! [`state::SiteRecord`] is durable and belongs to the site's actor; [`contact::ContactLog`] is
//! what we saw since our start, and is volatile; [`availability`] puts both together; [`isolation`]
//! distinguishes their faults from ours.

pub mod access;
pub mod availability;
pub mod command;
pub mod contact;
pub mod decide;
pub mod due;
pub mod event;
pub mod evolve;
pub mod failure;
pub mod isolation;
pub mod owners;
pub mod parameters;
pub mod shared;
pub mod state;
#[cfg(test)]
mod tests;
pub mod together;

use crate::machine::Machine;
use crate::units::Timestamp;

#[derive(Debug, Clone, Copy)]
pub struct SiteMachine;

impl Machine for SiteMachine {
    type State = state::SiteRecord;
    type Command = command::SiteCommand;
    type Event = event::SiteEvent;
    type Rejection = command::SiteRejection;
    type Effect = due::SiteEffect;
    type Parameters = parameters::SiteParameters;

    fn decide(
        record: &state::SiteRecord,
        parameters: &parameters::SiteParameters,
        command: command::SiteCommand,
        now: Timestamp,
    ) -> Result<Vec<event::SiteEvent>, command::SiteRejection> {
        decide::decide(record, parameters, command, now)
    }

    fn evolve(record: &mut state::SiteRecord, event: &event::SiteEvent) {
        evolve::evolve(record, event);
    }

    fn due(
        record: &state::SiteRecord,
        _: &parameters::SiteParameters,
        _: Timestamp,
    ) -> Vec<due::SiteEffect> {
        due::due(record)
    }

    fn next_wake(
        record: &state::SiteRecord,
        parameters: &parameters::SiteParameters,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let no_shows = record
            .shared
            .iter()
            .filter_map(|s| s.no_show_at(parameters.no_show));
        let no_shows = no_shows.filter(|due| now < *due);
        no_shows.chain(due::next_wake(record, now)).min()
    }
}
