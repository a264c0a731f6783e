//! The wrapper that runs every payload, and the files that it and an adapter
//! write for each other. Nothing here belongs to one kind of site.
//!
//! State files are lines of text, and count only if their last line is
//! `end <tag>`: a file that is cut short, half visible, or another attempt's is
//! no evidence. Times are the modification times of the files.

pub mod cost;
pub mod parameters;
pub mod state;

/// The wrapper, for any POSIX shell: `sh wrapper.sh ROOT TAG`.
pub const SCRIPT: &str = include_str!("wrapper/wrapper.sh");

/// Exit code of a wrapper that found its attempt's directory taken.
pub const EXIT_TAKEN: i32 = 75;
