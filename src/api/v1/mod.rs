//! Version 1: job documents, reports on jobs, sites and files, and problems.

pub mod accounting;
pub mod acquisition;
mod bare;
pub mod chaos;
pub mod control;
pub mod document;
pub mod event;
pub mod explain;
mod factor;
pub mod file;
pub mod from_domain;
pub mod happened;
pub mod job;
pub mod label;
pub mod lane;
pub mod last_words;
mod located;
pub mod mistakes;
pub mod moment;
mod nodes;
pub mod number;
pub mod parse;
pub mod preferences;
pub mod problem;
pub mod quantity;
pub mod ranking;
pub mod reservation;
pub mod runner;
pub(crate) mod shape;
pub mod shared;
pub mod site;
pub mod slots;
pub mod spec;
pub mod split;
pub mod store;
#[cfg(test)]
mod tests;
pub mod text;
pub mod tree;
pub mod upload;

pub use document::JobDocument;
pub use parse::{JobFormat, ParseError};
pub use problem::Problem;
pub use quantity::{Instant, Length, Size};
