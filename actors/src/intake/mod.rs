//! The intake: gives out job ids, knows every idempotency key, and passes commands on to the jobs
//! and sites that they are for.

mod acceptance;
mod actor;
mod ids;
mod orders;
mod room;
mod sharing;
mod submit;
#[cfg(test)]
mod tests;

pub use actor::{Intake, IntakeCommand};
pub(crate) use sharing::PendingNames;
pub(crate) use submit::new_job;
