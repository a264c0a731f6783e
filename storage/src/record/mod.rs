//! What the control plane keeps, as keys and values: which keys there are, what
//! is in them, and which of them a change touches.
//!
//! A value says in which version it was written. A record larger than a value
//! may be is cut into several. Only what changed is written.

pub(crate) mod adoption;
pub mod batch;
mod common;
pub mod events;
mod frame;
pub mod job;
mod json;
pub mod keys;
mod load;
pub mod object;
mod spec_text;
mod v1;

use thiserror::Error;

pub use load::{LoadedRecords, Loader};

/// Why a record cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum RecordError {
    #[error("{what} would take {changes} values of 60 KiB; at most {max} become durable together")]
    TooLarge {
        what: String,
        changes: usize,
        max: usize,
    },
    #[error("{what} cannot be written: {problem}")]
    Unwritable { what: String, problem: String },
}
