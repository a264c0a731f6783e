//! The claimer: the claiming queue in order of claiming time, a timer for each job in it,
//! and the plan of each try on what sites say is idle at that moment.

mod actor;
mod field;
mod timer;

pub use actor::Claimer;
pub use timer::ClaimTimer;
