//! The reasons why the demonstration ended early.

use std::path::{Path, PathBuf};

use thiserror::Error;

use cospan_client::ClientError;
use cospan_server::keys::KeyError;

/// The reason why the demonstration ended early.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum QuickstartError {
    #[error("{path} is not empty; name a new directory with --directory", path = .0.display())]
    NotEmpty(PathBuf),
    #[error("{path} has a name that is not UTF-8; name another with --directory", path = .0.display())]
    OddName(PathBuf),
    #[error("cannot {action} {path}: {source}", path = path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Testbed(#[from] cospan_sites::slurm_testbed::TestbedError),
    #[error("the server ended by itself ({status}); the end of its log, {log}:\n{tail}", log = log.display())]
    ServerEnded {
        status: String,
        log: PathBuf,
        tail: String,
    },
    #[error("{what} took longer than {seconds} s; see the server's log, {log}", log = log.display())]
    TooSlow {
        what: &'static str,
        seconds: u64,
        log: PathBuf,
    },
    #[error("the job ended as {state}: {reason}")]
    JobEnded { state: String, reason: String },
    #[error("the quickstart's job is refused: {0}")]
    Job(#[from] cospan_api::v1::ParseError),
    #[error("a name of the quickstart is refused: {0}")]
    Name(#[from] cospan_domain::ids::IdentifierError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("cannot listen for signals: {0}")]
    Signals(std::io::Error),
    #[error("cannot examine the processes of this machine: {0}")]
    Processes(std::io::Error),
    /// Our output cannot be written.
    #[error("cannot write: {0}")]
    Untold(std::io::Error),
}

impl QuickstartError {
    /// An action on a file failed.
    pub(super) fn file_error(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| QuickstartError::File {
            action,
            path,
            source,
        }
    }
}
