//! Commands at a site: what every adapter of a batch system does is done through this port, so
//! that a site of this machine, one that is reached over a network and a simulated one take
//! the same way.

pub mod child;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

/// A command to be run at a site. No shell reads its words on their way.
#[derive(Debug, Clone)]
pub struct Command {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// What it reads from its standard input, which then ends. A command may leave it unread.
    pub input: Vec<u8>,
    /// Variables set for it, beside the few that the site gives everyone.
    pub environment: BTreeMap<OsString, OsString>,
    /// Longest run; whatever still runs then is ended.
    pub deadline: Duration,
    /// Most that it may print. More is an error, and ends it.
    pub output_max: usize,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Code(code) => write!(f, "exit code {code}"),
            Ended::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// What a command printed, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub ended: Ended,
    /// Standard output, whole.
    pub stdout: Vec<u8>,
    /// The beginning of standard error.
    pub stderr: Vec<u8>,
}

/// Why there is no output.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExecError {
    /// It was not started: certainly nothing was done.
    #[error("{0}")]
    NotStarted(String),
    /// It was started, and nobody knows how far it came.
    #[error("{0}")]
    PerhapsDone(String),
}

/// Runs commands at one site. Calls may run at the same time. Dropping a call's future ends
/// what it started, if that is still there.
#[async_trait]
pub trait Exec: fmt::Debug + Send + Sync {
    /// Runs a command to its end.
    async fn run(&self, command: Command) -> Result<Output, ExecError>;
}
