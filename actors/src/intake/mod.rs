//! The intake: gives out job ids, knows every idempotency key, and passes commands on to the jobs
//! and sites that they are for.

mod acceptance;
mod forwarded_commands;
mod ids;
mod intake_actor;
mod memory_quota;
mod shared_reservation_commands;
mod submit;
#[cfg(test)]
mod tests;

pub(crate) use ids::ReturnUnusedIds;
pub use intake_actor::{Intake, IntakeCommand};
pub(crate) use submit::make_job_record;
