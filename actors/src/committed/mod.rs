//! Committed changes, and the state that they make.

mod change;
mod view;

pub use change::JournalChange;
pub use view::{CommittedView, NeededContents};
