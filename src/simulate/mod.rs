//! `cospan simulate`.

pub mod report;
