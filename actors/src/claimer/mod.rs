//! The claimer: the claiming queue in order of claiming time, a timer for each job in it, and the
//! plan of each try from what sites report idle at that moment.

mod claim_changes;
mod claim_snapshot;
mod claimer_actor;
mod refused_claims;
mod timer;

pub(crate) use claim_changes::follow_commit;
pub use claimer_actor::Claimer;
use refused_claims::note_refused_claims;
pub use timer::ClaimTimer;
