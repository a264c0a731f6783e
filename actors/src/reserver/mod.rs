//! The reserver: seeks advance reservations for jobs that want one, divides flexible jobs over what
//! sites have free, and brings reserved starts forward. It promises nothing itself: the job asks the
//! sites, and each site's answer decides.

mod division;
mod rescheduling;
mod reservation_changes;
mod reservation_sites;
mod reserver_actor;

pub use division::DivisionPreview;
pub(crate) use division::preview_unsubmitted_division;
pub(crate) use reservation_changes::follow_commit;
pub(crate) use reservation_sites::preview_ranking;
pub use reserver_actor::Reserver;
