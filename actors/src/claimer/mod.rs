//! The claimer, and a claim timer for each job in the claiming queue.
//!
//! With one try, at the estimated start (JST), the queue has one time a job;
//! what follows is the job's own decision.

mod actor;
mod timer;

pub use actor::Claimer;
pub use timer::ClaimTimer;
