//! The job actors, one per unfinished job: each decides what follows for its job, makes it durable,
//! and has sites do what is due.

mod job_access;
mod job_actor;
mod job_changes;
mod job_effects;
mod job_external_state;
mod job_metrics;
mod output_effects;
mod reservation_calls;
mod reservation_metrics;
mod reservation_quota;
mod retry_pause;
mod silent_sites;
mod site_facts;
#[cfg(test)]
mod tests;

pub(crate) use job_access::{hold_job, job_actor, report_lost_reservation, send_job_command};
pub use job_actor::{JobActor, JobCommandMessage, LostReservation};
pub(crate) use job_changes::follow_commit;
pub(crate) use job_external_state::external_state;
pub use job_metrics::abort_cause_name;
use job_metrics::count_job_step;
pub(crate) use reservation_metrics::count_live_reservations;
pub(crate) use reservation_quota::MadeReservationCalls;
pub use silent_sites::{SilentSiteComponent, SilentSiteReport, not_given_up_text};
