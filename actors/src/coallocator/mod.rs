//! The co-allocator: takes jobs from the placement queues and finds sites for
//! all their components, on a snapshot of what is known.

mod actor;
mod explain;
mod grid;
#[cfg(test)]
mod tests;

pub use actor::{AskStanding, CoAllocator};
pub use explain::{Explanation, Wait, explain, preview};
pub(crate) use grid::belief;
pub use grid::{GridMaker, Offers};
