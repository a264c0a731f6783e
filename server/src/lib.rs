//! The server: HTTP interface, configuration, keys, uploads, and the code that ties the control plane
//! to its process. `cospan-domain` decides, `cospan-actors` acts.

pub mod chaos;
pub mod config;
pub mod data_directory;
pub mod file_system;
pub mod http;
pub mod keys;
mod memory_limit;
pub mod serve;
pub mod signals;
pub mod site_connection;
pub mod site_kinds;
pub mod site_roots;
pub mod store_engines;
pub mod uploads;
