//! A typed client of the HTTP interface, over TCP or a Unix socket.

mod calls;
mod changes;
mod chaos;
mod error;
mod explain;
mod query;
mod reservations;
mod sse;
mod tls;
mod unix;
mod uploads;

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{Request, Response};
use ureq::{Agent, AsSendBody, Body};

pub use calls::{
    FileDownload, FilePiece, JobAction, JobFilter, LogRequest, SiteAction, SubmitOptions,
};
pub use changes::{ChangeStream, StreamEvent};
pub use cospan_api::server_address::ServerAddress;
pub use error::ClientError;
pub use explain::WholeExplanation;
pub use reservations::SlotsRequest;
pub use sse::{SseEvent, SseReader};
pub use tls::TlsProblem;

use cospan_api::v1::Problem;
use cospan_api::v1::problem::{Code, MEDIA_TYPE};

/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest silence in the middle of an answer.
const SILENCE: Duration = Duration::from_secs(60);
/// Time between two tries to reach a server that is starting.
const AGAIN: Duration = Duration::from_millis(20);
/// Largest answer that is kept in memory; streams and downloads are not.
const MAX_ANSWER: u64 = 256 << 20;

/// A client of one server.
#[derive(Debug, Clone)]
pub struct Client {
    agent: Agent,
    address: ServerAddress,
    token: Option<String>,
    /// A refused connection is tried again until then, because the server may be starting.
    starting: Option<Instant>,
}

impl Client {
    /// Creates a client that presents `token`, and trusts `ca_certificate` instead of the public
    /// authorities.
    ///
    /// # Errors
    ///
    /// The certificate cannot be read.
    pub fn new(
        address: ServerAddress,
        token: Option<String>,
        ca_certificate: Option<&Path>,
    ) -> Result<Self, ClientError> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_per_read(Some(SILENCE))
            .timeout_per_write(Some(SILENCE))
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("cospan/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls::tls_config(ca_certificate)?)
            .build();
        let agent = match &address {
            ServerAddress::Http(_) => Agent::new_with_config(config),
            ServerAddress::Unix(path) => {
                Agent::with_parts(config, unix::UnixConnector(path.clone()), unix::NoResolver)
            }
        };
        Ok(Self {
            agent,
            address,
            token,
            starting: None,
        })
    }

    /// Makes the client retry refused connections until then: the server may be starting at this
    /// moment.
    pub fn retrying_until(self, starting: Instant) -> Self {
        Self {
            starting: Some(starting),
            ..self
        }
    }

    /// Returns the address of the server.
    pub fn address(&self) -> &ServerAddress {
        &self.address
    }

    /// Returns true if the client has a key.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let response = self.send_request(self.build_request("GET", path), &[])?;
        self.read_json(response)
    }

    fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| self.unexpected_answer_error(error.to_string()))?;
        let request = self
            .build_request("POST", path)
            .header("content-type", "application/json");
        let response = self.send_request(request, &body)?;
        self.read_json(response)
    }

    fn build_request(&self, method: &str, path: &str) -> ureq::http::request::Builder {
        let url = format!("{}{path}", self.address.base_url());
        let request = Request::builder().method(method).uri(url);
        match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    /// Sends a request. An answer that reports no success becomes an error.
    fn send_request(
        &self,
        request: ureq::http::request::Builder,
        body: &[u8],
    ) -> Result<Response<Body>, ClientError> {
        let request = request
            .body(body)
            .map_err(|error| self.unexpected_answer_error(format!("bad request: {error}")))?;
        let response = self
            .run_request(request)
            .map_err(|error| self.unreachable_error(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.read_refusal(response))
    }

    fn run_request<B: AsSendBody + Clone>(
        &self,
        request: Request<B>,
    ) -> Result<Response<Body>, ureq::Error> {
        loop {
            match self.agent.run(request.clone()) {
                Err(ureq::Error::Io(error))
                    if error.kind() == ErrorKind::ConnectionRefused
                        && self.starting.is_some_and(|until| Instant::now() < until) =>
                {
                    std::thread::sleep(AGAIN);
                }
                answer => return answer,
            }
        }
    }

    fn read_refusal(&self, mut response: Response<Body>) -> ClientError {
        let status = response.status().as_u16();
        let is_problem = response
            .body()
            .mime_type()
            .is_some_and(|mime| mime.eq_ignore_ascii_case(MEDIA_TYPE));
        let text = response.body_mut().read_to_string().unwrap_or_default();
        let problem = serde_json::from_str::<Problem>(&text)
            .ok()
            .filter(|_| is_problem);
        match problem {
            Some(problem) => ClientError::Refused(Box::new(self.with_key_remedy(problem))),
            None => self.unexpected_answer_error(format!("status {status} without a reason")),
        }
    }

    /// Adds a remedy where only the client knows it: it sent a key, or had none.
    fn with_key_remedy(&self, problem: Problem) -> Problem {
        if problem.code != Code::NoKey.as_str() {
            return problem;
        }
        let remedy = match self.token {
            None => {
                "no key was found: set COSPAN_TOKEN, or run as the user that runs the server; \
                 `cospan key add` makes a key"
            }
            Some(_) => {
                "the server does not know the key that was sent: check COSPAN_TOKEN and --server; \
                 `cospan key list` lists the keys"
            }
        };
        problem.with_remedy(remedy)
    }

    fn read_json<T: DeserializeOwned>(
        &self,
        mut response: Response<Body>,
    ) -> Result<T, ClientError> {
        let mut text = Vec::new();
        let body = response.body_mut().with_config().limit(MAX_ANSWER);
        body.reader()
            .read_to_end(&mut text)
            .map_err(|error| self.broken_connection_error(&error))?;
        serde_json::from_slice(&text)
            .map_err(|error| self.unexpected_answer_error(error.to_string()))
    }

    fn unreachable_error(&self, error: &ureq::Error) -> ClientError {
        if let Some(problem) = TlsProblem::from_ureq_error(error) {
            return ClientError::Tls {
                server: self.address.clone(),
                problem,
            };
        }
        let cause = match error {
            // The answer is not HTTP: a server with TLS answers a plain request like this.
            ureq::Error::Protocol(error) => return self.unexpected_answer_error(error.to_string()),
            ureq::Error::Io(error) => return self.broken_connection_error(error),
            ureq::Error::Timeout(_) => "no answer in time".to_owned(),
            other => other.to_string(),
        };
        ClientError::Unreachable {
            server: self.address.clone(),
            cause,
        }
    }

    /// Converts an error while an answer was read.
    pub fn broken_connection_error(&self, error: &std::io::Error) -> ClientError {
        // The system's message without its number.
        let text = error.to_string();
        let cause = text
            .split(" (os error")
            .next()
            .unwrap_or(&text)
            .to_lowercase();
        ClientError::Unreachable {
            server: self.address.clone(),
            cause,
        }
    }

    fn unexpected_answer_error(&self, what: String) -> ClientError {
        ClientError::Strange {
            server: self.address.clone(),
            what,
        }
    }
}
