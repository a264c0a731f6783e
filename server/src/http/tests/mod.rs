//! The edge against a control plane of paper, over real connections on loopback.

mod access_tests;
mod bad_input;
mod barred;
mod description;
mod endpoints;
mod fake;
mod mutation;
mod orders;
mod reading;
mod reservations_tests;
mod security;
mod server;
mod streams;
mod submission;
mod uploads_tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use cospan_domain::units::Timestamp;
use prometheus::Registry;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::oneshot;
use ureq::http::Response;
use ureq::{Agent, Body};

use super::{BoundListeners, HttpSettings, HttpState};
use crate::keys::{KeyDirectory, KeyRoles, LoadedKeys, Role};
use crate::uploads::UploadSettings;
use cospan_api::v1::Problem;
use fake::FakeControlPlane;

/// A deadline that only a broken program misses.
pub(super) const GENEROUS: Duration = Duration::from_secs(60);

/// A server of its own for one test.
pub(super) struct TestServer {
    pub(super) fake: Arc<FakeControlPlane>,
    pub(super) keys: KeyDirectory,
    pub(super) ring: Arc<LoadedKeys>,
    pub(super) token: String,
    pub(super) address: SocketAddr,
    agent: Agent,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _home: tempfile::TempDir,
}

/// What came back.
#[derive(Debug)]
pub(super) struct TestReply {
    pub(super) status: u16,
    pub(super) headers: ureq::http::HeaderMap,
    pub(super) body: Vec<u8>,
}

impl TestReply {
    pub(super) fn json<T: DeserializeOwned>(&self) -> T {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {} {text}", self.status))
    }

    /// The problem document that it must be.
    pub(super) fn problem(&self, status: u16, code: &str) -> Problem {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let problem: Problem = self.json();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (status, code),
            "{text}"
        );
        assert_eq!(problem.kind, format!("urn:cospan:problem:{code}"));
        assert!(
            !problem.title.is_empty() && !problem.detail.is_empty(),
            "{text}"
        );
        let helps = problem
            .remedy
            .as_ref()
            .is_some_and(|remedy| !remedy.is_empty());
        assert!(helps, "what to do about it? {text}");
        problem
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl TestServer {
    pub(super) fn start() -> Self {
        Self::start_with(|_| {})
    }

    pub(super) fn start_with(change: impl FnOnce(&mut HttpSettings)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let keys = KeyDirectory::new(home.path().join("keys"));
        keys.ensure_first_key(Timestamp(1)).unwrap();
        let token = keys.local_token().unwrap().unwrap().secret().to_owned();
        let mut settings = HttpSettings {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            key_refresh: Duration::from_millis(20),
            uploads: UploadSettings {
                directory: Some(home.path().join("uploads")),
                ..UploadSettings::default()
            },
            ..HttpSettings::default()
        };
        change(&mut settings);
        let fake = Arc::new(FakeControlPlane::default());
        let bound = BoundListeners::bind(&settings).unwrap();
        let address = bound.addresses()[0];
        let ring = Arc::new(LoadedKeys::open(keys.clone()).unwrap());
        let edge = HttpState::new(fake.clone(), ring.clone(), settings, Registry::new()).unwrap();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || serve_until_stopped(bound, edge, stopped));
        let config = Agent::config_builder().http_status_as_error(false);
        let agent = config.timeout_global(Some(GENEROUS)).build().new_agent();
        let stop = Some(stop);
        let thread = Some(thread);
        Self {
            fake,
            keys,
            ring,
            token,
            address,
            agent,
            stop,
            thread,
            _home: home,
        }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends a request with the key.
    pub(super) fn send(&self, method: &str, path: &str, body: Option<&[u8]>) -> TestReply {
        self.send_with(
            method,
            path,
            body,
            &[("Authorization", &format!("Bearer {}", self.token))],
        )
    }

    /// Sends a request with these headers only.
    pub(super) fn send_with(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        headers: &[(&str, &str)],
    ) -> TestReply {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(self.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = match body {
            Some(body) => self.agent.run(request.body(body.to_vec()).unwrap()),
            None => self.agent.run(request.body(()).unwrap()),
        };
        Self::read_reply(response.unwrap())
    }

    fn read_reply(response: Response<Body>) -> TestReply {
        let (parts, mut body) = response.into_parts();
        let body = body.with_config().limit(1 << 30).read_to_vec().unwrap();
        TestReply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        }
    }

    /// Sends a request with this token.
    pub(super) fn send_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> TestReply {
        let bearer = format!("Bearer {token}");
        self.send_with(
            method,
            path,
            body.map(str::as_bytes),
            &[("Authorization", &bearer)],
        )
    }

    /// Submits a job with this token; its number.
    pub(super) fn submit_as(&self, token: &str, document: &str) -> u64 {
        let reply = self.send_as(token, "POST", "/v1/jobs", Some(document));
        assert_eq!(
            reply.status,
            201,
            "{}",
            String::from_utf8_lossy(&reply.body)
        );
        reply.json::<Value>()["jobs"][0]["id"].as_u64().unwrap()
    }

    /// Makes a key that the server knows; its token.
    pub(super) fn create_key(&self, name: &str, roles: &[Role]) -> String {
        let roles = KeyRoles::of(roles.iter().copied()).unwrap();
        let token = self
            .keys
            .create_key(&name.parse().unwrap(), roles, Timestamp(2))
            .unwrap();
        wait_until("the server knows the key", || {
            self.ring.find_by_token(token.secret().as_bytes()).is_some()
        });
        token.secret().to_owned()
    }

    /// Gives a key these roles too, and waits until the server heeds it.
    pub(super) fn change_roles(&self, name: &str, roles: &[Role]) {
        let name = name.parse().unwrap();
        for role in roles {
            self.keys.set_role(&name, *role, true).unwrap();
        }
        let heeded = |role: &Role| self.ring.names_with(*role).contains(&name);
        let rank = roles.iter().filter(|role| role.is_rank()).max().unwrap();
        let above = Role::ALL
            .into_iter()
            .find(|role| role.is_rank() && role > rank);
        wait_until("the server heeds the roles", || {
            roles.iter().all(heeded) && !above.as_ref().is_some_and(heeded)
        });
    }

    pub(super) fn get(&self, path: &str) -> TestReply {
        self.send("GET", path, None)
    }

    pub(super) fn post(&self, path: &str, body: &str) -> TestReply {
        self.send("POST", path, Some(body.as_bytes()))
    }

    pub(super) fn submit(&self, body: &str) -> TestReply {
        self.post("/v1/jobs", body)
    }

    /// Submits so many jobs like [`job_document`], named `job-0` and so on.
    pub(super) fn submit_many(&self, count: usize) {
        let jobs: Vec<Value> = (0..count)
            .map(|i| named_job_document(&format!("job-{i}")))
            .collect();
        for batch in jobs.chunks(1000) {
            assert_eq!(
                self.submit(&serde_json::to_string(batch).unwrap()).status,
                201
            );
        }
    }

    /// Ends the server and waits for it.
    pub(super) fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve_until_stopped(bound: BoundListeners, edge: HttpState, stopped: oneshot::Receiver<()>) {
    actix_web::rt::System::new().block_on(async move {
        let mut running = bound.serve(edge).unwrap();
        let server = actix_web::rt::spawn(running.take_server().unwrap());
        let _ = stopped.await;
        running.stop().await;
        server.await.unwrap().unwrap();
    });
}

/// A job that is valid.
pub(super) fn job_document() -> Value {
    named_job_document("wave")
}

pub(super) fn named_job_document(name: &str) -> Value {
    serde_json::json!({
        "name": name,
        "wall_time": "10m",
        "component": [
            {"name": "a", "processors": 2, "executable": "/bin/true"},
            {"name": "b", "processors": 3, "executable": "/bin/true"},
        ],
    })
}

/// Waits until something holds.
pub(super) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < GENEROUS, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
