//! Named keys: the only way into the server.
//!
//! A key is a random token of 256 bits. The server keeps its BLAKE3 hash in a
//! file that only its owner can read, so that neither the file nor a backup of
//! it lets anybody in. The name of a key owns the jobs that were submitted with
//! it and stands beside every command in the journal.
//!
//! The [`KeyRoles`] of a key say what it may do; the table of the HTTP edge says which role each
//! address needs.
//!
//! Deliberately absent: passwords, and keys that the server could show again.

mod directory;
mod loaded_keys;
mod private;
mod role;
mod seal_secret;
#[cfg(test)]
mod tests;
mod token;

use std::path::PathBuf;

pub use directory::{FIRST_KEY, KeyDirectory, KeyInfo};
pub use loaded_keys::{AdmittedKey, LoadedKeys};
pub use role::{KeyRoles, Role};
pub use seal_secret::load_seal;
use thiserror::Error;
pub use token::SecretToken;

/// The reason why keys cannot be read or changed.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum KeyError {
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{path} can be read or changed by others (mode {mode:03o}); run: chmod {right} {path}",
        path = path.display()
    )]
    Loose {
        path: PathBuf,
        mode: u32,
        right: &'static str,
    },
    #[error(
        "{path} belongs to user {owner}, not to user {us} who runs this; change its owner, or \
         name another directory",
        path = path.display()
    )]
    Foreign { path: PathBuf, owner: u32, us: u32 },
    #[error("{path} is not {expected}; move it away", path = path.display())]
    WrongKind {
        path: PathBuf,
        expected: &'static str,
    },
    #[error("{path} is damaged: {problem}; restore it, or remove it and start again with a new first key", path = path.display())]
    Damaged { path: PathBuf, problem: String },
    #[error("there is a key {0:?} already; choose another name, or remove that key first")]
    Exists(String),
    #[error("there is no key {0:?}; `cospan key list` shows them")]
    Unknown(String),
    #[error("{0:?} is the last key; add another one before it is removed")]
    Last(String),
    #[error("a key is either {0} or {1}; name one of the two")]
    TwoRanks(Role, Role),
    #[error(
        "every key is one of reader, user, operator and administrator, so {0} cannot be taken \
         away; give it another of them with `cospan key grant`"
    )]
    Rank(Role),
    #[error("there are {0} keys already, the most allowed")]
    TooMany(usize),
    #[error("the operating system gave no random numbers: {0}")]
    NoRandomness(String),
}
