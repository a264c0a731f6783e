//! The job actors, one per unfinished job: each decides what follows for its job, makes it durable,
//! and has sites do what is due.

mod actor;
mod again;
mod count;
mod count_reserved;
mod effects;
mod external_state;
mod quota;
mod reserving;
mod silence;
#[cfg(test)]
mod tests;

pub use actor::{JobActor, JobOrder, LeaseGone};
pub use count::cause_name;
pub(crate) use count::count;
pub(crate) use count_reserved::hold;
pub(crate) use external_state::external_state;
pub(crate) use quota::Put;
pub use silence::{JobSilence, SilentAttempt, not_given_up};
