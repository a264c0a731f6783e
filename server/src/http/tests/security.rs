//! No way in without a key.

use serde_json::Value;

use super::*;

/// Every address of the document with each of its methods.
fn list_operations(served: &TestServer) -> Vec<(String, String)> {
    let document: Value = served.get("/v1/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .flat_map(|(path, item): (&String, &Value)| {
            let path = path.replace(['{', '}'], "");
            let methods = item.as_object().unwrap().keys();
            methods
                .map(|method| (method.to_uppercase(), path.clone()))
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn no_address_but_health_and_the_description_answers_without_a_key() {
    let served = TestServer::start_with(|settings| settings.max_failures_per_minute = 1_000_000);
    let almost = &served.token[..served.token.len() - 1];
    let wrong: [&[(&str, &str)]; 7] = [
        &[],
        &[("Authorization", "")],
        &[("Authorization", "Bearer ")],
        &[("Authorization", "Bearer wrong")],
        &[("Authorization", &format!("Bearer {almost}"))],
        &[("Authorization", &format!("Basic {}", served.token))],
        &[("Authorization", &served.token)],
    ];
    for (method, path) in list_operations(&served) {
        if matches!(path.as_str(), "/livez" | "/readyz" | "/v1/openapi.json") {
            continue;
        }
        for headers in wrong {
            let reply = served.send_with(&method, &path, None, headers);
            reply.problem(401, "C2001");
            assert!(reply.header("www-authenticate").is_some());
        }
    }
    served
        .send_with("GET", "/v1/nothing", None, &[])
        .problem(401, "C2001");
    assert!(served.fake.asked.lock().unwrap().is_empty());
    assert!(served.fake.view.lock().unwrap().jobs.is_empty());
}

#[test]
fn metrics_are_open_only_by_option() {
    let served = TestServer::start_with(|settings| settings.metrics_without_key = true);
    assert_eq!(served.send_with("GET", "/metrics", None, &[]).status, 200);
    served
        .send_with("GET", "/v1/jobs", None, &[])
        .problem(401, "C2001");
}

#[test]
fn a_key_counts_from_its_making_to_its_removal_without_a_restart() {
    let served = TestServer::start_with(|settings| settings.max_failures_per_minute = 1_000_000);
    let alice = "alice".parse().unwrap();
    let token = served
        .keys
        .create_key(&alice, KeyRoles::default(), Timestamp(2))
        .unwrap();
    let bearer = format!("bearer {}", token.secret());
    let status = || {
        served
            .send_with("GET", "/v1/jobs", None, &[("authorization", &bearer)])
            .status
    };
    wait_until("the new key is let in", || status() == 200);
    let body = job_document().to_string();
    let reply = served.send_with(
        "POST",
        "/v1/jobs",
        Some(body.as_bytes()),
        &[("Authorization", &bearer)],
    );
    assert_eq!(reply.status, 201);
    let view = served.fake.view.lock().unwrap().clone();
    assert_eq!(view.jobs.values().next().unwrap().owner, alice);
    served.keys.remove_key(&alice).unwrap();
    wait_until("the removed key is refused", || status() == 401);
}

#[test]
fn many_failures_from_one_address_are_slowed_but_valid_keys_still_pass() {
    let served = TestServer::start_with(|settings| settings.max_failures_per_minute = 5);
    let mut failures = 0;
    let reply = loop {
        let reply = served.send_with("GET", "/v1/jobs", None, &[]);
        if reply.status != 401 {
            break reply;
        }
        failures += 1;
        // A minute may end in between, and the count with it.
        assert!(failures <= 10, "nobody slows them down");
    };
    reply.problem(429, "C2003");
    assert_eq!(reply.header("retry-after"), Some("60"));
    assert_eq!(reply.header("connection"), Some("close"));
    assert_eq!(served.get("/v1/jobs").status, 200);
}

#[test]
fn requests_with_one_key_are_limited() {
    let served = TestServer::start_with(|settings| settings.max_requests_per_s_per_key = 3);
    // Some second has more than three of so many requests in it.
    let mut refused = None;
    wait_until("a request is refused", || {
        let reply = served.get("/v1/store");
        let over = reply.status == 429;
        if over {
            refused = Some(reply);
        }
        over
    });
    refused.unwrap().problem(429, "C5003");
}

/// Sends the head of a request, and of its body as much as is taken, up to 256 MiB; the bytes
/// that were, and the answer.
fn send_large_body(served: &TestServer, path: &str, key: Option<&str>) -> (usize, String) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(served.address).unwrap();
    stream.set_read_timeout(Some(GENEROUS)).unwrap();
    stream.set_write_timeout(Some(GENEROUS)).unwrap();
    let key = key
        .map(|key| format!("Authorization: Bearer {key}\r\n"))
        .unwrap_or_default();
    let length = 256 << 20;
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\n{key}Content-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut sent = 0;
    let piece = vec![b'x'; 64 << 10];
    while sent < length {
        match stream.write(&piece) {
            Ok(0) | Err(_) => break,
            Ok(count) => sent += count,
        }
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    (sent, String::from_utf8_lossy(&answer).into_owned())
}

#[test]
fn a_body_is_not_read_on_when_the_answer_is_known() {
    let served = TestServer::start();
    let reader = served.create_key("looks", &[Role::Reader]);
    // Some is in the buffers of the kernel on both sides; nobody has read it.
    const BUFFERS: usize = 32 << 20;
    // Who may ask is listened to for longer: most clients send everything first.
    for (key, read, answered) in [
        (None, 0, "401"),
        (Some("wrong"), 0, "401"),
        (Some(reader.as_str()), 0, "403"),
        (Some(served.token.as_str()), 64 << 20, "413"),
    ] {
        let (sent, answer) = send_large_body(&served, "/v1/jobs", key);
        assert!(sent < read + BUFFERS, "{key:?}: {sent} bytes were taken");
        // Who does not stop to listen may miss it.
        assert!(answer.is_empty() || answer.contains(answered), "{answer}");
    }
}

#[test]
fn who_sends_a_long_body_and_listens_is_told_why_it_is_not_read() {
    use std::io::{Read, Write};
    let served = TestServer::start();
    let mut stream = std::net::TcpStream::connect(served.address).unwrap();
    stream.set_read_timeout(Some(GENEROUS)).unwrap();
    let head = "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&[b'x'; 32 << 10]).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.starts_with("HTTP/1.1 401") && answer.contains("C2001"),
        "{answer}"
    );
    assert!(
        answer.to_lowercase().contains("connection: close"),
        "{answer}"
    );
}
