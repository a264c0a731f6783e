//! The port for commands at a site. Every adapter of a batch system works through it, so that a
//! site of this machine, one that is reached over a network and a simulated one take the same way.

pub mod child;
pub mod ssh;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

/// The program or script that is run at a site.
#[derive(Debug, Clone)]
pub enum ProgramOrScript {
    /// Program and arguments. No shell reads them on their way.
    Program(Vec<OsString>),
    /// A script of ours for a POSIX shell, and the words that it gets as arguments. The shell reads
    /// only the text. It keeps to deadlines itself.
    Script {
        /// The script: the same for all that is run at one site in one lane.
        text: Arc<str>,
        /// The arguments.
        words: Vec<OsString>,
    },
}

/// The way that a command takes to a site that has a narrow one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandChannel {
    /// Short requests, and answers of text without NUL; several at the same time.
    Control,
    /// Contents of files; one after the other, and never in the way of the others.
    Bulk,
}

/// A command to be run at a site.
#[derive(Debug, Clone)]
pub struct ExecCommand {
    /// The program or script to run.
    pub work: ProgramOrScript,
    /// The way to the site.
    pub lane: CommandChannel,
    /// The standard input, which then ends. A command may leave it unread.
    pub input: Vec<u8>,
    /// Variables set for it, besides the few that the site gives everyone.
    pub environment: BTreeMap<OsString, OsString>,
    /// The longest run; whatever still runs then is given up.
    pub deadline: Duration,
    /// The most that it may print, in bytes. More is an error.
    pub output_max: usize,
}

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandExit {
    /// It ended with an exit code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

impl fmt::Display for CommandExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandExit::Code(code) => write!(f, "exit code {code}"),
            CommandExit::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// The output of a command, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// The end of the command.
    pub ended: CommandExit,
    /// All of standard output.
    pub stdout: Vec<u8>,
    /// Some of standard error, for people.
    pub stderr: Vec<u8>,
}

/// The reason why there is no output.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExecError {
    /// It was not started: certainly nothing was done.
    #[error("{0}")]
    NotStarted(String),
    /// The site does not let us in: certainly nothing was done.
    #[error("{0}")]
    LockedOut(String),
    /// It was started, and nobody knows how far it came.
    #[error("{0}")]
    PerhapsDone(String),
}

/// Runs commands at one site. Calls may run at the same time. Dropping a call's future gives
/// it up; what it started ends by itself, within its deadline.
#[async_trait]
pub trait CommandExecutor: fmt::Debug + Send + Sync {
    /// Runs a command to its end.
    async fn run(&self, command: ExecCommand) -> Result<CommandOutput, ExecError>;

    /// Returns true if all that a command started ends at its deadline, without a limit of its own.
    fn ends_overdue(&self) -> bool {
        false
    }
}
