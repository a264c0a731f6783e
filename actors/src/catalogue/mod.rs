//! The catalogue of logical files, and its only writer.
//!
//! Sites' reports are in the [live state](crate::live_state), with their age. Knowledge of the ways
//! between sites is in [`links`](crate::link_measurements).

mod catalogue_actor;
mod file_refusal;
mod file_requests;
mod output_registration;
#[cfg(test)]
mod tests;

pub use catalogue_actor::InformationActor;
pub use file_requests::{AddFile, NoteFileStamp, RemoveFile};
pub use output_registration::RegisterOutput;
