//! The co-allocator: takes jobs from the placement queues and finds sites for all their components,
//! on a snapshot of what is known.

mod actor;
mod bidding;
#[cfg(test)]
mod bidding_tests;
mod dividing;
mod estimate;
mod explain;
mod forward;
mod grid;
mod order;
mod reserving;
mod suspects;
#[cfg(test)]
mod tests;
mod within;

pub use actor::{AskStanding, CoAllocator};
pub use dividing::Division;
pub(crate) use dividing::would_divide;
pub use estimate::StartEstimate;
pub use explain::{
    ExpectedTransfer, Explanation, SiteFigures, WaitCause, explain, explain_verdicts, preview,
};
pub use grid::GridMaker;
pub(crate) use grid::{aged, belief, holding_sums, is_believed, may_try_out};
pub(crate) use reserving::would_rank;
