//! Version 1 of the stored types: separate from the domain's, so that a rename there is never a
//! migration here.
//!
//! Within a version fields may be added if they have a default; unknown fields are ignored.
//! Anything else is a new version, beside this one.

pub(crate) mod catalogue;
pub(crate) mod component;
pub(crate) mod convert;
pub(crate) mod copy;
pub(crate) mod event;
pub(crate) mod job_head;
pub(crate) mod program_words;
mod reservation;
pub(crate) mod site;
pub(crate) mod spec;

pub(crate) use convert::{RecordProblem, WireConversion};
