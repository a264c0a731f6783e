//! The journal actor: the only writer to the store, and the source of the one ordered stream of
//! committed changes.

mod change;
mod encode;
mod journal_actor;
mod load;

pub use change::JournalChange;
pub use journal_actor::{AppendChange, AppendError, JournalActor, JournalReport};
pub use load::view_of_records;
