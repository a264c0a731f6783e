//! Sites: their errors, their breaker, the commands of operators, and whether they take work.
//!
//! [`site_state::SiteRecord`] is durable and belongs to the site's actor; [`contact::ContactLog`]
//! is what we saw since our start, and is volatile; [`availability`] puts both together;
//! [`isolation`] distinguishes their faults from ours.

pub mod availability;
pub mod barred_owners_record;
pub mod contact;
pub mod failure;
pub mod isolation;
pub mod joint_reservation;
pub mod reservation_names;
pub mod shared_reservation;
pub mod shared_reservation_access;
pub mod site_command;
pub mod site_decide;
pub mod site_due;
pub mod site_event;
pub mod site_evolve;
pub mod site_parameters;
pub mod site_state;
#[cfg(test)]
mod tests;

use crate::machine::StateMachine;
use crate::units::Timestamp;

#[derive(Debug, Clone, Copy)]
pub struct SiteMachine;

impl StateMachine for SiteMachine {
    type State = site_state::SiteRecord;
    type Command = site_command::SiteCommand;
    type Event = site_event::SiteEvent;
    type Rejection = site_command::SiteRejection;
    type Effect = site_due::SiteEffect;
    type Parameters = site_parameters::SiteParameters;

    fn decide(
        record: &site_state::SiteRecord,
        parameters: &site_parameters::SiteParameters,
        command: site_command::SiteCommand,
        now: Timestamp,
    ) -> Result<Vec<site_event::SiteEvent>, site_command::SiteRejection> {
        site_decide::decide(record, parameters, command, now)
    }

    fn evolve(record: &mut site_state::SiteRecord, event: &site_event::SiteEvent) {
        site_evolve::evolve(record, event);
    }

    fn due(
        record: &site_state::SiteRecord,
        _: &site_parameters::SiteParameters,
        _: Timestamp,
    ) -> Vec<site_due::SiteEffect> {
        site_due::due(record)
    }

    fn next_wake(
        record: &site_state::SiteRecord,
        parameters: &site_parameters::SiteParameters,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let no_shows = record
            .shared
            .iter()
            .filter_map(|s| s.no_show_time(parameters.no_show));
        let no_shows = no_shows.filter(|due| now < *due);
        no_shows.chain(site_due::next_wake(record, now)).min()
    }
}
