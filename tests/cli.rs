//! The command line as a process: what it prints, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "cli/explain_pages.rs"]
mod explain_pages;
#[path = "cli/fake_server.rs"]
mod fake_server;
#[path = "cli/hostile_text.rs"]
mod hostile_text;
#[path = "cli/several.rs"]
mod several;

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use fake_server::{Fake, FakeAnswer};
use serde_json::json;

/// The program with an environment of its own.
fn cospan(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cospan"));
    command
        .env_clear()
        .env("HOME", home)
        .env("COSPAN_TOKEN", "cospan_test")
        .stdin(Stdio::null())
        .current_dir(home);
    command
}

fn run(server: &Fake, arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    cospan(home.path())
        .env("COSPAN_SERVER", server.address())
        .args(arguments)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn job(id: u64, state: &str) -> serde_json::Value {
    let at = "2026-03-01T12:00:00.000Z";
    json!({
        "id": id, "owner": "alice", "submitted_at": at, "priority": "low",
        "phase": { "state": state, "since": at, "reason": (state == "failed").then_some("exit code 3") },
        "round": 1, "inputs_here": true,
        "components": [{
            "name": "solver", "processors": 2, "site": "delft", "attempt": 1, "state": "succeeded",
            "outputs": [{ "path": "result.txt", "collected": false,
                "digest": blake3::hash(b"42\n").to_hex().to_string(), "size_bytes": 3 }],
        }],
        "setbacks": { "claims": 0, "rounds": 0, "site_errors": 0, "own_errors": 0, "inputs": 0 },
        "instants": { "total_placement_time_ms": 0, "wasted_processor_ms": 0, "transfer_volume_bytes": 0 },
        "revision": 3,
        "document": {
            "name": "wave", "wall_time": "1h", "component": [{
                "name": "solver", "processors": 2, "executable": "/bin/true",
                "output": [{ "path": "result.txt" }],
            }],
        },
    })
}

/// A server with jobs 1 finished, 2 failed, 3 cancelled, 4 running for ever.
fn four_jobs() -> Fake {
    Fake::start(|request| match request.path.as_str() {
        "/v1/jobs/1" => FakeAnswer::json(&job(1, "finished")),
        "/v1/jobs/2" => FakeAnswer::json(&job(2, "failed")),
        "/v1/jobs/3" => FakeAnswer::json(&job(3, "cancelled")),
        "/v1/jobs/4" => FakeAnswer::json(&job(4, "running")),
        _ => FakeAnswer::no_such(&request.path),
    })
}

#[test]
fn the_exit_code_of_wait_tells_how_jobs_ended() {
    let server = four_jobs();
    for (ids, expected) in [("1", 0), ("1,2", 1), ("1,3", 5), ("2,3", 1)] {
        let output = run(&server, &["wait", ids]);
        assert_eq!(code(&output), expected, "{ids}: {}", stderr(&output));
    }
    let output = run(&server, &["wait", "2"]);
    assert_eq!(stdout(&output), "job 2 failed: exit code 3\n");
}

#[test]
fn a_wait_that_runs_out_of_time_says_so_and_ends_with_6() {
    let server = four_jobs();
    let output = run(&server, &["wait", "4", "--timeout", "200ms"]);
    assert_eq!(code(&output), 6, "{}", stderr(&output));
    let any = run(&server, &["wait", "1,4", "--any"]);
    assert_eq!(code(&any), 0, "{}", stderr(&any));
}

#[test]
fn a_job_that_is_not_there_is_refused_with_3() {
    let output = run(&four_jobs(), &["show", "99"]);
    assert_eq!(code(&output), 3);
    assert!(
        stderr(&output).contains("there is no /v1/jobs/99 [C3001]"),
        "{}",
        stderr(&output)
    );
    assert_eq!(stdout(&output), "");
}

#[test]
fn a_server_that_is_not_there_is_told_with_4_and_what_to_do() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let home = tempfile::tempdir().unwrap();
    let output = cospan(home.path())
        .args(["list", "--server", &format!("http://{nobody}")])
        .output()
        .unwrap();
    assert_eq!(code(&output), 4);
    let text = stderr(&output);
    assert!(
        text.contains("cannot reach the server") && text.contains("cospan serve"),
        "{text}"
    );
}

#[test]
fn something_else_that_answers_is_not_taken_for_a_server() {
    let server = Fake::start(|_| FakeAnswer::new(200, "text/html", "<html>hello</html>"));
    let output = run(&server, &["list"]);
    assert_eq!(code(&output), 4);
    assert!(
        stderr(&output).contains("does not answer like a Cospan server"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn wrong_usage_ends_with_2_before_any_server_is_asked() {
    let server = Fake::start(|_| panic!("the server was asked"));
    for arguments in [
        &["wait", "8-5"][..],
        &["wait", "1", "--timeout", "90"],
        &["list", "--state", "runing"],
        &["list", "--server", "localhost:7440"],
        &["submit", "missing.toml"],
        &["frobnicate"],
    ] {
        let output = run(&server, arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", stderr(&output));
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
    let output = run(&server, &["list", "--state", "runing"]);
    assert!(
        stderr(&output).contains("did you mean \"running\"?"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn without_a_key_the_user_is_told_where_one_comes_from() {
    let server = Fake::start(|request| {
        assert!(!request.head.to_lowercase().contains("authorization:"));
        FakeAnswer::problem(401, "C2001", "a valid key is needed")
    });
    let home = tempfile::tempdir().unwrap();
    let output = cospan(home.path())
        .env_remove("COSPAN_TOKEN")
        .env("COSPAN_SERVER", server.address())
        .arg("list")
        .output()
        .unwrap();
    assert_eq!(code(&output), 3);
    assert!(
        stderr(&output).contains("set COSPAN_TOKEN"),
        "{}",
        stderr(&output)
    );
}

const JOB: &str = "name = \"wave\"\nwall_time = \"1h\"\n\n[[component]]\nname = \"solver\"\n\
                   processors = 2\nexecutable = \"/bin/true\"\n";

#[test]
fn a_slip_in_a_job_file_is_told_with_file_line_and_nearest_key() {
    let server = Fake::start(|_| panic!("the server was asked"));
    let home = tempfile::tempdir().unwrap();
    std::fs::write(
        home.path().join("job.toml"),
        JOB.replace("processors", "procesors"),
    )
    .unwrap();
    let output = cospan(home.path())
        .env("COSPAN_SERVER", server.address())
        .args(["submit", "job.toml"])
        .output()
        .unwrap();
    assert_eq!(code(&output), 2);
    let text = stderr(&output);
    assert!(text.contains("job.toml:6"), "{text}");
    assert!(text.contains("did you mean \"processors\"?"), "{text}");
}

#[test]
fn jobs_are_read_from_several_files_and_standard_input_in_every_notation() {
    let server = Fake::start(|request| {
        let jobs: Vec<serde_json::Value> = serde_json::from_str(&request.body).unwrap();
        let names: Vec<_> = jobs
            .iter()
            .map(|job| job["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["wave", "json", "yaml"]);
        assert!(
            request
                .head
                .to_lowercase()
                .contains("idempotency-key: night-1")
        );
        let rows: Vec<_> = (7..10)
            .map(|id| json!({ "id": id, "repeated": id == 9 }))
            .collect();
        FakeAnswer::json(&json!({ "jobs": rows }))
    });
    let home = tempfile::tempdir().unwrap();
    let component = r#"[{"name":"c","processors":1,"executable":"/bin/true"}]"#;
    let json = format!(r#"{{"name":"json","wall_time":"1m","component":{component}}}"#);
    std::fs::write(home.path().join("job.toml"), JOB).unwrap();
    std::fs::write(home.path().join("job.json"), json).unwrap();
    let mut child = cospan(home.path())
        .env("COSPAN_SERVER", server.address())
        .args([
            "submit",
            "job.toml",
            "job.json",
            "-",
            "--idempotency-key",
            "night-1",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let yaml = "name: yaml\nwall_time: 1m\ncomponent:\n  - name: c\n    processors: 1\n    \
                executable: /bin/true\n";
    child
        .stdin
        .take()
        .unwrap()
        .write_all(yaml.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "job 7 submitted\njob 8 submitted\njob 9 already submitted\n"
    );
}

#[test]
fn a_busy_server_is_asked_again_with_the_same_idempotency_key() {
    let server = Fake::start(|request| match request.number {
        0 => FakeAnswer::problem(429, "C5002", "busy"),
        _ => FakeAnswer::json(&json!({ "jobs": [{ "id": 1, "repeated": false }] })),
    });
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("job.toml"), JOB).unwrap();
    let output = cospan(home.path())
        .env("COSPAN_SERVER", server.address())
        .args(["submit", "job.toml"])
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let keys: Vec<String> = server
        .requests()
        .iter()
        .map(|r| r.header("idempotency-key"))
        .collect();
    assert_eq!(keys.len(), 2);
    assert!(
        keys[0].starts_with("cli-") && keys[0] == keys[1],
        "{keys:?}"
    );
}

#[test]
fn an_output_arrives_whole_or_not_at_all() {
    let answer = |body: &'static str| {
        move |request: &fake_server::Request| match request.path.as_str() {
            "/v1/jobs/1" => FakeAnswer::json(&job(1, "finished")),
            "/v1/jobs/1/outputs/solver/result.txt" => {
                FakeAnswer::new(200, "application/octet-stream", body)
            }
            _ => FakeAnswer::no_such(&request.path),
        }
    };
    let fetch = |server: &Fake, home: &Path| {
        let mut command = cospan(home);
        command
            .env("COSPAN_SERVER", server.address())
            .args(["output", "1", "--to", "out"]);
        command.output().unwrap()
    };
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("out/solver/result.txt");
    let output = fetch(&Fake::start(answer("43\n")), home.path());
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    assert!(
        stdout(&output).contains("differs from what the site had"),
        "{}",
        stdout(&output)
    );
    assert!(!file.exists() && !file.with_extension("txt.part").exists());
    let output = fetch(&Fake::start(answer("42\n")), home.path());
    assert_eq!(code(&output), 0, "{}", stdout(&output));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "42\n");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let server = Fake::start(|_| {
        let at = "2026-03-01T12:00:00Z";
        FakeAnswer::json(&json!({ "jobs": (1..20_000).map(|id: u64| {
            json!({ "id": id, "owner": "a", "state": "queued", "since": at, "submitted_at": at,
                "priority": "low", "components": 1, "processors": 1 })
        }).collect::<Vec<_>>() }))
    });
    let home = tempfile::tempdir().unwrap();
    let mut child = cospan(home.path())
        .env("COSPAN_SERVER", server.address())
        .args(["list", "--all"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0);
    assert_eq!(stderr(&output), "");
}

#[test]
fn an_interrupted_wait_says_how_to_go_on_and_ends_with_130() {
    let server = four_jobs();
    let home = tempfile::tempdir().unwrap();
    let child = cospan(home.path())
        .env("COSPAN_SERVER", server.address())
        .args(["wait", "4"])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    server.wait_until(Duration::from_secs(30), |requests| {
        requests.iter().any(|request| request.path == "/v1/jobs/4")
    });
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130);
    assert!(
        stderr(&output).contains("cospan wait 4"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_same_answer_is_a_table_json_or_yaml() {
    let server = four_jobs();
    let table = run(&server, &["show", "1", "--brief"]);
    assert!(stdout(&table).contains("COMPONENT") && stdout(&table).contains("delft"));
    assert!(
        !stdout(&table).contains('\u{1b}'),
        "colours belong to terminals"
    );
    let json = run(&server, &["show", "1", "--brief", "-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!(value[0]["phase"]["state"], "finished");
    let yaml = run(&server, &["show", "1", "--brief", "-o", "yaml"]);
    assert!(
        stdout(&yaml).contains("state: finished"),
        "{}",
        stdout(&yaml)
    );
}

#[test]
fn every_command_is_in_the_help_and_has_help_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    let help = cospan(home.path()).arg("--help").output().unwrap();
    let text = stdout(&help);
    let listed: Vec<&str> = text
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let expected = include_str!("cli/commands.txt");
    assert_eq!(
        listed,
        expected.lines().collect::<Vec<_>>(),
        "tests/cli/commands.txt"
    );
    for command in listed {
        let help = cospan(home.path())
            .args([command, "--help"])
            .output()
            .unwrap();
        assert_eq!(code(&help), 0, "{command}");
        assert!(stdout(&help).contains("Usage: cospan"), "{command}");
    }
}

#[test]
fn a_job_file_that_is_no_text_is_refused_with_its_line() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(
        home.path().join("job.toml"),
        b"wall_time = \"1h\"\nname = \"\xff\"\n",
    )
    .unwrap();
    let output = cospan(home.path())
        .args(["submit", "job.toml"])
        .output()
        .unwrap();
    assert_eq!(code(&output), 2);
    let said = stderr(&output);
    assert!(
        said.contains("job.toml:2: the text is not UTF-8 here"),
        "{said}"
    );
    assert!(said.contains("save it as UTF-8"), "{said}");
}

#[test]
fn the_support_bundle_holds_no_secret() {
    let server = Fake::start(|request| match request.path.as_str() {
        "/livez" | "/readyz" => FakeAnswer::new(200, "text/plain", "ok\n"),
        "/metrics" => FakeAnswer::new(200, "text/plain", "cospan_jobs 1\n"),
        "/v1/sites" => FakeAnswer::json(&json!({ "sites": [] })),
        "/v1/store" => FakeAnswer::json(&json!({ "engine": "sled", "instance": "abcdefgh",
            "epoch": 1, "seq": 1, "size_bytes": 1, "jobs": 1 })),
        _ => FakeAnswer::no_such(&request.path),
    });
    let home = tempfile::tempdir().unwrap();
    // One that was there may have been everybody's.
    let bundle = home.path().join("bundle.json");
    std::fs::write(&bundle, "{}").unwrap();
    std::fs::set_permissions(&bundle, Permissions::from_mode(0o644)).unwrap();
    let config = "[notify]\nwebhooks = [\"https://hooks.example.org/T0/s3cret\"]\n";
    std::fs::write(home.path().join("cospan.toml"), config).unwrap();
    let token = "cospan_0123456789abcdef0123456789abcdef";
    let output = cospan(home.path())
        .env("COSPAN_SERVER", server.address())
        .env("COSPAN_TOKEN", token)
        .args([
            "doctor",
            "--config",
            "cospan.toml",
            "--bundle",
            "bundle.json",
        ])
        .output()
        .unwrap();
    assert_eq!(std::fs::metadata(&bundle).unwrap().mode() & 0o777, 0o600);
    let bundle = std::fs::read_to_string(bundle).unwrap();
    assert!(
        bundle.contains("cospan_jobs 1") && bundle.contains("hooks.example.org"),
        "{bundle}"
    );
    for secret in ["s3cret", "0123456789abcdef"] {
        assert!(
            !bundle.contains(secret) && !stdout(&output).contains(secret),
            "{secret}"
        );
    }
}

#[test]
fn a_simulation_without_a_grid_is_told_how_to_get_one() {
    let home = tempfile::tempdir().unwrap();
    let output = cospan(home.path()).arg("simulate").output().unwrap();
    assert_eq!(code(&output), 2);
    let said = stderr(&output);
    assert!(
        said.contains("cospan simulate --example") && said.contains("--model"),
        "{said}"
    );
}
