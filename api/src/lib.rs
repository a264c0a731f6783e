//! The formats of the public interface, with one module for each version.
//!
//! These types belong to the interface alone: neither the store nor the domain follows them, so a
//! field can be renamed on either side without a migration.

pub mod server_address;
pub mod v1;
