//! The catalogue of logical files, and its only writer.
//!
//! Sites' reports are in the [live state](crate::live_state), with their age. Knowledge of the ways
//! between sites is in [`links`](crate::links).

mod actor;
mod outputs;
mod refusal;
mod requests;
#[cfg(test)]
mod tests;

pub use actor::InformationActor;
pub use outputs::RegisterOutput;
pub use requests::{AddFile, NoteStamp, RemoveFile};
