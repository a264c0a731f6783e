//! Copies of content at sites: one actor per (content, site), and the manager that makes sure that
//! each copy that is needed, or is still there, has one.
//!
//! The needs for a copy are read from the records of jobs, the catalogue and other copies, never
//! counted, so that a crash cannot leave a file behind that nobody accounts for.

mod copy_changes;
mod copy_effects;
mod copy_external_state;
mod copy_metrics;
mod copy_users;
mod copy_watch;
mod data_manager;
mod source_choice;
mod staging;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod transfer_actor;

use cospan_domain::ids::{Digest, SiteName};

pub(crate) use copy_changes::follow_commit;
pub use copy_users::{blank_copy_record, is_copy_needed};
use copy_users::{pinned_copies, source_key};
pub use data_manager::DataManager;
pub use staging::unlisted_copy_sites;
use staging::unused_copies_at;
pub use transfer_actor::TransferActor;

/// The key of a copy: the content, and the site that is to have it.
pub type CopyKey = (Digest, SiteName);
