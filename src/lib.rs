//! The command line of Cospan and its demonstration. Everything else is a package of its own.

pub mod cli;
pub mod quickstart;
