//! Copies of content at sites: one actor per (content, site), and the manager that makes sure that
//! each copy that is needed, or is still there, has one.
//!
//! The needs for a copy are read from the records of jobs, the catalogue and other copies, never
//! counted, so that a crash cannot leave a file behind that nobody accounts for.

mod account;
mod actor;
mod effects;
mod external_state;
mod manager;
mod need;
mod promised;
mod source;
mod staging;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod watch;

use cospan_domain::ids::{Digest, SiteName};

pub use actor::TransferActor;
pub use manager::DataManager;
pub use need::{blank_of, is_needed};
pub(crate) use need::{pins, source_key};
pub use promised::StagingDeductions;
pub(crate) use promised::{Promise, room_for, staged};
pub use staging::kept;
pub(crate) use staging::unused_at;

/// The key of a copy: the content, and the site that is to have it.
pub type CopyKey = (Digest, SiteName);
