//! Cospan's edge: command line, HTTP interface, configuration, and the code that ties the control
//! plane together. `cospan-domain` decides, `cospan-actors` acts; this crate has only what needs
//! the process and its surroundings.

pub mod bench;
pub mod chaos;
pub mod cli;
mod cluster_config;
pub mod config;
pub mod data_directory;
mod file_system;
pub mod http;
pub mod keys;
mod memory_limit;
pub mod quickstart;
pub mod serve;
mod signals;
mod site_roots;
mod testbed;
pub mod uploads;
