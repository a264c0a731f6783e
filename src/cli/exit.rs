//! How a command ends: its exit code, and what it says on the way out.

use std::fmt;
use std::process::ExitCode;

use crate::client::ClientError;
use crate::config::ConfigError;
use crate::keys::KeyError;

/// Exit codes. They are part of the interface and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CliExit {
    /// Done.
    Done = 0,
    /// The job failed.
    JobFailed = 1,
    /// The command line, a file or the configuration is wrong.
    Usage = 2,
    /// The server said no.
    Refused = 3,
    /// The server was not reached.
    Unreachable = 4,
    /// The job was cancelled.
    Cancelled = 5,
    /// The jobs had not ended in time.
    TimedOut = 6,
    /// Interrupted by the user.
    Interrupted = 130,
}

impl From<CliExit> for ExitCode {
    fn from(exit: CliExit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) struct CliError {
    /// The exit code.
    pub(crate) exit: CliExit,
    /// What happened and where.
    pub(crate) message: String,
    /// What to do next.
    pub(crate) remedy: Option<String>,
    /// Nobody reads our output any more: nothing to complain about.
    pub(crate) quiet: bool,
}

impl CliError {
    /// Something on this side is wrong: arguments, files, configuration.
    pub(crate) fn usage(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            exit: CliExit::Usage,
            message: message.into(),
            remedy: Some(remedy.into()),
            quiet: false,
        }
    }

    /// A file on this side could not be read or written.
    pub(crate) fn file(action: &str, file: &std::path::Path, error: &std::io::Error) -> Self {
        Self {
            exit: CliExit::Usage,
            message: format!("cannot {action} {}: {error}", file.display()),
            remedy: None,
            quiet: false,
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CliError {}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let exit = match &error {
            ClientError::Refused(_) => CliExit::Refused,
            ClientError::Unreachable { .. }
            | ClientError::Strange { .. }
            | ClientError::Tls { .. } => CliExit::Unreachable,
            ClientError::Certificate(_) => CliExit::Usage,
            ClientError::Local(error) => {
                let quiet = error.kind() == std::io::ErrorKind::BrokenPipe;
                let exit = if quiet { CliExit::Done } else { CliExit::Usage };
                return Self {
                    exit,
                    message: error.to_string(),
                    remedy: None,
                    quiet,
                };
            }
        };
        Self {
            exit,
            remedy: error.remedy(),
            message: error.to_string(),
            quiet: false,
        }
    }
}

/// Only writing an answer gives a bare I/O error.
impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        ClientError::Local(error).into()
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        let message = match &error {
            ConfigError::Wrong(problems) => {
                let count = problems.len();
                let noun = if count == 1 { "problem" } else { "problems" };
                format!("the configuration has {count} {noun}\n\n{problems}")
            }
            ConfigError::Unreadable { .. } => error.to_string(),
        };
        Self {
            exit: CliExit::Usage,
            message,
            remedy: None,
            quiet: false,
        }
    }
}

impl From<KeyError> for CliError {
    fn from(error: KeyError) -> Self {
        Self {
            exit: CliExit::Usage,
            message: error.to_string(),
            remedy: None,
            quiet: false,
        }
    }
}
