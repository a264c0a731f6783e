//! The stored form of the control plane's state, as keys and values: the keys, their content, and
//! the changes of an update.
//!
//! A value says in which version it was written. A record larger than a value may be is cut into
//! several. Only changed parts are written.

pub(crate) mod adoption;
pub mod batch;
mod common_texts;
pub mod events;
mod frame;
pub mod job;
mod json;
pub mod keys;
mod load;
pub mod small_records;
mod spec_text;
mod v1;

use thiserror::Error;

pub use load::{LoadedRecords, RecordLoader};

/// The reason why a record cannot be written.
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
