//! The information service: writes the catalogue of logical files.
//!
//! What sites published is on the [live state](crate::live_state), with its age. What is
//! known of the ways between sites is in [`links`](crate::links).

mod actor;
mod outputs;
mod refusal;
mod requests;
#[cfg(test)]
mod tests;

pub use actor::InformationActor;
pub use outputs::RegisterOutput;
pub use requests::{AddFile, NoteStamp, RemoveFile};
