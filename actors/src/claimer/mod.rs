//! The claimer: the claiming queue in order of claiming time, a timer for each job in it, and the
//! plan of each try from what sites report idle at that moment.

mod actor;
mod field;
mod refused;
mod timer;

pub use actor::Claimer;
pub(crate) use refused::note_refusals;
pub use timer::ClaimTimer;
