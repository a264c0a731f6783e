//! The pure core of Cospan: it decides, and does nothing else.
//!
//! Everything here is a function of its arguments. There is no clock (`now` is
//! handed in), no randomness, no input or output, and nothing asynchronous; a
//! lint enforces it. The types are neither the store's nor the API's format:
//! both have their own, so a rename here is never a migration.

pub mod acquisition;
pub mod bid;
pub mod boxed_default;
pub mod catalogue;
pub mod claim;
pub mod content;
pub mod deduction;
pub mod ids;
pub mod invariants;
pub mod job;
pub mod labels;
pub mod machine;
pub mod parameters;
pub mod placed;
pub mod placement;
pub mod poisoned_job;
pub mod queue;
pub mod reservation;
pub mod resources;
pub mod runner;
pub mod site;
pub mod text;
pub mod transfer;
pub mod units;
