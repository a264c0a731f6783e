//! What a server refuses to start on, and how a store moves from one to another.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod damage;
mod flexible_reservations;
mod guide_commands;
mod lost_store;
mod notices;
mod orphans;
mod quota;
mod ranked_sites;
mod reserve_if_needed;
mod reserved_starts;
mod root_claims;
mod shared_reservations;
mod start_after;
mod start_refusals;
mod tls_server;
mod unreserved_parts;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use cospan_chaos_tests::api::{Api, ApiReply};
use cospan_chaos_tests::server::{ServerProcess, serve_permission};
use cospan_chaos_tests::test_environment::{Layout, TestEnvironment};
use serde_json::{Value, json};

fn environment() -> TestEnvironment {
    let layout = Layout {
        sites: 2,
        processors: 2,
        ..Layout::default()
    };
    TestEnvironment::new(Path::new(env!("CARGO_TARGET_TMPDIR")), &layout).unwrap()
}

fn server(environment: &TestEnvironment) -> ServerProcess {
    ServerProcess::new(env!("CARGO_BIN_EXE_cospan").as_ref(), environment)
}

/// The program with the configuration of an environment, in which `from` reads `to`.
fn with_config(
    environment: &TestEnvironment,
    changes: &[(&str, &str)],
    arguments: &[&str],
) -> Output {
    let mut text = std::fs::read_to_string(environment.config()).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{from} is not in {text}");
        text = text.replace(from, to);
    }
    let path = environment.path().join("other.toml");
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cospan"));
    command.args(arguments).arg("--config").arg(path);
    command
        .env_clear()
        .env("HOME", environment.path())
        .envs(serve_permission())
        .output()
        .unwrap()
}

/// Refused with these words, and in no other way.
fn refused(output: &Output, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it was not refused: {text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

fn port(environment: &TestEnvironment) -> String {
    format!("127.0.0.1:{}", environment.port())
}

/// Runs one job to its end, so that there is something to move.
fn ran_a_job(server: &mut ServerProcess) -> u64 {
    server.start().unwrap();
    run_a_job(server)
}

fn run_a_job(server: &ServerProcess) -> u64 {
    let api = server.api().unwrap();
    let component = json!({ "name": "only", "processors": 1, "executable": "/bin/true" });
    let document = json!({ "name": "moved", "wall_time": "1m", "component": [component] });
    let answer = api.post_expected("/v1/jobs", &document).unwrap();
    let id = answer["jobs"][0]["id"].as_u64().unwrap();
    while api.get_expected(&format!("/v1/jobs/{id}")).unwrap()["phase"]["state"] != "finished" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    id
}

#[test]
fn numbers_of_jobs_go_on_after_a_stop() {
    let environment = environment();
    let mut server = server(&environment);
    let first = ran_a_job(&mut server);
    let stopped = with_config(&environment, &[], &["stop"]);
    let told = String::from_utf8_lossy(&stopped.stderr);
    assert!(stopped.status.success(), "{told}");
    let begun = Instant::now();
    while server.exit_status().unwrap().is_none() {
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(ran_a_job(&mut server), first + 1);
}

#[test]
fn a_store_exported_from_a_live_server_is_checked_and_lives_on_elsewhere() {
    let old = environment();
    let mut source = server(&old);
    let id = ran_a_job(&mut source);
    let instance = |server: &ServerProcess| {
        server.api().unwrap().get_expected("/v1/store").unwrap()["instance"].clone()
    };
    let before = instance(&source);
    let file = old.path().join("export").display().to_string();
    let exported = client(&old, &["store", "export", &file]);
    assert!(
        exported.status.success(),
        "{}",
        String::from_utf8_lossy(&exported.stderr)
    );

    refused(&with_config(&old, &[], &["store", "check"]), &["in use"]);
    refused(
        &with_config(&old, &[], &["store", "import", &file]),
        &["store"],
    );
    source.kill().unwrap();
    let checked = with_config(&old, &[], &["store", "check"]);
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    assert!(String::from_utf8_lossy(&checked.stdout).contains("records are whole"));

    let new = environment();
    let imported = with_config(&new, &[], &["store", "import", &file]);
    assert!(
        imported.status.success(),
        "{}",
        String::from_utf8_lossy(&imported.stderr)
    );
    let mut target = server(&new);
    target.start().unwrap();
    let job: Value = target
        .api()
        .unwrap()
        .get_expected(&format!("/v1/jobs/{id}"))
        .unwrap();
    assert_eq!(job["phase"]["state"], "finished");
    assert_ne!(
        instance(&target),
        before,
        "another control plane under the same account"
    );
}

/// The program as a client of the environment's server.
fn client(environment: &TestEnvironment, arguments: &[&str]) -> Output {
    let token: PathBuf = environment.data().join("keys/admin.token");
    let token = std::fs::read_to_string(token).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cospan"));
    command
        .args(arguments)
        .env_clear()
        .env("HOME", environment.path());
    command.env("COSPAN_TOKEN", token.trim());
    command
        .env("COSPAN_SERVER", format!("http://{}", port(environment)))
        .output()
        .unwrap()
}

fn stop(server: &mut ServerProcess) {
    cospan_chaos_tests::stimulus::signal(server.pid().unwrap(), rustix::process::Signal::TERM);
    while server.exit_status().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn what_runs_while_its_store_moves_elsewhere_goes_on_and_runs_once() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    let began = environment.path().join("began");
    let go_on = environment.path().join("go-on");
    let script = format!(
        "echo $COSPAN_TAG >> {}; until [ -e {} ]; do sleep 0.05; done; echo the end",
        began.display(),
        go_on.display()
    );
    let component = json!({
        "name": "only", "processors": 1, "executable": "/bin/sh", "arguments": ["-c", script],
    });
    let document = json!({ "wall_time": "10m", "rerunnable": true, "component": [component] });
    let answer = server
        .api()
        .unwrap()
        .post_expected("/v1/jobs", &document)
        .unwrap();
    let id = answer["jobs"][0]["id"].as_u64().unwrap();
    until_it_is(&server, id, "running");
    let file = environment.path().join("export").display().to_string();
    assert!(
        client(&environment, &["store", "export", &file])
            .status
            .success()
    );
    server.kill().unwrap();

    std::fs::rename(environment.data(), environment.path().join("data-before")).unwrap();
    let imported = with_config(&environment, &[], &["store", "import", &file]);
    assert!(
        imported.status.success(),
        "{}",
        String::from_utf8_lossy(&imported.stderr)
    );
    server.start().unwrap();
    until_it_is(&server, id, "running");
    std::fs::write(&go_on, "").unwrap();
    until_it_is(&server, id, "finished");
    assert_eq!(
        std::fs::read_to_string(&began).unwrap().lines().count(),
        1,
        "it ran twice"
    );
    let said = client(&environment, &["logs", &id.to_string()]);
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "the end");
}

/// Waits until a job is in a state, which it must come to without having failed.
/// Waits until a site is in this state, for a reason that has these words.
fn until_site_tells(server: &ServerProcess, site: &str, state: &str, words: &[&str]) {
    let begun = Instant::now();
    loop {
        let api = server.api().unwrap();
        let told = api.get_expected(&format!("/v1/sites/{site}")).unwrap();
        let reason = told["reason"].as_str().unwrap_or_default();
        if told["state"] == state && words.iter().all(|word| reason.contains(word)) {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "not {state}, {words:?}: {told}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn until_it_is(server: &ServerProcess, id: u64, state: &str) {
    loop {
        let job = server
            .api()
            .unwrap()
            .get_expected(&format!("/v1/jobs/{id}"))
            .unwrap();
        let now = job["phase"]["state"].as_str().unwrap();
        assert!(now != "failed" && now != "cancelled", "{job}");
        if now == state {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Far more than anything takes here.
const PATIENCE: Duration = Duration::from_secs(60);

fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn until_sites_take_jobs(server: &ServerProcess) {
    until("all sites take jobs", || {
        let sites = server.api().unwrap().get_expected("/v1/sites").unwrap();
        sites["sites"]
            .as_array()
            .unwrap()
            .iter()
            .all(|site| site["state"] == "usable")
    });
}

/// A job whose payload writes its process id to `pid`, and ends once there is `go`.
fn waiting_job(environment: &TestEnvironment) -> Value {
    let line = format!(
        "cd {:?}; echo $$ > pid; while ! [ -e go ]; do sleep 0.1; done",
        environment.path()
    );
    let component = json!({ "name": "only", "processors": 1, "executable": "/bin/sh", "arguments": ["-c", line] });
    json!({ "wall_time": "5m", "component": [component] })
}

/// A request of which all but the last byte is sent, and the head has been read.
fn half_sent(environment: &TestEnvironment, body: &str) -> TcpStream {
    const GO_ON: &str = "HTTP/1.1 100 Continue\r\n\r\n";
    let token = std::fs::read_to_string(environment.data().join("keys/admin.token")).unwrap();
    let mut stream = TcpStream::connect(port(environment)).unwrap();
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
        token.trim(),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; GO_ON.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, GO_ON.as_bytes());
    stream
        .write_all(&body.as_bytes()[..body.len() - 1])
        .unwrap();
    stream
}

#[test]
fn a_stop_refuses_new_work_ends_soon_and_leaves_what_runs_for_later() {
    const STOP_MAX: Duration = Duration::from_secs(10);
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    let api = server.api().unwrap();
    let job = waiting_job(&environment);
    let answer = api.post_expected("/v1/jobs", &job).unwrap();
    let path = format!("/v1/jobs/{}", answer["jobs"][0]["id"]);
    let state = |api: &Api| api.get_expected(&path).unwrap()["phase"]["state"].clone();
    until("it runs", || {
        environment.path().join("pid").exists() && state(&api) == "running"
    });
    let pid = std::fs::read_to_string(environment.path().join("pid")).unwrap();
    let lives = || Path::new("/proc").join(pid.trim()).exists();

    let body = job.to_string();
    let mut late = half_sent(&environment, &body);
    let begun = Instant::now();
    cospan_chaos_tests::stimulus::signal(server.pid().unwrap(), rustix::process::Signal::TERM);
    until("it says that it stops", || {
        std::fs::read_to_string(environment.log())
            .unwrap()
            .contains("stopping: no new work")
    });
    late.write_all(&body.as_bytes()[body.len() - 1..]).unwrap();
    let mut answer = String::new();
    late.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.to_lowercase().contains("retry-after: "), "{answer}");
    let status = loop {
        if let Some(status) = server.exit_status().unwrap() {
            break status;
        }
        assert!(begun.elapsed() < STOP_MAX, "it takes too long");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(0));
    assert!(lives(), "the payload ended with the server");

    server.start().unwrap();
    until("it is seen to run", || state(&api) == "running");
    assert!(lives());
    std::fs::write(environment.path().join("go"), "").unwrap();
    until("it finishes", || state(&api) == "finished");
    let job = api.get_expected(&path).unwrap();
    assert_eq!(
        (&job["round"], &job["components"][0]["attempt"]),
        (&1.into(), &1.into()),
        "{job}"
    );
    let jobs = api.get_expected("/v1/jobs").unwrap();
    assert_eq!(
        jobs["jobs"].as_array().unwrap().len(),
        1,
        "the late one was refused"
    );
}

/// Ended with the test, however that ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_service_manager_is_told_once_the_server_takes_work() {
    let environment = environment();
    // The path of a socket is short.
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cospan"));
    command
        .args(["serve", "--config"])
        .arg(environment.config())
        .env_clear();
    command
        .env("HOME", environment.path())
        .env("PATH", "/usr/bin:/bin")
        .env("NOTIFY_SOCKET", &socket)
        .envs(serve_permission());
    let _server = Ended(command.stderr(std::process::Stdio::null()).spawn().unwrap());
    let mut told = [0; 256];
    let length = manager.recv(&mut told).unwrap();
    let told = String::from_utf8_lossy(&told[..length]).into_owned();
    assert!(told.lines().any(|line| line == "READY=1"), "{told}");
    let answer = Api::new(environment.port(), String::new()).get("/readyz");
    assert!(matches!(answer, ApiReply::Answered(200, _)), "{answer:?}");
}
