//! Version 1: job documents, reports on jobs, sites and files, and problems.

pub mod accounting;
pub mod acquisition;
pub mod chaos;
pub mod commands;
mod dimension_weights;
pub mod document;
pub mod event;
pub mod event_report;
pub mod explain;
pub mod file;
pub mod from_domain;
pub mod job;
pub mod label;
mod minimal_document;
mod nodes;
pub mod number;
pub mod parse;
pub mod partition;
pub mod preferences;
pub mod problem;
pub mod quantity;
pub mod ranking;
pub mod reservation;
pub mod runner;
pub mod shared_reservation;
pub mod site;
pub mod slots;
pub mod spec;
pub mod split;
pub mod stderr_tail;
pub mod store;
#[cfg(test)]
mod tests;
pub mod text;
pub mod text_patterns;
pub mod time;
pub mod tree;
pub mod upload;

pub use document::JobDocument;
pub use parse::{JobFormat, ParseError};
pub use problem::Problem;
pub use quantity::{Instant, Length, Size};
