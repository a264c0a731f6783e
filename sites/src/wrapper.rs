//! The wrapper that runs every payload, and the files that it and an adapter write for each other.
//! Nothing here belongs to one kind of site.
//!
//! State files are lines of text, and count only if their last line is
//! `end <tag>`: a file that is cut short, half visible, or another attempt's is
//! no evidence. Times are the modification times of the files.

pub(crate) mod attempt_files;
pub mod attempt_words;
pub mod cost;
pub mod parameters;
pub mod state_files;

/// The wrapper, for any POSIX shell: `sh wrapper.sh ROOT TAG`.
pub const SCRIPT: &str = include_str!("wrapper/wrapper.sh");

/// Exit code of a wrapper that found its attempt's directory taken.
pub const EXIT_TAKEN: i32 = 75;

/// Name of this version of the wrapper below a site's root: others may be in use there.
pub(crate) fn wrapper_script_name() -> String {
    format!(
        "wrapper-{}.sh",
        &blake3::hash(SCRIPT.as_bytes()).to_hex()[..16]
    )
}
