//! The errors between the client and the server, each with a remedy.

use std::fmt;

use cospan_api::v1::Problem;
use cospan_api::v1::problem::Code;

use super::{ServerAddress, TlsProblem};

/// The reason why a request has no good answer.
#[derive(Debug)]
pub enum ClientError {
    /// The server refused the request.
    Refused(Box<Problem>),
    /// The server was not reached, or the connection broke: it is unknown if the request was
    /// carried out.
    Unreachable {
        /// The server.
        server: ServerAddress,
        /// The cause.
        cause: String,
    },
    /// The peer is not a Cospan server of this version.
    Strange {
        /// The server.
        server: ServerAddress,
        /// The unexpected part of the answer.
        what: String,
    },
    /// The server was reached, but TLS failed.
    Tls {
        /// The server.
        server: ServerAddress,
        /// The TLS problem.
        problem: TlsProblem,
    },
    /// A certificate cannot be used.
    Certificate(String),
    /// An answer could not be written to its destination.
    Local(std::io::Error),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Refused(problem) => {
                write!(f, "refused by the server: ")?;
                if let Some(index) = problem.index {
                    write!(f, "number {} of the request: ", index + 1)?;
                }
                if let Some(key) = &problem.key {
                    write!(f, "{key}: ")?;
                }
                write!(f, "{} [{}]", problem.detail, problem.code)
            }
            ClientError::Unreachable { server, cause } => {
                write!(f, "cannot reach the server at {server}: {cause}")
            }
            ClientError::Strange { server, what } => {
                write!(f, "{server} does not answer like a Cospan server: {what}")
            }
            ClientError::Tls { server, problem } => {
                write!(
                    f,
                    "no TLS connection with the server at {server}: {}",
                    problem.cause
                )
            }
            ClientError::Certificate(problem) => {
                write!(f, "cannot use the TLS certificate: {problem}")
            }
            ClientError::Local(error) => write!(f, "cannot write what the server sent: {error}"),
        }
    }
}

impl std::error::Error for ClientError {}

impl ClientError {
    /// Returns a remedy.
    pub fn remedy(&self) -> Option<String> {
        match self {
            ClientError::Refused(problem) => problem
                .nearest
                .as_ref()
                .map(|near| format!("did you mean {near:?}?"))
                .or_else(|| problem.remedy.clone())
                .or_else(|| problem.retry_after_s.map(|s| format!("try again in {s} s"))),
            ClientError::Unreachable { .. } => Some(
                "start it with `cospan serve`, or name another with --server or COSPAN_SERVER; \
                 `cospan doctor` finds out more"
                    .into(),
            ),
            ClientError::Strange { server, .. } if server.to_string().starts_with("http://") => {
                Some(
                    "check --server and COSPAN_SERVER: is this the right address? \
                 If the server has TLS, name it with https://"
                        .into(),
                )
            }
            ClientError::Strange { .. } => {
                Some("check --server and COSPAN_SERVER: is this the right address?".into())
            }
            ClientError::Tls { problem, .. } => Some(problem.remedy.into()),
            ClientError::Certificate(_) => Some(
                "check --ca-certificate, COSPAN_CA_CERTIFICATE and client.ca_certificate".into(),
            ),
            ClientError::Local(_) => None,
        }
    }

    /// Returns the problem if the server itself refused the request.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            ClientError::Refused(problem) => Some(problem),
            _ => None,
        }
    }

    /// Returns true if the server refused the request for this reason.
    pub fn has_problem_code(&self, code: Code) -> bool {
        self.problem()
            .is_some_and(|problem| problem.code == code.as_str())
    }

    /// Returns true if the error may pass by itself: the server restarts, or is too busy.
    pub fn is_temporary(&self) -> bool {
        match self {
            ClientError::Unreachable { .. } => true,
            ClientError::Refused(problem) => matches!(problem.status, 429 | 502 | 503),
            _ => false,
        }
    }
}
