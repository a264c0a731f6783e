//! Keys that are removed, or lose a role, while a request of theirs goes on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use cospan_domain::ids::{Attempt, ComponentIndex, JobId, LrmId};
use cospan_domain::job::job_state::{AttemptState, Component};

use super::*;
use cospan_api::v1::upload::{UploadReport, UploadState};

/// Within this the server has heeded a change; it looks each 20 ms here.
const SOON: Duration = Duration::from_secs(1);

/// One request of which all is read that comes.
struct OpenRequest(TcpStream);

impl OpenRequest {
    fn send(served: &TestServer, token: &str, method: &str, path: &str, more: &str) -> Self {
        let mut stream = TcpStream::connect(served.address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.set_read_timeout(Some(GENEROUS)).unwrap();
        Self(stream)
    }

    /// Reads until this has come.
    fn read_until(&mut self, wanted: &str) -> String {
        let mut read = Vec::new();
        let mut piece = [0; 4096];
        while !String::from_utf8_lossy(&read).contains(wanted) {
            let count = self.0.read(&mut piece).unwrap();
            assert!(
                count > 0,
                "ended before {wanted:?}: {}",
                String::from_utf8_lossy(&read)
            );
            read.extend_from_slice(&piece[..count]);
        }
        String::from_utf8_lossy(&read).into_owned()
    }

    /// Reads to the end of the connection, which must come soon; what came.
    fn read_to_early_end(mut self) -> Vec<u8> {
        let begun = Instant::now();
        let mut rest = Vec::new();
        // Broken off is an end as well.
        let _ = self.0.read_to_end(&mut rest);
        assert!(
            begun.elapsed() < SOON,
            "it went on for {:?}",
            begun.elapsed()
        );
        rest
    }
}

fn submit_running_job(served: &TestServer, token: &str) {
    served.submit_as(token, &job_document().to_string());
    served.fake.change_job(1, |job| {
        let lrm_id = LrmId::new("1").unwrap();
        let host = "node".into();
        let run = AttemptState::Running {
            lrm_id,
            host,
            since: Timestamp(1),
        };
        let component = || Component {
            attempt: Attempt(1),
            run: run.clone(),
            ..Default::default()
        };
        job.components = vec![component(), component()];
    });
    put_content(served, "stdout", b"begun");
}

fn put_content(served: &TestServer, file: &str, bytes: &[u8]) {
    let key = (JobId(1), ComponentIndex(1), file.to_owned());
    served
        .fake
        .contents
        .lock()
        .unwrap()
        .insert(key, bytes.to_vec());
}

fn remove_key(served: &TestServer, name: &str) {
    served.keys.remove_key(&name.parse().unwrap()).unwrap();
}

const LOG: &str = "/v1/jobs/1/logs/b/stdout?follow=true";

#[test]
fn what_is_followed_ends_when_its_key_is_removed() {
    let served = TestServer::start();
    let token = served.create_key("anna", &[Role::User]);
    submit_running_job(&served, &token);
    let mut log = OpenRequest::send(&served, &token, "GET", LOG, "");
    log.read_until("begun");
    let mut events = OpenRequest::send(&served, &token, "GET", "/v1/events", "");
    events.read_until("hello");
    let other = served.create_key("otto", &[Role::User]);
    let mut others = OpenRequest::send(&served, &other, "GET", "/v1/events", "");
    others.read_until("hello");
    remove_key(&served, "anna");
    for open in [log, events] {
        let rest = open.read_to_early_end();
        assert!(
            !rest.ends_with(b"0\r\n\r\n"),
            "it is broken off, not over: {rest:?}"
        );
    }
    // Nobody else's ends.
    served.submit_as(&other, &job_document().to_string());
    others.read_until("JobSubmitted");
}

#[test]
fn who_loses_the_role_sees_no_more_of_others() {
    let served = TestServer::start();
    let token = served.create_key("anna", &[Role::User]);
    let chief = served.create_key("chief", &[Role::Administrator]);
    submit_running_job(&served, &token);
    let mut log = OpenRequest::send(&served, &chief, "GET", LOG, "");
    log.read_until("begun");
    let mut events = OpenRequest::send(&served, &chief, "GET", "/v1/events", "");
    events.read_until("hello");
    let mut narrow = OpenRequest::send(&served, &chief, "GET", "/v1/events?job=1", "");
    narrow.read_until("hello");
    let mut own = OpenRequest::send(&served, &token, "GET", LOG, "");
    own.read_until("begun");
    served.change_roles("chief", &[Role::User]);
    put_content(&served, "stdout", b"begun, and a secret");
    served.fake.change_job(1, |_| {});
    for open in [log, events, narrow] {
        let rest = open.read_to_early_end();
        assert!(
            !String::from_utf8_lossy(&rest).contains("secret"),
            "{rest:?}"
        );
        assert!(
            !String::from_utf8_lossy(&rest).contains("\"job\":1"),
            "{rest:?}"
        );
    }
    own.read_until("a secret");
    // What it may still do goes on.
    served.change_roles("anna", &[Role::Reader]);
    put_content(&served, "stdout", b"begun, and a secret, and more");
    own.read_until("and more");
}

#[test]
fn a_download_breaks_off_when_its_key_is_removed() {
    let served = TestServer::start();
    let token = served.create_key("anna", &[Role::User]);
    submit_running_job(&served, &token);
    let size = 256 << 20;
    put_content(&served, "result", &vec![b'x'; size]);
    let mut open = OpenRequest::send(&served, &token, "GET", "/v1/jobs/1/outputs/b/result", "");
    open.read_until("xxxx");
    remove_key(&served, "anna");
    wait_until("the server knows", || {
        served.ring.find_by_token(token.as_bytes()).is_none()
    });
    // What is in buffers between us and the server was sent before.
    let rest = open.read_to_early_end();
    assert!(rest.len() < size / 2, "{} bytes came", rest.len());
}

#[test]
fn an_upload_ends_when_its_key_is_removed_and_keeps_what_had_arrived() {
    let served = TestServer::start();
    let token = served.create_key("anna", &[Role::User]);
    let digest = "0".repeat(64);
    let announced = serde_json::json!({ "name": "mesh", "size_bytes": 100, "digest": digest });
    let reply = served.send_as(&token, "POST", "/v1/uploads", Some(&announced.to_string()));
    let id = reply.json::<UploadReport>().id.unwrap();
    let at = format!("/v1/uploads/{id}?offset=0");
    assert_eq!(
        served
            .send_as(&token, "PATCH", &at, Some("0123456789"))
            .status,
        200
    );
    let at = format!("/v1/uploads/{id}?offset=10");
    let mut open = OpenRequest::send(&served, &token, "PATCH", &at, "Content-Length: 90\r\n");
    open.0.write_all(b"half of it").unwrap();
    remove_key(&served, "anna");
    let said = String::from_utf8(open.read_to_early_end()).unwrap();
    assert!(said.starts_with("HTTP/1.1 401 "), "{said}");
    let left: UploadReport = served.get(&format!("/v1/uploads/{id}")).json();
    assert_eq!((left.offset, left.state), (10, UploadState::Receiving));
}

#[test]
fn a_submission_that_is_still_sent_when_the_role_is_lost_is_refused() {
    let served = TestServer::start();
    let token = served.create_key("anna", &[Role::User]);
    let mut open = OpenRequest::send(
        &served,
        &token,
        "POST",
        "/v1/jobs",
        "Content-Length: 900\r\n",
    );
    open.0.write_all(b"{").unwrap();
    served.change_roles("anna", &[Role::Reader]);
    let said = String::from_utf8(open.read_to_early_end()).unwrap();
    assert!(
        said.starts_with("HTTP/1.1 403 ") && said.contains("lacks the role user"),
        "{said}"
    );
    assert!(served.fake.asked.lock().unwrap().is_empty());
}

#[test]
fn a_file_is_not_brought_to_a_site_for_a_key_that_was_removed() {
    let served = TestServer::start();
    let token = served.create_key("anna", &[Role::User]);
    let announced = serde_json::json!({
        "name": "mesh", "size_bytes": 4, "digest": blake3::hash(b"mesh").to_hex().to_string(),
    });
    let reply = served.send_as(&token, "POST", "/v1/uploads", Some(&announced.to_string()));
    let id = reply.json::<UploadReport>().id.unwrap();
    let at = format!("/v1/uploads/{id}?offset=0");
    assert_eq!(
        served.send_as(&token, "PATCH", &at, Some("mesh")).status,
        200
    );
    remove_key(&served, "anna");
    wait_until("the server knows", || {
        served.ring.find_by_token(token.as_bytes()).is_none()
    });
    let said = served
        .post(&format!("/v1/uploads/{id}/complete"), "")
        .problem(409, "C4002");
    assert!(said.detail.contains("the key anna was removed"), "{said}");
    assert!(served.fake.uploaded.lock().unwrap().is_empty());
}
