//! The formats of the public interface, one module a version.
//!
//! These types belong to the interface alone: neither the store nor the domain
//! follows them, so that a field can be renamed on either side without a migration.

pub mod v1;
