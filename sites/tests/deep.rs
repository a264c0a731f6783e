//! Trees that are deeper and wider than any path, stack or table of descriptors. All of these
//! tests run with few descriptors.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test program")]

mod support;

mod deep {
    mod deep_file_tests;
    mod grow;
    mod removal_tests;
}
