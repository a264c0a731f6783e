//! The journal actor: the only writer to the store, and the source of the one ordered stream of
//! committed changes.

mod encode;
mod journal_actor;
mod load;

pub use crate::committed::JournalChange;
pub use journal_actor::{
    AppendChange, AppendError, CommitPublisher, JournalActor, JournalParts, JournalReport,
};
pub use load::view_of_records;
