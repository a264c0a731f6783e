//! The information service: writes the catalogue of logical files.
//!
//! What sites published is on the [board](crate::board), with its age. Bandwidth
//! between sites is as configured, in [`Settings::links`](crate::settings::Settings).

mod actor;
mod outputs;
mod refusal;
mod requests;
#[cfg(test)]
mod tests;

pub use actor::Information;
pub use outputs::RegisterOutput;
pub use requests::{AddFile, RemoveFile};
