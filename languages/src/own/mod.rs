//! Our own job files: all their mistakes at once, each with its place.

mod located_values;
pub mod mistakes;
