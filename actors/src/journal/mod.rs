//! The journal actor: the only writer to the store, and the source of the one ordered stream of
//! committed changes.

mod actor;
mod change;
mod encode;
mod load;

pub use actor::{Append, AppendError, JournalActor, JournalReport};
pub use change::JournalChange;
pub use load::view_of;
