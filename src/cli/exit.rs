//! The end of a command: its exit code, and its last message.

use std::fmt;
use std::process::ExitCode;

use cospan_client::ClientError;
use cospan_server::config::ConfigError;
use cospan_server::keys::KeyError;

/// Exit codes. They are part of the interface and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CliExitCode {
    /// Done.
    Done = 0,
    /// The job failed.
    JobFailed = 1,
    /// The command line, a file or the configuration is wrong.
    Usage = 2,
    /// The server refused.
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

impl From<CliExitCode> for ExitCode {
    fn from(exit: CliExitCode) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// The reason why a command did not do what was asked.
#[derive(Debug)]
pub(crate) struct CliError {
    /// The exit code.
    pub(crate) exit: CliExitCode,
    /// The error, and its place.
    pub(crate) message: String,
    /// The remedy.
    pub(crate) remedy: Option<String>,
    /// True if nobody reads our output any more, so that no message is needed.
    pub(crate) quiet: bool,
}

impl CliError {
    /// Creates an error on this side: in arguments, files or configuration.
    pub(crate) fn usage_error(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            exit: CliExitCode::Usage,
            message: message.into(),
            remedy: Some(remedy.into()),
            quiet: false,
        }
    }

    /// Creates an error about a file on this side that could not be read or written.
    pub(crate) fn file_error(action: &str, file: &std::path::Path, error: &std::io::Error) -> Self {
        Self {
            exit: CliExitCode::Usage,
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
            ClientError::Refused(_) => CliExitCode::Refused,
            ClientError::Unreachable { .. }
            | ClientError::Strange { .. }
            | ClientError::Tls { .. } => CliExitCode::Unreachable,
            ClientError::Certificate(_) => CliExitCode::Usage,
            ClientError::Local(error) => {
                let quiet = error.kind() == std::io::ErrorKind::BrokenPipe;
                let exit = if quiet {
                    CliExitCode::Done
                } else {
                    CliExitCode::Usage
                };
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

/// Only writing an answer produces a bare I/O error.
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
            exit: CliExitCode::Usage,
            message,
            remedy: None,
            quiet: false,
        }
    }
}

impl From<KeyError> for CliError {
    fn from(error: KeyError) -> Self {
        let kept_out = matches!(&error, KeyError::Io { source, .. }
            if source.kind() == std::io::ErrorKind::PermissionDenied);
        let remedy = kept_out.then(|| {
            "run this as root or as the server's account, or set COSPAN_TOKEN to your key"
                .to_owned()
        });
        Self {
            exit: CliExitCode::Usage,
            message: error.to_string(),
            remedy,
            quiet: false,
        }
    }
}
